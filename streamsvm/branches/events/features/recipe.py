"""What an event becomes: the features with their columns, and the fields of label, weight and id.

A recipe has one canonical encoding, JSON without spaces whose fields are in the order of declaration and left out where
they have their default; its SHA-256 names the recipe. A field that a later build adds has the default that changes
nothing, so that old recipes keep their hash.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Set
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec

from streamsvm.branches.events.features.notations import (
    DECIMAL_SEPARATORS,
    LONGEST_CURRENCY,
    THOUSANDS_SEPARATORS,
    is_currency,
)
from streamsvm.branches.events.features.zones import UTC_NAME, Transitions, check_transitions
from streamsvm.field_paths import Path, checked
from streamsvm.model.described import MOST_LABELS
from streamsvm.points import label_codes

MOST_COLUMNS: Final = 2_000
"""Every bucket keeps 16 bytes of moments a column, a pilot some matrices of columns by columns."""
MOST_VALUES: Final = 2_000
MOST_BUCKETS: Final = 1_000
MOST_BITS: Final = 10
LONGEST_TEXT: Final = 200
"""Characters of a name or of a value in a vocabulary: they stand in the names of columns."""
LARGEST_NUMBER: Final = 1e100
"""Largest magnitude of a number in an event: its square can be summed in float64."""

OTHER: Final = "(other)"
MISSING: Final = "(missing)"

Literally = bool | int | str
"""A value that is compared as it stands in the event: `1` is not `true`, and not `"1"`."""


class Constant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an event has whose field is missing."""

    constant: bool | int | float | str


Missing = Literal["reject", "indicator"] | Constant
"""What happens where a field is absent or null: the event is rejected; a column of its own is 1 and the feature's other
columns are 0; or the field counts as a constant."""


class _Feature(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="as"
):
    name: str


class _OfField(_Feature, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    field: Path
    missing: Missing = "reject"


class Number(_OfField, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="number"):
    """A number: clipped, divided by a unit, and then taken as it is, as its logarithm, or as the bucket it lies in.

    Attributes
    ----------
    clip : (float, float) or None
        Least and largest value.
    unit : float
    log1p : bool
        Take sign(v) log(1 + |v|).
    buckets : tuple of float
        Ascending borders, in units; bucket i begins at border i-1 and ends before border i. A column a bucket.
    parse : str or None
        What a value may be beside a number of JSON, before anything else is done: `text` that writes a number, by the
        rules of `streamsvm.branches.events.features.notations`.
    decimal, thousands, currency : str
        Of texts: the separators, and what may stand before or behind the number; none where empty.
    """

    clip: tuple[float, float] | None = None
    unit: float = 1.0
    log1p: bool = False
    buckets: tuple[float, ...] = ()
    parse: Literal["text"] | None = None
    decimal: str = "."
    thousands: str = ""
    currency: str = ""


class Category(_OfField, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="category"):
    """A column for each value of a vocabulary, and one for all other values.

    Integers and booleans are compared by their text in JSON, so that `1`, `1.0` and `"1"` are one value.
    """

    values: tuple[str, ...]


class Hash(_OfField, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="hash"):
    """One of 2^bits columns, chosen by the value's hash, is 1 or -1: for more values than a vocabulary can hold.

    The hash is the SHA-256 of the UTF-8 text ``seed:value``. The column is its first four bytes, big-endian, modulo
    2^bits; the sign is negative if the fifth byte is odd. Values that share a column are mistaken for each other.
    """

    bits: int
    seed: int = 0


Part = Literal["hour", "weekday", "month", "age"]


class Time(_OfField, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="time"):
    """A time: hour, weekday and month of a zone's clocks as sine and cosine, and the age since another field in days.

    Attributes
    ----------
    parts : tuple of str
    zone : str
        A key of the recipe's zones, or UTC. A text without an offset is a time of this zone.
    format : str
        `iso8601`: text such as 2026-01-31T12:00:00Z; else a number of seconds, milliseconds or microseconds since the
        epoch.
    since : Path or None
        The field from which the age counts.
    """

    parts: tuple[Part, ...]
    zone: str = UTC_NAME
    format: Literal["iso8601", "s", "ms", "us"] = "iso8601"
    since: Path | None = None


class Flag(_OfField, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="flag"):
    """1 for `true` or 1, 0 for `false` or 0."""


class Cross(_Feature, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag="cross"):
    """The products of the columns of two features that are declared before it, neither of them a cross."""

    of: tuple[str, str]


OfField = Number | Category | Hash | Time | Flag
Feature = OfField | Cross


class Label(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which values of a field mean which of two labels, or the labels themselves where there are more.

    Of several values of a side the first is the label that scores carry.
    """

    field: Path
    negative: tuple[Literally, ...] = ()
    positive: tuple[Literally, ...] = ()
    labels: tuple[Literally, ...] = ()

    @property
    def classes(self) -> tuple[Literally, ...]:
        """The labels, in their order; of two the negative one first."""
        return self.labels or (self.negative[0], self.positive[0])

    @property
    def codes(self) -> dict[Literally, int]:
        """Return what `Points.y` holds for each value."""
        sides = tuple((one,) for one in self.labels) or (self.negative, self.positive)
        return {value: code for side, code in zip(sides, label_codes(len(sides)), strict=True) for value in side}


class EventTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where an event says when it happened; where the field is missing, the record's own time counts.

    Attributes
    ----------
    field : Path
    format, zone : str
        As of a `Time`.
    """

    field: Path
    format: Literal["iso8601", "s", "ms", "us"] = "iso8601"
    zone: str = UTC_NAME


Envelope = Literal["none", "connect", "debezium"]
"""What stands around an event in its record."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything that an event is made into a point by.

    Attributes
    ----------
    features : tuple of Feature
    zones : mapping of str to Transitions
        Of every zone but UTC that a feature, or the event's time, names.
    label : Label or None
    weight, id : Path or None
        Fields of the weight (1 where it is missing) and of the id.
    time : EventTime or None
    envelope : str
        What the records of the trainer's topic have around their events; an event by itself has none.
    """

    features: tuple[Feature, ...]
    zones: dict[str, Transitions] = {}
    label: Label | None = None
    weight: Path | None = None
    id: Path | None = None
    time: EventTime | None = None
    envelope: Envelope = "none"

    @property
    def of_fields(self) -> Iterator[OfField]:
        """The features that read a field."""
        return (feature for feature in self.features if not isinstance(feature, Cross))

    def canonical(self) -> bytes:
        """Return the canonical encoding: the same recipe has the same bytes."""
        return msgspec.json.encode(self, order="deterministic")

    def sha256(self) -> str:
        """Hash the canonical encoding (lower-case hexadecimal)."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def plain(self) -> dict[str, Any]:
        """Return the canonical encoding as a JSON value, which `recipe_of` reads."""
        value: dict[str, Any] = msgspec.json.decode(self.canonical())
        return value


def recipe_of(plain: Mapping[str, Any]) -> Recipe:
    """Read a recipe from its JSON value, and check it.

    Raises
    ------
    ValueError
        Naming the place and what is wrong there.
    """
    try:
        recipe = msgspec.convert(plain, Recipe)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    check(recipe)
    return recipe


def width_of(feature: Feature, widths: Mapping[str, int]) -> int:
    """Return a feature's number of columns.

    Parameters
    ----------
    feature : Feature
    widths : mapping of str to int
        Numbers of columns of the features before it.
    """
    if isinstance(feature, Cross):
        return widths[feature.of[0]] * widths[feature.of[1]]
    own = 1
    if isinstance(feature, Number) and feature.buckets:
        own = len(feature.buckets) + 1
    elif isinstance(feature, Category):
        own = len(feature.values) + 1
    elif isinstance(feature, Hash):
        own = 1 << feature.bits
    elif isinstance(feature, Time):
        own = sum(1 if part == "age" else 2 for part in feature.parts)
    return own + (feature.missing == "indicator")


def widths_of(recipe: Recipe) -> dict[str, int]:
    """Return the number of columns of each feature, by its name."""
    widths: dict[str, int] = {}
    for feature in recipe.features:
        widths[feature.name] = width_of(feature, widths)
    return widths


# ---------------------------------------------------------------------- checks


def check(recipe: Recipe) -> None:
    """Refuse what cannot be evaluated, or could take too much memory.

    Raises
    ------
    ValueError
        Naming the option, and saying what to do.
    """
    if not recipe.features:
        raise ValueError('features declares no feature: declare one, such as amount = {as = "number"}')
    for zone, table in recipe.zones.items():
        check_transitions(zone, table)
    widths: dict[str, int] = {}
    for feature in recipe.features:
        _check_name(feature.name, widths)
        if isinstance(feature, Cross):
            _check_cross(feature, widths, {one.name for one in recipe.features if isinstance(one, Cross)})
        else:
            _of_kind(feature, recipe)
        widths[feature.name] = width_of(feature, widths)
        if (columns := sum(widths.values())) > MOST_COLUMNS:
            raise ValueError(
                f"features makes {columns:,} columns up to features.{feature.name}, but at most {MOST_COLUMNS:,} are "
                "allowed, because memory grows with their square: shorten a vocabulary, hash a field of many values "
                "into fewer bits, or remove a cross"
            )
    if recipe.label is not None:
        _check_label(recipe.label)
    for path in (recipe.weight, recipe.id):
        if path is not None:
            checked(path)
    if recipe.time is not None:
        checked(recipe.time.field)
        _check_zone(recipe.time.zone, recipe)


def _check_name(name: str, before: Mapping[str, int]) -> None:
    if not (1 <= len(name) <= LONGEST_TEXT and name.isprintable() and name == name.strip()):
        raise ValueError(
            f"features has the name {name!r}: give 1 to {LONGEST_TEXT} characters without control characters"
        )
    if name in before:
        raise ValueError(f"features.{name} is declared twice: rename one of the two")


def _of_kind(feature: OfField, recipe: Recipe) -> None:
    try:
        checked(feature.field)
        _CHECKS[type(feature)](feature, recipe)
        if isinstance(feature.missing, Constant):
            _check_constant(feature, feature.missing.constant)
    except ValueError as error:
        raise ValueError(f"features.{feature.name}: {error}") from None


def _check_number(feature: Number, _: Recipe) -> None:
    numbers = [feature.unit, *(feature.clip or ()), *feature.buckets]
    if not all(abs(number) <= LARGEST_NUMBER for number in numbers):
        raise ValueError(f"a number is larger than {LARGEST_NUMBER:g}")
    if not feature.unit > 0.0:
        raise ValueError(f"unit is {feature.unit:g}; give a number above 0")
    if feature.clip is not None and not feature.clip[0] < feature.clip[1]:
        raise ValueError(f"clip is {list(feature.clip)}; give the least value and a larger one")
    if feature.log1p and feature.buckets:
        raise ValueError("log1p and buckets are both given; give only one, because a bucket stays the same")
    if len(feature.buckets) > MOST_BUCKETS:
        raise ValueError(f"buckets has {len(feature.buckets)} borders; give at most {MOST_BUCKETS}")
    if any(not one < other for one, other in pairwise(feature.buckets)):
        raise ValueError("the borders in buckets are not in ascending order")
    _check_notation(feature)


def _check_notation(feature: Number) -> None:
    """Refuse options without their notation, and separators or a currency with which a text could mean two numbers."""
    of_text = {
        "decimal": feature.decimal != ".",
        "thousands": feature.thousands != "",
        "currency": feature.currency != "",
    }
    for option, given in of_text.items():
        if given and feature.parse != "text":
            raise ValueError(f'{option} is given without parse = "text"')
    for option, mark, marks in (
        ("decimal", feature.decimal, DECIMAL_SEPARATORS),
        ("thousands", feature.thousands, THOUSANDS_SEPARATORS),
    ):
        if mark not in marks:
            raise ValueError(f"{option} is {mark!r}; give one of {', '.join(repr(one) for one in marks if one)}")
    if feature.thousands == feature.decimal:
        raise ValueError(f"decimal and thousands are both {feature.decimal!r}; give two different separators")
    if feature.currency and not is_currency(feature.currency):
        raise ValueError(
            f"currency is {feature.currency!r}; give 1 to {LONGEST_CURRENCY} characters, such as EUR or $, without "
            "figures, spaces, signs, separators and percent signs"
        )


def _check_category(feature: Category, _: Recipe) -> None:
    if not 1 <= len(feature.values) <= MOST_VALUES:
        raise ValueError(
            f'values has {len(feature.values)} entries; give 1 to {MOST_VALUES}, or use as = "hash" for more'
        )
    if wrong := [value for value in feature.values if len(value) > LONGEST_TEXT or not value.isprintable()]:
        raise ValueError(f"values holds {wrong[0][:40]!r}: give at most {LONGEST_TEXT} printable characters")
    if len(set(feature.values)) < len(feature.values):
        twice = next(value for value in feature.values if feature.values.count(value) > 1)
        raise ValueError(f'values holds {twice!r} twice; 1 and "1" are the same value')
    if reserved := {OTHER, MISSING}.intersection(feature.values):
        raise ValueError(f"values holds {min(reserved)!r}, which is the name of a column of its own: remove it")


def _check_hash(feature: Hash, _: Recipe) -> None:
    if not 1 <= feature.bits <= MOST_BITS:
        raise ValueError(f"bits is {feature.bits}; give 1 to {MOST_BITS}: 2^bits columns are made")
    if not 0 <= feature.seed < 1 << 32:
        raise ValueError(f"seed is {feature.seed}; give 0 to 2^32 - 1")


def _check_time(feature: Time, recipe: Recipe) -> None:
    if not feature.parts or len(set(feature.parts)) < len(feature.parts):
        raise ValueError("parts must name each of hour, weekday, month and age at most once, and at least one of them")
    if ("age" in feature.parts) != (feature.since is not None):
        raise ValueError("the part age and the option since must be given together, but one of them is missing")
    if feature.since is not None:
        checked(feature.since)
    _check_zone(feature.zone, recipe)


def _check_zone(zone: str, recipe: Recipe) -> None:
    if zone != UTC_NAME and zone not in recipe.zones:
        raise ValueError(f"the recipe has no rules for the zone {zone!r}")


def _check_flag(_: Flag, __: Recipe) -> None:
    """Accept every flag: it has no options."""


_CHECKS: Final[Mapping[type, Any]] = {
    Number: _check_number,
    Category: _check_category,
    Hash: _check_hash,
    Time: _check_time,
    Flag: _check_flag,
}


def _check_constant(feature: OfField, constant: bool | float | str) -> None:
    number = isinstance(constant, int | float) and not isinstance(constant, bool)
    if isinstance(constant, float) and not math.isfinite(constant):
        raise ValueError("the constant for missing values is not finite")
    if isinstance(feature, Number) and not (number and abs(constant) <= LARGEST_NUMBER):  # type: ignore[arg-type]
        raise ValueError(f"the constant for missing values is {constant!r}; give a number")
    if isinstance(feature, Flag) and not isinstance(constant, bool):
        raise ValueError(f"the constant for missing values is {constant!r}; give true or false")
    if isinstance(feature, Time):
        raise ValueError("missing cannot be a constant for a time: give reject or indicator")
    if isinstance(feature, Category | Hash) and not isinstance(constant, str):
        raise ValueError(f"the constant for missing values is {constant!r}; give text")


def _check_cross(feature: Cross, widths: Mapping[str, int], crosses: Set[str]) -> None:
    for name in feature.of:
        if name in crosses and name in widths:  # names of columns would double in length with each
            raise ValueError(f"features.{feature.name} crosses {name!r}, which is a cross itself: give other features")
        if name not in widths:
            raise ValueError(
                f"features.{feature.name} crosses {name!r}, which no feature before it is called: declare it first"
            )
    if feature.of[0] == feature.of[1]:
        raise ValueError(f"features.{feature.name} crosses {feature.of[0]!r} with itself: give two features")


def _check_label(label: Label) -> None:
    checked(label.field)
    literals = [*label.negative, *label.positive, *label.labels]
    if label.labels and (label.negative or label.positive or not 2 < len(label.labels) <= MOST_LABELS):
        raise ValueError(f"events.label: labels are 3 to {MOST_LABELS} values; of two give negative and positive")
    if not label.labels and not (label.negative and label.positive):
        raise ValueError("events.label needs at least one value each for negative and positive")
    if len({type(one) for one in literals}) > 1:
        raise ValueError(f"events.label mixes types: {', '.join(map(repr, literals))}; give values of one type")
    if len(set(literals)) < len(literals):
        twice = next(one for one in literals if literals.count(one) > 1)
        raise ValueError(f"events.label has {twice!r} twice: a value means one label")
    if any(isinstance(one, int) and abs(one) > 1 << 53 for one in literals):
        raise ValueError("events.label has an integer beyond 2^53: give text")
