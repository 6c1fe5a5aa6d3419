"""Proposes features from a sample of events: what each field looks like, and what a person should look at.

A proposal is a beginning. It knows the sample only: not which fields are known when an event happens, nor what a number
means.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.date_notations import looks_like_dates, looks_like_durations
from streamsvm.branches.events.features.declaring import written as written_path
from streamsvm.branches.events.features.held_out import (
    LEAST_COUNTED,
    area_by_shares,
    area_by_values,
    area_in_order,
    coded,
    enough,
    explains,
    logarithm_gain,
    orders,
    signed_logarithm,
)
from streamsvm.branches.events.features.naming_numbers import (
    FEW_NUMBERS,
    LEAST_DIGITS,
    MOST_CATEGORIES,
    NEARLY_UNIQUE,
    PROPOSED_BITS,
    Shape,
    as_codes,
    is_id,
    is_id_text,
    is_identifier,
    is_quantity,
    vocabulary_or_hash,
    words_of,
)
from streamsvm.branches.events.features.recipe import MOST_COLUMNS
from streamsvm.branches.events.features.text_numbers import MOSTLY, Written, as_text
from streamsvm.branches.events.features.values import MICROSECONDS, time_of_text
from streamsvm.field_paths import Path, Unreachable, picked, shown, unreadable
from streamsvm.model.described import MOST_LABELS, Label as LabelValue
from streamsvm.model.features import shown_names
from streamsvm.model.positive_label import TwoLabels, two_labels
from streamsvm.points import LARGEST_FEATURE, is_lost_as_float32

LABEL_NAMES: Final = ("y", "label", "class", "target")
WEIGHT_NAMES: Final = ("weight", "weights", "sample_weight")
SEPARATES: Final = 0.995
"""Area under the curve, of one field alone, from which it is suspected to know the label."""
LONG_TAIL: Final = 100.0
"""Times the median of all but 0 that a largest value is, for a logarithm to be proposed unless labels contradict."""
TAIL: Final = 4.0
"""The same where labels say that the logarithm is better: of a uniform number it is 2."""
UNWEIGHTED: Final = 0.25
"""Share of the rarer label below which balanced weights are proposed: with none, the hinge loss may answer one label
for nearly all rows, and then their order, and the area under the curve, are arbitrary."""
_EPOCHS: Final = {"s": (5e8, 2.6e9), "ms": (5e11, 2.6e12), "us": (5e14, 2.6e15), "ns": (5e17, 2.6e18)}
"""From 1985 to 2052."""
_TIME_WORD: Final = re.compile("times?|ms|ns|date|datetime|timestamp|ts|at|when|epoch|unixtime|created|updated")
MARKERS: Final = frozenset(
    [*(sign * (10**digits - 1) for digits in range(1, 10) for sign in (1, -1)), -1, -8, -88, -888, 88_888, 8_888]
)
"""Numbers that stand for a missing value where they lie far outside of the rest."""
LEAST_COPIED: Final = 3
"""Events of the rarer label from which a field of two values that say it is a copy: by chance, one in a thousand is."""
LEAST_MARKED: Final = 0.002
"""Share of the events that have such a number."""
_DAY: Final = 86_400 * MICROSECONDS
_PER_UNIT: Final = {"s": MICROSECONDS, "ms": MICROSECONDS // 1_000, "us": 1}
_MOST_OF_ALL: Final = f"as all fields may have {MOST_COLUMNS:,}"
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_YEAR: Final = 365 * _DAY
_ORDERED: Final = (
    "a date, whose order says something about the labels: send how many days ago it was, or name a time of the event "
    'with parts = ["age"] and this field as since'
)
_NOT_READ: Final = (
    "dates or times that `time` does not read: write them as 2024-05-17T10:45:00, or as seconds since 1970"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Events of a stream, in its order.

    Attributes
    ----------
    events : list of mappings
    places : list of int
        Of each event in the stream, from 0.
    of : int
        How many events the stream has.
    """

    events: list[Mapping[str, Any]]
    places: list[int]
    of: int


def drawn(stream: Iterable[Mapping[str, Any]], most: int) -> Sample:
    """Return all events of a stream, or a uniform sample of them; the same one each time.

    The first events of a file say little about it: most files stand in an order, of time for example, in which a field
    comes into use late and a label's share changes. Vitter's algorithm R (1985).
    """
    chance, count = np.random.default_rng(0), 0
    kept: list[tuple[int, Mapping[str, Any]]] = []
    for place, event in enumerate(stream):
        count = place + 1
        if place < most:
            kept.append((place, event))
        elif (seat := int(chance.integers(count))) < most:
            kept[seat] = (place, event)
    kept.sort(key=lambda one: one[0])
    return Sample([event for _, event in kept], [place for place, _ in kept], count)


@dataclass(frozen=True, slots=True)
class FieldProposal:
    """What is proposed for a field.

    Attributes
    ----------
    path : Path
        Where it stands.
    options : mapping or None
        Of the feature, without its field; None where none is proposed.
    why : str
        What was seen, for the person who decides.
    borders : tuple of float
        Between the numbers that stand for a missing value and the others: the buckets of a second feature.
    wide : bool
        Whether float32 makes different values of the column the same.
    """

    path: Path
    options: Mapping[str, Any] | None
    why: str
    borders: tuple[float, ...] = ()
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed for the events of a sample.

    Attributes
    ----------
    fields : tuple of FieldProposal
    label : (Path, TwoLabels or tuple of labels) or None
        Its field, and which of its values is positive, or all of more than two values; None if no field was recognised
        as the label.
    rare : (value, float) or None
        The rarer label and its share, if balanced class weights are proposed.
    id : Path or None
        The field that is taken for the id.
    events : int
    unlabeled : int
        How many of them have no label, though others have.
    """

    fields: tuple[FieldProposal, ...]
    label: tuple[Path, TwoLabels | tuple[LabelValue, ...]] | None
    rare: tuple[Any, float] | None
    id: Path | None
    events: int
    unlabeled: int = 0


def proposal(
    events: Sequence[Mapping[str, Any]],
    label: Path | None = None,
    markers: Mapping[str, Mapping[str, int]] | None = None,
    places: Sequence[int] | None = None,
    positive: str | None = None,
    *,
    of_cells: bool = False,
) -> Proposal:
    """Propose features for events.

    Parameters
    ----------
    events : sequence of mappings
        At least one, of JSON's types.
    label : Path, optional
        The label's field. Default: the one field that is called y, label, class or target.
    markers : mapping, optional
        Of each field of the first level, how often which text was taken for a missing value.
    places : sequence of int, optional
        Of each event in its stream. Default: they follow one another.
    positive : str, optional
        The positive label, as it is written. Default: by its name, or the rarer one.
    of_cells : bool
        Whether the events were cells of text, so that an integer of any length can be a category or hashed.

    Raises
    ------
    ValueError
        If no event has the label, if the label does not have two to `MOST_LABELS` values of one type, or if `positive`
        is none of two.
    """
    places = range(len(events)) if places is None else places
    paths = list(dict.fromkeys(path for event in events for path in _leaves(event)))
    whole: list[Path] = [(name,) for name in markers or ()]
    paths += [path for path in whole if path not in paths]
    if label is None:
        named = [path for path in paths if len(path) == 1 and str(path[0]).lower() in LABEL_NAMES]
        label = named[0] if len(named) == 1 else None
    if label is not None and label not in whole and all(value is None for value in picked(events, label)):
        some = shown_names(map(shown, paths))
        raise ValueError(f"no event has a value of {shown(label)}: the fields are {some}")
    taken = {} if label is None else (markers or {}).get(shown(label), {})
    answers = None if label is None else _label(picked(events, label), label, taken, positive)
    unread = dict(found for event in events for found in unreadable(event))
    identifier: Path | None = None
    found = []
    for path in paths:
        if path == label:
            continue
        values = picked(events, path)
        unread.update((path, value.why) for value in values if isinstance(value, Unreachable))
        one = (
            _unusable(path, unread)
            or _counter(path, values, places)
            or _field(path, values, answers, of_cells=of_cells)
        )
        if one.options is None and one.why.startswith(f"{_IDENTIFIER}:") and identifier is None:
            identifier = path
        found.append(_with_markers(one, (markers or {}).get(str(path[0]), {}) if len(path) == 1 else {}))
    found = _within_columns([_as_age(one, found, events, answers) for one in found])
    labels = None if label is None or answers is None else (label, answers.two or answers.all)
    rare = None if answers is None else answers.rare()
    unlabeled = 0 if answers is None else int((answers.of < 0).sum())
    return Proposal(tuple(found), labels, rare, identifier, len(events), unlabeled)


def _within_columns(found: list[FieldProposal]) -> list[FieldProposal]:
    """Return the proposals, the widest texts hashed, or into fewer bits, until they have at most `MOST_COLUMNS`.

    Where that is not enough, the last fields are left out.
    """
    made, total = list(found), sum(map(_width, found))
    for bits in range(PROPOSED_BITS, 0, -1):
        for at, one in enumerate(found):
            if total <= MOST_COLUMNS or one.options is None or one.options["as"] not in ("category", "hash"):
                continue
            options = {option: value for option, value in one.options.items() if option != "values"}
            why = f"{one.why}; hashed into {2**bits} columns, {_MOST_OF_ALL}"
            hashed = replace(one, options={**options, "as": "hash", "bits": bits}, why=why)
            if (fewer := _width(made[at]) - _width(hashed)) > 0:
                made[at] = hashed
                total -= fewer
    total = 0
    for at, one in enumerate(made):
        total += _width(one)
        if total > MOST_COLUMNS and one.options is not None:
            made[at] = FieldProposal(one.path, None, f"{one.why}; left out, {_MOST_OF_ALL}")
    return made


def _width(one: FieldProposal) -> int:
    """Return how many columns a proposal has at most."""
    options = one.options or {"values": ()}
    own: dict[str, int] = {
        "category": len(options.get("values", ())) + 1,
        "hash": 1 << options.get("bits", 0),
        "time": 4,
    }
    missing = options.get("missing") == "indicator"
    return own.get(options.get("as", ""), int(one.options is not None)) + int(missing) + 2 * len(one.borders)


_IDENTIFIER: Final = "identifier"
_PANDAS_INDEX: Final = re.compile(r"__index_level_\d+__|Unnamed: \d+")


def _unusable(path: Path, unread: Mapping[Path, str]) -> FieldProposal | None:
    """Return that a field is of no use, if its values cannot be read or it is the index of a data frame."""
    if path in unread:
        return FieldProposal(path, None, f"cannot be read: {unread[path]}")
    if len(path) == 1 and _PANDAS_INDEX.fullmatch(str(path[0])):
        return FieldProposal(path, None, "pandas' index, or a column without a name: name it, if it is a feature")
    return None


@dataclass(frozen=True, slots=True)
class _Labels:
    """The labels, of two the negative one first, and which of them each event has (-1: none)."""

    all: tuple[LabelValue, ...]
    two: TwoLabels | None
    of: NDArray[np.int8]

    def among(self, values: Sequence[Any]) -> NDArray[np.int8] | None:
        """Return the labels of the events that have a value; None where they are too few to say anything."""
        labels = self.of[np.array([value is not None for value in values])]
        return labels if enough(labels) else None

    def rare(self) -> tuple[Any, float] | None:
        """Return the rarer of two labels and its share, if that is below `UNWEIGHTED`."""
        two = self.two
        if two is None:
            return None
        share = two.share
        value, less = (two.positive, share) if share <= 0.5 else (two.negative, 1.0 - share)
        return (value, less) if less < UNWEIGHTED else None


def _label(values: Sequence[Any], path: Path, markers: Mapping[str, int], positive: str | None) -> _Labels:
    values = [_hashable(value) for value in values]
    kinds = sorted({(type(v).__name__, v) for v in values if v is not None})
    if len({kind for kind, _ in kinds}) != 1 or not 2 <= len(kinds) <= MOST_LABELS:
        some = ", ".join(repr(value) for _, value in kinds[:5]) or "none"
        some += f", ...: {len(kinds):,}" if len(kinds) > MOST_LABELS else ""
        taken = f" ({_markers_text(markers)})" if markers else ""
        raise ValueError(
            f"the label {shown(path)} must have 2 to {MOST_LABELS} values of one type, but the sample has {some}{taken}"
        )
    labels, two = tuple(value for _, value in kinds), None
    if len(labels) == 2:
        two = two_labels(Counter(value for value in values if value is not None), positive)
        labels = two.negative, two.positive
    elif positive is not None:
        raise ValueError(f"the label {shown(path)} has {len(labels)} values: only of two one is positive")
    places = {value: place for place, value in enumerate(labels)}
    return _Labels(labels, two, np.array([places.get(value, -1) for value in values], np.int8))


def _hashable(value: Any) -> Any:
    """Return a value that can be a label, a whole number as an integer; None for others."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, bool | int | str) else None


def _leaves(value: Mapping[str, Any], outer: Path = ()) -> Iterator[Path]:
    """Yield the fields of an event that hold no object; of an array only the array."""
    for name, inner in value.items():
        if not name:
            continue
        if isinstance(inner, Mapping):
            yield from _leaves(inner, (*outer, name))
        else:
            yield (*outer, name)


def _counter(path: Path, values: Sequence[Any], places: Sequence[int]) -> FieldProposal | None:
    """Return that a field counts the events of its stream, if it does."""
    if len(values) < LEAST_COUNTED or _is_time(path):
        return None
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return None
    steps = zip(pairwise(values), pairwise(places), strict=True)
    if any(second - first != later - former for (first, second), (former, later) in steps):
        return None
    return FieldProposal(path, None, f"{_IDENTIFIER}: it counts the events")


def _field(path: Path, values: Sequence[Any], answers: _Labels | None, *, of_cells: bool) -> FieldProposal:
    present = [value for value in values if value is not None]
    kinds = set(map(_kind, present))
    if not present:
        return FieldProposal(path, None, "always missing in the sample")
    if (beyond := _beyond(path, present)) is not None:
        return beyond
    if kinds <= {"str", "number"} and (dates := _dates(path, present, kinds)) is not None:
        return dates
    written = _notation(present, kinds)
    if written is not None:
        return _written(path, values, written, answers, of_cells=of_cells)
    if kinds & {"list", "dict"}:
        return FieldProposal(path, None, "not a single value: declare the element that counts, such as items[0]")
    if len(kinds) > 1:
        return FieldProposal(path, None, f"mixed types ({_kinds_text(present)}): fix the producer, or choose one kind")
    distinct = Counter(present)
    if len(distinct) == 1 and len(present) == len(values):
        return FieldProposal(path, None, f"constant: every event has {_value_text(present[0])}")
    (kind,) = kinds
    labels = None if answers is None else answers.among(values)
    if kind == "bool":
        made = FieldProposal(path, {"as": "flag"}, f"true in {distinct[True] / distinct.total():.1%}")
    elif kind == "str":
        made = _text(path, present, distinct, labels, of_cells=of_cells)
    else:
        made = _number(path, present, distinct, labels, of_cells=of_cells)
    if answers is not None and (known := _leak(made, values, answers)) is not None:
        return FieldProposal(path, None, f"leak suspected: {known}; is it known when the event happens?")
    return _with_missing(made, present, np.array([value is not None for value in values]), answers)


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _kinds_text(present: Sequence[Any]) -> str:
    """Return the types of values, how many there are of each, and which values of the rarer ones."""
    kinds = Counter(map(_kind, present))
    said = {kind: f"{count:,} {kind}" for kind, count in sorted(kinds.items())}
    for kind in sorted(kinds, key=kinds.__getitem__)[:-1]:
        values = Counter(str(value) for value in present if _kind(value) == kind)
        said[kind] += " such as " + ", ".join(f"{n:,} {_value_text(value)}" for value, n in values.most_common(3))
    return "; ".join(said.values())


def _beyond(path: Path, present: Sequence[Any]) -> FieldProposal | None:
    """Return that some values are numbers too large for a feature, if they are."""
    if max((abs(v) for v in present if isinstance(v, int | float)), default=0) <= LARGEST_FEATURE["float32"]:
        return None
    return FieldProposal(path, None, f"numbers beyond the range of a feature, {LARGEST_FEATURE['float32']:.2g}")


def _notation(present: Sequence[Any], kinds: set[str]) -> Written | None:
    """Return how values that are no numbers of JSON, or some of them, write numbers; None if they do not."""
    if not kinds <= {"str", "number"} or "str" not in kinds:
        return None
    texts = list(dict.fromkeys(value for value in present if isinstance(value, str)))
    many = len(texts) > MOST_CATEGORIES
    if (len(texts) > FEW_NUMBERS or "number" in kinds) and (found := as_text(texts, many=many)) is not None:
        return found
    return None


def _written(
    path: Path, values: Sequence[Any], written: Written, answers: _Labels | None, *, of_cells: bool
) -> FieldProposal:
    """Return what is proposed for numbers in another notation than JSON's."""
    if written.options is None or written.parse is None:
        distinct = len({value for value in values if isinstance(value, str)})
        return FieldProposal(path, None, f"{distinct} values, {written.why}")
    read = [value if value is None or isinstance(value, int | float) else written.parse(value) for value in values]
    present = [value for value in read if value is not None]
    if (beyond := _beyond(path, present)) is not None:
        return beyond
    labels = None if answers is None else answers.among(read)
    made = _quantity(path, present, Counter(present), labels)
    assert made.options is not None
    unread = Counter(value for value, number in zip(values, read, strict=True) if number is None and value is not None)
    why = f"{written.why}; {made.why}{_unread(unread, of_cells=of_cells)}"
    made = replace(made, options={**made.options, **written.options}, why=why)
    if answers is not None and (known := _leak(made, read, answers)) is not None:
        return FieldProposal(path, None, f"leak suspected: {known}; is it known when the event happens?")
    there = np.array(
        [number is not None or (value in unread and not of_cells) for number, value in zip(read, values, strict=True)]
    )
    return _with_missing(made, present, there, answers)


def _unread(texts: Counter[str], *, of_cells: bool) -> str:
    """Say what becomes of the texts that a feature cannot read."""
    if not texts:
        return ""
    some = ", ".join(f"{count:,} {_value_text(text)}" for text, count in texts.most_common(3))
    some += f" and {len(texts) - 3} others" if len(texts) > 3 else ""
    return f"; {some} taken as missing" if of_cells else f"; {some} cannot be read, and become dead letters"


def _dates(path: Path, present: Sequence[Any], kinds: set[str]) -> FieldProposal | None:
    """Return that values are dates or times in a notation that no feature reads, if they are."""
    distinct = list(dict.fromkeys(present))
    if len(distinct) == 1 or (kinds == {"str"} and _times_of(distinct)):
        return None
    if looks_like_durations(distinct):
        why = "look like durations: send seconds (of times of day, since midnight)"
        return FieldProposal(path, None, f"values such as {_value_text(distinct[0])} {why}")
    if not looks_like_dates(distinct):
        return None
    return FieldProposal(path, None, f"values such as {_value_text(distinct[0])} look like {_NOT_READ}")


def _number(
    path: Path, present: Sequence[Any], distinct: Counter[Any], labels: NDArray[np.int8] | None, *, of_cells: bool
) -> FieldProposal:
    low, high = min(distinct), max(distinct)
    if set(distinct) == {0, 1}:
        return FieldProposal(path, {"as": "flag"}, f"0 or 1; 1 in {distinct[1] / distinct.total():.1%}")
    for format_, (first, last) in _EPOCHS.items() if _is_time(path) else ():
        if first <= low and high <= last and format_ == "ns":
            return FieldProposal(path, None, "a time, counted in ns: send us, as many as 2^53 can hold")
        if first <= low and high <= last:
            covered = _covered((high - low) * _PER_UNIT[format_])
            return FieldProposal(path, {"as": "time", "format": format_}, f"a time, counted in {format_}{covered}")
    shape = Shape.of(distinct)
    if is_identifier(path, shape, present, labels):
        why = _identifier(len(distinct), len(present), exact=shape.exact)
        return FieldProposal(
            path,
            None,
            why
            if is_id(path) and shape.exact
            else f"integers, {'' if why.startswith('nearly') else 'perhaps an '}{why}",
        )
    if not (shape.exact or of_cells):
        what = f"{len(distinct)} integers beyond 2^53, of which a number loses digits"
        return FieldProposal(path, None, f'{what}: send them as text, and declare a category, or as = "hash"')
    if (found := as_codes(path, shape, present, labels)) is not None:
        return FieldProposal(path, *found)
    return _quantity(path, present, distinct, labels)


def _quantity(
    path: Path, present: Sequence[Any], distinct: Counter[Any], labels: NDArray[np.int8] | None
) -> FieldProposal:
    """Return what is proposed for a number whose order means something."""
    options: dict[str, Any] = {"as": "number"}
    rest, borders = _marked(distinct)
    low, high = min(rest), max(rest)
    why = f"{low:.6g} to {high:.6g}"
    values = np.array(present, np.float64)
    if borders:
        options["clip"] = [low, high]
        values = np.clip(values, low, high)
        marks = " and ".join(f"{mark:.6g} in {distinct[mark] / distinct.total():.1%}" for mark in distinct - rest)
        why += f", and {marks}, which seems to stand for a missing value: clipped, and a feature of its own"
    sizes = np.abs(values[(values != 0) & (values == np.array(present, np.float64))])
    with np.errstate(over="ignore"):
        times = float(sizes.max() / np.median(sizes)) if len(sizes) else 0.0
    gain = logarithm_gain(values, labels) if times > TAIL and labels is not None else 0.0
    has_long_tail = low >= 0 and times > LONG_TAIL
    if gain > 1.0 or (has_long_tail and gain > -1.0):
        options["log1p"] = True
        why += f", {times:.0f} times the median" + ("" if low >= 0 else " of sizes without a sign")
        why += ", and the logarithm says more of held-out labels" if gain > 1.0 else ""
    shape = Shape.of(rest)
    if shape.whole and len(rest) <= FEW_NUMBERS:
        why += f'; {len(rest)} values only: as = "category" if they are codes'
    elif shape.one_length is not None and shape.one_length >= LEAST_DIGITS:
        why += f'; all have {shape.one_length} digits: as = "hash" if they are codes'
    wide = is_lost_as_float32(signed_logarithm(values) if "log1p" in options else values)
    if path[-1] in WEIGHT_NAMES:
        why += f'; if it says how much an event counts: events.weight = "{path[-1]}", and no feature'
    if wide:
        why += "; float32 rounds it to fewer values"
    return FieldProposal(path, options, why, borders, wide)


def _marked(distinct: Counter[Any]) -> tuple[Counter[Any], tuple[float, ...]]:
    """Return the values that do not stand for a missing one, and borders between them and those that do.

    A marker is one of `MARKERS`, comes often, and is the only negative number, or lies farther from the others than
    they do from one another.
    """
    rest, borders = Counter(distinct), list[float]()
    for outermost in (min, min, max):
        mark = outermost(rest)
        others = [value for value in rest if value != mark]
        if len(others) <= FEW_NUMBERS or mark not in MARKERS:
            continue
        low, high = min(others), max(others)
        is_far = max(low - mark, mark - high) > high - low
        is_frequent = rest[mark] >= max(5, LEAST_MARKED * distinct.total())
        if is_frequent and (is_far or mark < 0 <= low):
            borders.append((mark + (low if mark < low else high)) / 2.0)
            del rest[mark]
    return rest, tuple(sorted(borders))


def _identifier(distinct: int, events: int, exact: bool) -> str:
    """Say that a field identifies events, or nearly."""
    far = "" if exact else "; beyond 2^53 a number loses digits, so send text"
    if distinct == events:
        return f"{_IDENTIFIER}: no two events have the same{far}"
    return f"nearly an {_IDENTIFIER}: {distinct / events:.1%} of its values differ from all others{far}"


def _is_time(path: Path) -> bool:
    """Return whether a field is a time by its name."""
    return any(map(_TIME_WORD.fullmatch, words_of(path))) and not is_quantity(path)


def _covered(micros: float) -> str:
    """Say if the times of the sample lie closer together than the period of a part of the feature."""
    if micros < _DAY:
        return f"; the sample covers {micros / _DAY * 24:.1f} hours, less than a day, so hour and weekday say little"
    if micros < 7 * _DAY:
        return f'; the sample covers {micros / _DAY:.1f} days, less than a week: parts = ["hour"] omits the weekday'
    return ""


def _times_of(distinct: Collection[str]) -> list[tuple[int, bool]]:
    """Return the times that nearly all texts are, and whether each is of a zone's clocks; none if they are not."""
    times = [time for value in distinct if (time := time_of_text(value)) is not None]
    return times if len(times) >= MOSTLY * len(distinct) else []


def _text(
    path: Path, present: Sequence[str], distinct: Counter[str], labels: NDArray[np.int8] | None, *, of_cells: bool
) -> FieldProposal:
    if times := _times_of(distinct):
        local = any(is_local for _, is_local in times)
        why = "a time without an offset: give its zone" if local else "a time; for local hours give a zone"
        micros = [time for time, _ in times]
        options: dict[str, Any] = {"as": "time"}
        if all(map(_DATE.fullmatch, distinct)):
            order = np.array([_micros(text) for text in present], np.float64)
            is_ordered = labels is not None and orders(order, labels)
            why = _ORDERED if is_ordered else "a date"
            options |= {"parts": ["weekday", "month"]} if max(micros) - min(micros) >= _YEAR else {}
        unread = Counter({text: count for text, count in distinct.items() if time_of_text(text) is None})
        options |= {"missing": "indicator"} if unread and of_cells else {}
        why += _covered(max(micros) - min(micros)) + _unread(unread, of_cells=of_cells)
        return FieldProposal(path, options, why)
    if len(present) >= LEAST_COUNTED and len(distinct) > NEARLY_UNIQUE * len(present):
        why = _identifier(len(distinct), len(present), exact=True)
        doubt = "perhaps an " if why.startswith(_IDENTIFIER) and not is_id_text(path, distinct) else ""
        return FieldProposal(path, None, doubt + why)
    return FieldProposal(path, *vocabulary_or_hash(present, labels))


def _as_age(
    one: FieldProposal, found: Sequence[FieldProposal], events: Sequence[Mapping[str, Any]], answers: _Labels | None
) -> FieldProposal:
    """Return a date whose order counts as the age at the first later time whose distance says something, too."""
    if answers is None or not one.why.startswith(_ORDERED):
        return one
    begun = picked(events, one.path)
    for other in found:
        options = other.options or {}
        if other is one or options.get("as") != "time" or "format" in options:
            continue
        pairs = zip(begun, picked(events, other.path), answers.of.tolist(), strict=True)
        known = [(_micros(end) - _micros(start), label) for start, end, label in pairs if start and end and label >= 0]
        ages, labels = np.array(known, np.float64).reshape(-1, 2).T
        if len(known) and np.mean(ages >= 0) >= MOSTLY and orders(ages, labels.astype(np.int8)):
            missing = {"missing": "indicator"} if "missing" in {**(one.options or {}), **options} else {}
            age = {"as": "time", "field": written_path(other.path), "parts": ["age"], "since": written_path(one.path)}
            return replace(
                one, options={**age, **missing}, why=f"its days before {shown(other.path)}, whose order says something"
            )
    return one


def _with_missing(
    made: FieldProposal,
    present: Sequence[Any],
    there: NDArray[np.bool_],
    answers: _Labels | None,
) -> FieldProposal:
    """Propose what a missing value is: of a number the mean, unless its presence says something about the labels."""
    if made.options is None or there.all():
        return made
    missing: Any = "indicator"
    why = f"{made.why}; missing in {1 - there.mean():.1%}"
    says = answers is not None and explains(there.astype(np.float64), answers.of)
    if made.options["as"] == "number" and len(set(present)) > 1:
        if says:
            why += ", which says something about the labels"
        else:
            known = np.array(present, np.float64)
            known = np.clip(known, *made.options["clip"]) if made.borders else known
            missing = {"constant": float(f"{np.mean(known):.6g}")}
    return replace(made, options={**made.options, "missing": missing}, why=why)


def _with_markers(made: FieldProposal, markers: Mapping[str, int]) -> FieldProposal:
    """Say how many cells of a field were taken for missing by what stood in them."""
    if not markers:
        return made
    is_text = made.options is not None and made.options["as"] in ("category", "hash")
    hint = "; what is a value must be among the values of a category" if is_text else ""
    return replace(made, why=f"{made.why}; {_markers_text(markers)}{hint}")


def _markers_text(markers: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_value_text(text)}" for text, count in sorted(markers.items())) + " taken as missing"


def _leak(made: FieldProposal, values: Sequence[Any], answers: _Labels) -> str | None:
    """Say how a field knows the label: by being there for one label only, or by its values; None if it does not."""
    there = np.array([value is not None for value in values])
    if (one := _one_sided(there, answers)) is not None:
        return one
    if made.options is None:
        return None
    labeled = [(v, a) for v, a in zip(values, answers.of.tolist(), strict=True) if v is not None and a >= 0]
    if _is_copy(Counter(labeled)):
        return "it is a copy of the label"
    known, labels = [value for value, _ in labeled], np.array([label for _, label in labeled])
    if made.options["as"] == "time" and "format" not in made.options:
        known = [_micros(text) for text in known]
    by_value = made.options["as"] in ("category", "hash")
    found = _separation(known, labels, by_value=by_value)
    return f"alone it separates the labels (AUC {found:.3f})" if found >= SEPARATES else None


def _is_copy(pairs: Counter[tuple[Any, int]]) -> bool:
    """Return whether each of two values of a field comes with a label of its own, more often than by chance."""
    values, labels = ({pair[side] for pair in pairs} for side in (0, 1))
    is_frequent = pairs.total() >= LEAST_COUNTED and min(pairs.values()) >= LEAST_COPIED
    return is_frequent and len(pairs) == len(values) == len(labels) == 2


def _micros(text: str) -> int:
    """Return the microseconds of a time, to put it in order; 0 for a text that cannot be read as one."""
    found = time_of_text(text)
    return 0 if found is None else found[0]


def _one_sided(there: NDArray[np.bool_], answers: _Labels) -> str | None:
    """Say that a field is present, or missing, for one label only, or that its presence separates the labels.

    "For one label only" needs `LEAST_COUNTED` events of the other label that would have it by chance.
    """
    known = answers.of >= 0
    presence, labels = there[known], answers.of[known]
    for what, has in (("present", presence), ("missing", ~presence)):
        for label, value in enumerate(answers.all):
            others = labels != label
            if not has[others].any() and has.sum() * others.mean() >= LEAST_COUNTED:
                return f"it is {what} for {_value_text(value)} only"
    found = _separation(presence.tolist(), labels, by_value=True)
    return f"whether it is present separates the labels (AUC {found:.3f})" if found >= SEPARATES else None


def _separation(values: Sequence[Any], labels: NDArray[Any], *, by_value: bool) -> float:
    """Return the area under the curve of the best order of a field's values; 0 where there is too little to say."""
    if not enough(labels):
        return 0.0
    distinct, codes = coded(values)
    if not by_value and len(distinct) > FEW_NUMBERS:
        return area_in_order(np.array(values, np.float64), labels)
    if len(distinct) > MOST_CATEGORIES:
        return area_by_values(codes, labels, shrinkage=0.0)
    return area_by_shares(codes, labels)


def _value_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
