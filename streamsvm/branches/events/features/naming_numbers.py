"""Whether integers, or texts, name things: identifiers, codes, or quantities; and in how many columns they fit.

An identifier is another one in nearly each event, so that nothing learned about it is met again. A code comes again:
its order means nothing, so that it needs a column for each value, or a hash. By their digits alone codes and quantities
look alike; the name of the field, and a held-out half of the events, tell them apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features import held_out
from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.features.recipe import LONGEST_TEXT, Hash, Recipe
from streamsvm.branches.events.features.values import LARGEST_EXACT
from streamsvm.field_paths import Path

MOST_CATEGORIES: Final = 50
"""Values above which a field is hashed: a vocabulary that long is better written by a person."""
MOST_CODES: Final = 400
"""The same where held-out events say that a vocabulary is better: a few such fields fit into `MOST_COLUMNS`."""
FEW_NUMBERS: Final = 12
"""Distinct integers up to which they may be codes."""
PROPOSED_BITS: Final = 7
"""Most bits of a hash: several fields with more would exceed the number of columns that there may be."""
NEARLY_UNIQUE: Final = 0.95
"""Share of distinct values above which a text identifies events: what is learned about a value is not met again."""
LEAST_DIGITS: Final = 4
"""Digits from which numbers of one length are suspected to be codes."""
_NAMING: Final = re.compile(
    "ids?|no|nr|num|number|codes?|key|ref|reference|serial|uuid|zip|zipcode|postcode|plz|account|acct|iban|branch|store|"
    "shop|merchant|vendor|supplier|seller|customer|client|user|member|device|terminal|station|sku|mcc|sic|naics|fips|"
    "isbn|ean|phone"
)
"""Last words of the names of fields that name things."""
_BEFORE_LAST: Final = re.compile("as|at|by|for|from|in|of|per|since|to|with")
"""What stands between a quantity and the thing that it is of, as in `seconds_by_device`; `code_of_branch` is a name."""
_QUANTITY: Final = re.compile(
    "amount|price|costs?|fees?|revenue|balance|money|salary|income|usd|eur|gbp|payment|turnover|budget|cents|gain|loss|"
    "counts?|total|sum|duration|size|bytes|population|distance|length|weight|height|volume|score|rate"
)
"""Words in the names of fields that measure or count things."""
_PHONE: Final = re.compile("phone|telephone|tel|mobile|fax")
_ID: Final = re.compile("(?=.*[0-9])[A-Za-z0-9]+(?:[-_:][A-Za-z0-9]+)*", re.ASCII)
_WORD: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def words_of(path: Path) -> list[str]:
    """Return the words of a field's name, in lower case: `createdAt` has two, and `update` is one."""
    return [word.lower() for word in _WORD.findall(str(path[-1]))]


def is_id(path: Path) -> bool:
    """Return whether a field is the event's own identifier by its name."""
    words = _main_words(path)
    return bool(words) and words[-1] in ("id", "uuid", "key", "no", "nr", "number")


def is_id_text(path: Path, values: Collection[str]) -> bool:
    """Return whether different texts are the events' own identifiers: by the name, or as they mix figures and letters.

    Phone numbers, amounts and prose differ in each event, too.
    """
    if any(map(_PHONE.fullmatch, words_of(path))) or any(re.search(r"\s", value) for value in values):
        return False
    mixed = sum(re.search("[A-Za-z]", value) is not None for value in values)
    return is_id(path) or (2 * mixed > len(values) and all(map(_ID.fullmatch, values)))


def is_quantity(path: Path) -> bool:
    """Return whether a field measures or counts by its name, so that it is neither a time nor an identifier."""
    return any(map(_QUANTITY.fullmatch, (*words_of(path), *_main_words(path)))) and not is_naming(path)


def _main_words(path: Path) -> list[str]:
    """Return the words of a field's name, of `visits_per_customer` only the first; a number of things is a count.

    What is `updated_by_user` is the user.
    """
    words = words_of(path)
    if len(words) < 3 or _BEFORE_LAST.fullmatch(words[-2]) is None or words[-3].endswith("ed"):
        return words
    return ["count"] if words[-3] in ("no", "nr", "num", "number") else words[:-2]


def is_naming(path: Path) -> bool:
    """Return whether a field names things by its own name."""
    words = _main_words(path)
    return bool(words) and _NAMING.fullmatch(words[-1]) is not None


@dataclass(frozen=True, slots=True)
class Shape:
    """What the digits of numbers look like."""

    whole: bool
    one_length: int | None
    exact: bool
    distinct: int
    events: int

    @classmethod
    def of(cls, distinct: Counter[Any]) -> Shape:
        """Look at distinct values; whole ones without a sign have a length."""
        whole = all(float(value).is_integer() for value in distinct)
        lengths = {len(str(int(value))) for value in distinct} if whole and min(distinct) >= 0 else set()
        exact = all(abs(value) <= LARGEST_EXACT for value in distinct)
        length = lengths.pop() if len(lengths) == 1 else None
        return cls(whole, length, exact, len(distinct), distinct.total())

    @property
    def nearly_unique(self) -> bool:
        """Whether nearly all events have another value."""
        return self.events >= held_out.LEAST_COUNTED and self.distinct > NEARLY_UNIQUE * self.events


def is_identifier(path: Path, shape: Shape, present: Sequence[Any], labels: NDArray[Any] | None) -> bool:
    """Return whether numbers identify events: by their name, their size, or their digits where the order says nothing.

    Of numbers of one length whose order says something about the labels, such as amounts, nobody can tell.
    """
    if not (shape.whole and shape.nearly_unique):
        return False
    if is_naming(path) or not shape.exact:
        return True
    if is_quantity(path) or shape.one_length is None or shape.one_length <= LEAST_DIGITS:
        return False
    return labels is None or not held_out.is_larger(
        held_out.area_in_order(np.array(present, np.float64), labels), 0.5, labels
    )


def as_codes(
    path: Path, shape: Shape, present: Sequence[Any], labels: NDArray[Any] | None
) -> tuple[Mapping[str, Any], str] | None:
    """Return how integers are proposed as codes, and why; None if they are quantities."""
    naming = is_naming(path) or not shape.exact
    if not shape.whole or not (naming or min(present) >= 0) or shape.distinct < 3:
        return None
    texts = [str(int(value)) for value in present]
    if labels is None:
        found = vocabulary_or_hash(texts, None) if naming else None
        return None if found is None else (found[0], f"{found[1]}; they name things by the field's name")
    _, codes = held_out.coded(texts)
    by_value = held_out.area_by_values(codes, labels)
    by_order = held_out.area_in_order(np.array(present, np.float64), labels)
    areas = f"as codes they order held-out events by an AUC of {by_value:.3f}, as a number {by_order:.3f}"
    if held_out.is_larger(by_value, by_order, labels):
        options, why = vocabulary_or_hash(texts, labels)
        return options, f"{why}; {areas}"
    if naming and not (shape.exact and held_out.is_larger(by_order, max(by_value, 0.5), labels)):
        options, why = vocabulary_or_hash(texts, labels)
        return options, f"{why}; they name things: {areas}"
    return None


def vocabulary_or_hash(values: Sequence[str], labels: NDArray[Any] | None) -> tuple[Mapping[str, Any], str]:
    """Return a vocabulary of few values, or of more where that is better for held-out events; or else a hash."""
    distinct = Counter(values)
    ranked = sorted(distinct, key=lambda value: (-distinct[value], value))
    shown = [value for value in ranked if value.isprintable() and len(value) <= LONGEST_TEXT]
    vocabulary = {"as": "category", "values": shown}
    left = len(distinct) - len(shown)
    left_out = f", {left} of which are left out, because they are long or cannot be printed" if left else ""
    if len(distinct) <= MOST_CATEGORIES:
        return vocabulary, f"{len(distinct)} values{left_out}"
    options, why = _hash(distinct)
    if labels is None or len(distinct) > MOST_CODES or len(shown) < len(distinct):
        return options, why
    kinds, codes = held_out.coded(values)
    columns, signs = _hashed(kinds, options["bits"])
    by_value = held_out.area_by_values(codes, labels)
    by_hash = held_out.area_by_values(columns[codes], labels, signs[codes])
    if by_value <= by_hash:
        return options, why
    better = (
        f"orders held-out events by an AUC of {by_value:.3f}, a hash of {2 ** options['bits']} columns {by_hash:.3f}"
    )
    return vocabulary, f"{len(distinct)} values; a vocabulary {better}"


def _hash(distinct: Counter[str]) -> tuple[dict[str, Any], str]:
    """Propose at most a column for each value that came twice: nothing is learned from one that comes once."""
    repeated = sum(count > 1 for count in distinct.values())
    bits = min(PROPOSED_BITS, max(1, repeated.bit_length() - 1))
    why = (
        f"{len(distinct)} values in the sample, too many for a vocabulary; it costs {2**bits} columns, which "
        f"{'several values share' if len(distinct) > 2**bits else 'few values share'}"
    )
    return {"as": "hash", "bits": bits}, why


def _hashed(values: Sequence[str], bits: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the column of each value by a hash, and what stands there."""
    X = (
        columns_of(Recipe(features=(Hash(name="value", field=("value",), bits=bits),)))
        .of_fields({("value",): values}, len(values))
        .X
    )
    columns = np.abs(X).argmax(axis=1)
    return columns, X[np.arange(len(X)), columns]
