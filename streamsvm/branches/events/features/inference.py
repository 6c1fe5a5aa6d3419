"""Proposes features from a sample of events: what each field looks like, and what a person should look at.

A proposal is a beginning. It knows the sample only: not which fields are known when an event happens, nor what a number
means.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.events.features.recipe import LONGEST_TEXT
from streamsvm.branches.events.features.text_numbers import Written, as_text
from streamsvm.branches.events.features.values import MICROSECONDS, time_of_text
from streamsvm.field_paths import Path, Unreachable, picked, shown, unreadable
from streamsvm.model.described import RARE
from streamsvm.model.positive_label import TwoLabels, two_labels

LABEL_NAMES: Final = ("y", "label", "class", "target")
MOST_CATEGORIES: Final = 50
"""Values above which a field is hashed: a vocabulary that long is better written by a person."""
FEW_NUMBERS: Final = 12
"""Distinct integers up to which they may be codes."""
PROPOSED_BITS: Final = 7
"""Most bits of a hash: several fields with more would exceed the number of columns that there may be."""
LEAST_COUNTED: Final = 20
"""Events without which a field of distinct values is not called an identifier, or a leak."""
NEARLY_UNIQUE: Final = 0.95
"""Share of distinct values above which a text identifies events: what is learned about a value is not met again."""
SEPARATES: Final = 0.995
"""Area under the curve, of one field alone, from which it is suspected to know the label."""
LONG_TAIL: Final = 100.0
"""Times the median that a largest value is, for a logarithm to be proposed."""
_EPOCHS: Final = {"s": (5e8, 4e9), "ms": (5e11, 4e12), "us": (5e14, 4e15)}
_TIME_WORDS: Final = ("time", "date", "ts", "_at", "when")
_DAY: Final = 86_400 * MICROSECONDS
_PER_UNIT: Final = {"s": MICROSECONDS, "ms": MICROSECONDS // 1_000, "us": 1}


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
    """

    path: Path
    options: Mapping[str, Any] | None
    why: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed for the events of a sample.

    Attributes
    ----------
    fields : tuple of FieldProposal
    label : (Path, TwoLabels) or None
        Its field, and which of its values is positive; None if no field was recognised as the label.
    rare : (value, float) or None
        The rarer label and its share, if balanced class weights are proposed.
    id : Path or None
        The field that is taken for the id.
    events : int
    """

    fields: tuple[FieldProposal, ...]
    label: tuple[Path, TwoLabels] | None
    rare: tuple[Any, float] | None
    id: Path | None
    events: int


def proposal(
    events: Sequence[Mapping[str, Any]],
    label: Path | None = None,
    markers: Mapping[str, Mapping[str, int]] | None = None,
    places: Sequence[int] | None = None,
    positive: str | None = None,
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

    Raises
    ------
    ValueError
        If the label has not exactly two values, or `positive` is none of them.
    """
    places = range(len(events)) if places is None else places
    paths = list(dict.fromkeys(path for event in events for path in _leaves(event)))
    whole: list[Path] = [(name,) for name in markers or ()]
    paths += [path for path in whole if path not in paths]
    if label is None:
        named = [path for path in paths if len(path) == 1 and str(path[0]).lower() in LABEL_NAMES]
        label = named[0] if len(named) == 1 else None
    taken = {} if label is None else (markers or {}).get(shown(label), {})
    answers = None if label is None else _label(picked(events, label), label, taken, positive)
    unread = dict(found for event in events for found in unreadable(event))
    identifier: Path | None = None
    found = []
    for path in paths:
        if path == label:
            continue
        values = [None if isinstance(v, Unreachable) else v for v in picked(events, path)]
        one = _unusable(path, unread) or _counter(path, values, places) or _field(path, values, answers)
        if one.options is None and one.why.startswith(_IDENTIFIER) and identifier is None:
            identifier = path
        found.append(_with_markers(one, (markers or {}).get(str(path[0]), {}) if len(path) == 1 else {}))
    labels = None if label is None or answers is None else (label, answers.two)
    rare = None if answers is None else answers.rare()
    return Proposal(tuple(found), labels, rare, identifier, len(events))


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
class _BinaryLabels:
    """The labels of the events: which is positive, and which events have it (1), have the other (0) or none (-1)."""

    two: TwoLabels
    of: NDArray[np.int8]

    def rare(self) -> tuple[Any, float] | None:
        """Return the rarer label and its share, if that is below `RARE`."""
        two, share = self.two, self.two.share
        value, less = (two.positive, share) if share <= 0.5 else (two.negative, 1.0 - share)
        return (value, less) if less < RARE else None


def _label(values: Sequence[Any], path: Path, markers: Mapping[str, int], positive: str | None) -> _BinaryLabels:
    values = [_hashable(value) for value in values]
    kinds = sorted({(type(v).__name__, v) for v in values if v is not None})
    if len(kinds) != 2 or kinds[0][0] != kinds[1][0]:
        some = ", ".join(repr(value) for _, value in kinds[:5]) or "none"
        taken = f" ({_markers_text(markers)})" if markers else ""
        raise ValueError(
            f"the label {shown(path)} must have exactly two values of one type, but the sample has {some}{taken}"
        )
    two = two_labels(Counter(value for value in values if value is not None), positive)
    return _BinaryLabels(two, np.array([{two.negative: 0, two.positive: 1}.get(v, -1) for v in values]))


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


def _field(path: Path, values: Sequence[Any], answers: _BinaryLabels | None) -> FieldProposal:
    present = [value for value in values if value is not None]
    kinds = {"number" if isinstance(v, int | float) and not isinstance(v, bool) else type(v).__name__ for v in present}
    if not present:
        return FieldProposal(path, None, "always missing in the sample")
    written = _notation(present, kinds)
    if written is not None:
        return _written(path, values, written, answers)
    if kinds & {"list", "dict"}:
        return FieldProposal(path, None, "not a single value: declare the element that counts, such as items[0]")
    if len(kinds) > 1:
        types = ", ".join(sorted(kinds))
        return FieldProposal(path, None, f"mixed types ({types}): fix the producer, or choose one kind")
    distinct = Counter(present)
    if len(distinct) == 1 and len(present) == len(values):
        return FieldProposal(path, None, f"constant: every event has {_value_text(present[0])}")
    (kind,) = kinds
    made = {"number": _number, "str": _text, "bool": _flag}[kind](path, present, distinct)
    if answers is not None and (known := _leak(made, values, answers)) is not None:
        return FieldProposal(path, None, f"leak suspected: {known}; is it known when the event happens?")
    return _with_missing(made, present, len(values))


def _notation(present: Sequence[Any], kinds: set[str]) -> Written | None:
    """Return how values that are no numbers of JSON, or some of them, write numbers; None if they do not."""
    if not kinds <= {"str", "number"} or "str" not in kinds:
        return None
    texts = list(dict.fromkeys(value for value in present if isinstance(value, str)))
    many = len(texts) > MOST_CATEGORIES
    if (len(texts) > FEW_NUMBERS or "number" in kinds) and (found := as_text(texts, many=many)) is not None:
        return found
    return None


def _written(path: Path, values: Sequence[Any], written: Written, answers: _BinaryLabels | None) -> FieldProposal:
    """Return what is proposed for numbers in another notation than JSON's."""
    if written.options is None or written.parse is None:
        distinct = len({value for value in values if isinstance(value, str)})
        return FieldProposal(path, None, f"{distinct} values, {written.why}")
    read = [value if value is None or isinstance(value, int | float) else written.parse(value) for value in values]
    present = [value for value in read if value is not None]
    made = _number(path, present, Counter(present))
    if made.options is None or made.options["as"] != "number":
        return FieldProposal(path, None, f"{written.why}: {made.why}")
    made = FieldProposal(path, {**made.options, **written.options}, f"{written.why}; {made.why}")
    if answers is not None and (known := _leak(made, read, answers)) is not None:
        return FieldProposal(path, None, f"leak suspected: {known}; is it known when the event happens?")
    return _with_missing(made, present, len(present) + sum(value is None for value in values))


def _flag(path: Path, _: Sequence[Any], distinct: Counter[Any]) -> FieldProposal:
    return FieldProposal(path, {"as": "flag"}, f"true in {distinct[True] / distinct.total():.1%}")


def _number(path: Path, present: Sequence[Any], distinct: Counter[Any]) -> FieldProposal:
    low, high = min(present), max(present)
    whole = all(float(value).is_integer() for value in distinct)
    if set(distinct) == {0, 1}:
        return FieldProposal(path, {"as": "flag"}, f"0 or 1; 1 in {distinct[1] / distinct.total():.1%}")
    if _is_time(path):
        for format_, (first, last) in _EPOCHS.items():
            if first <= low and high <= last:
                covered = _covered((high - low) * _PER_UNIT[format_])
                return FieldProposal(path, {"as": "time", "format": format_}, f"a time, counted in {format_}{covered}")
    options: dict[str, Any] = {"as": "number"}
    why = f"{low:.6g} to {high:.6g}"
    median = float(np.median(np.array(present, np.float64)))
    if low >= 0 and median > 0 and high > LONG_TAIL * median:
        options["log1p"] = True
        why += f", {high / median:.0f} times the median"
    if whole and len(distinct) <= FEW_NUMBERS:
        why += f'; {len(distinct)} values only: as = "category" if they are codes'
    return FieldProposal(path, options, why)


def _is_time(path: Path) -> bool:
    """Return whether a field is a time by its name."""
    return any(word in str(path[-1]).lower() for word in _TIME_WORDS)


def _covered(micros: float) -> str:
    """Say if the times of the sample lie closer together than the period of a part of the feature."""
    if micros < _DAY:
        return f"; the sample covers {micros / _DAY * 24:.1f} hours, less than a day, so hour and weekday say little"
    if micros < 7 * _DAY:
        return f'; the sample covers {micros / _DAY:.1f} days, less than a week: parts = ["hour"] omits the weekday'
    return ""


def _text(path: Path, present: Sequence[str], distinct: Counter[str]) -> FieldProposal:
    times = [time for value in distinct if (time := time_of_text(value)) is not None]
    if len(times) >= 0.95 * len(distinct):
        local = any(is_local for _, is_local in times)
        why = "a time without an offset: give its zone" if local else "a time; for local hours give a zone"
        micros = [time for time, _ in times]
        return FieldProposal(path, {"as": "time"}, why + _covered(max(micros) - min(micros)))
    if len(distinct) == len(present) >= LEAST_COUNTED:
        return FieldProposal(path, None, f"{_IDENTIFIER}: no two events have the same")
    if len(present) >= LEAST_COUNTED and len(distinct) > NEARLY_UNIQUE * len(present):
        share = len(distinct) / len(present)
        return FieldProposal(path, None, f"nearly an {_IDENTIFIER}: {share:.1%} of its values differ from all others")
    if len(distinct) > MOST_CATEGORIES:
        return _hash(path, distinct)
    ranked = sorted(distinct, key=lambda value: (-distinct[value], value))
    values = [value for value in ranked if value.isprintable() and len(value) <= LONGEST_TEXT]
    return FieldProposal(path, {"as": "category", "values": values}, f"{len(distinct)} values")


def _hash(path: Path, distinct: Counter[str]) -> FieldProposal:
    """Propose at most a column for each value that came twice: nothing is learned from one that comes once."""
    repeated = sum(count > 1 for count in distinct.values())
    bits = min(PROPOSED_BITS, max(1, repeated.bit_length() - 1))
    why = (
        f"{len(distinct)} values in the sample, too many for a vocabulary; it costs {2**bits} columns, which "
        f"{'several values share' if len(distinct) > 2**bits else 'few values share'}"
    )
    return FieldProposal(path, {"as": "hash", "bits": bits}, why)


def _with_missing(made: FieldProposal, present: Sequence[Any], events: int) -> FieldProposal:
    if made.options is None or len(present) == events:
        return made
    missing: Any = "indicator"
    if made.options["as"] == "number":
        missing = {"constant": float(f"{np.mean(np.array(present, np.float64)):.6g}")}
    why = f"{made.why}; missing in {1 - len(present) / events:.1%}"
    return FieldProposal(made.path, {**made.options, "missing": missing}, why)


def _with_markers(made: FieldProposal, markers: Mapping[str, int]) -> FieldProposal:
    """Say how many cells of a field were taken for missing by what stood in them."""
    if not markers:
        return made
    is_text = made.options is not None and made.options["as"] in ("category", "hash")
    hint = "; what is a value must be among the values of a category" if is_text else ""
    return FieldProposal(made.path, made.options, f"{made.why}; {_markers_text(markers)}{hint}")


def _markers_text(markers: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_value_text(text)}" for text, count in sorted(markers.items())) + " taken as missing"


def _leak(made: FieldProposal, values: Sequence[Any], answers: _BinaryLabels) -> str | None:
    """Say how a field knows the label: by being there for one label only, or by its values; None if it does not."""
    there = np.array([value is not None for value in values])
    if (one := _one_sided(there, answers)) is not None:
        return one
    if made.options is None:
        return None
    labeled = [(v, a) for v, a in zip(values, answers.of.tolist(), strict=True) if v is not None and a >= 0]
    known, labels = [value for value, _ in labeled], np.array([label for _, label in labeled])
    if made.options["as"] == "time" and "format" not in made.options:
        known = [_micros(text) for text in known]
    area = _separation(known, labels)
    return f"alone it separates the labels (AUC {area:.3f})" if area >= SEPARATES else None


def _micros(text: str) -> int:
    """Return the microseconds of a time, to put it in order; 0 for a text that cannot be read as one."""
    found = time_of_text(text)
    return 0 if found is None else found[0]


def _one_sided(there: NDArray[np.bool_], answers: _BinaryLabels) -> str | None:
    """Say that a field is present, or missing, for one label only, or that its presence separates the labels.

    "For one label only" needs `LEAST_COUNTED` events of the other label that would have it by chance.
    """
    known = answers.of >= 0
    presence, labels = there[known], answers.of[known]
    for what, has in (("present", presence), ("missing", ~presence)):
        for label, value in ((0, answers.two.negative), (1, answers.two.positive)):
            others = labels != label
            if not has[others].any() and has.sum() * others.mean() >= LEAST_COUNTED:
                return f"it is {what} for {_value_text(value)} only"
    area = _separation(presence.tolist(), labels)
    return f"whether it is present separates the labels (AUC {area:.3f})" if area >= SEPARATES else None


def _separation(values: Sequence[Any], labels: NDArray[Any]) -> float:
    """Return the area under the curve of the best order of a field's values; 0 where there is too little to say."""
    positives = int(np.sum(labels == 1))
    if min(positives, len(labels) - positives) < LEAST_COUNTED:
        return 0.0
    distinct = {value: place for place, value in enumerate(dict.fromkeys(values))}
    if isinstance(values[0], str) or len(distinct) <= FEW_NUMBERS:
        codes = np.fromiter(map(distinct.__getitem__, values), np.intp, len(values))
        if len(distinct) > MOST_CATEGORIES:
            return _area(_answers_elsewhere(codes, labels), labels)
        scores = (np.bincount(codes, labels) / np.bincount(codes))[codes]
    else:
        scores = np.array(values, np.float64)
    area = _area(scores, labels)
    return max(area, 1.0 - area)


def _answers_elsewhere(codes: NDArray[np.intp], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the positive share of each event's value among other events, shape (n,).

    Of many values some come with one label by chance. So each half of the events is judged by the other one, and a
    value that this one lacks has the share of all. The halves are drawn: labels may alternate.
    """
    scores = np.full(len(codes), float(np.mean(labels)))
    first = np.random.default_rng(0).random(len(codes)) < 0.5
    for taught in (first, ~first):
        counts = np.bincount(codes[taught], minlength=int(codes.max()) + 1)
        positives = np.bincount(codes[taught], labels[taught], minlength=len(counts))
        judged = np.flatnonzero(~taught)
        met = judged[counts[codes[judged]] > 0]
        scores[met] = positives[codes[met]] / counts[codes[met]]
    return scores


def _area(scores: NDArray[np.float64], labels: NDArray[Any]) -> float:
    """Return the share of pairs of a positive and a negative that are in order, ties counted half."""
    _, index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[index]
    positive = labels == 1
    n, m = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2.0) / (n * m))


def _value_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
