"""Values as bytes: JSON that names every array by dtype, shape and place, and the arrays, one after another.

A *form* describes the values of a class: it has the fields that they have, and a `PlacedArray` where they have an
array. `describes` says which form is whose, so that `StateWriter` and `StateReader` need to know no class. The arrays
stand in the order in which the forms name them. A form that ends with the field ``parts`` describes only the trunk; a
`OptionalPart` adds what a feature needs besides, as `streamsvm.named_parts` has it.

Invariant: a reader compares every size with the bytes that are there before it allocates memory, and each byte belongs
to exactly one array. So a part that is passed over cannot have arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.coreset.audit import Sampled
from streamsvm.coreset.audit_sample import Held
from streamsvm.coreset.buckets import Extent, Learned, Moments
from streamsvm.errors import CorruptCheckpoint
from streamsvm.named_parts import UnknownPart, named_parts, sorted_parts
from streamsvm.points import Points, Position

LARGEST_LENGTH: Final = 1 << 40
"""Largest length of an array along one axis. An array with an empty axis holds no bytes, so only this bounds its
others."""
_DTYPES: Final = frozenset({"<f4", "<f8", "|i1", "<i4", "<i8", "<u8"})
NEWER_BUILD: Final = "Use the build that wrote it, or a newer one."

PlacedParts = tuple[msgspec.Raw, ...]
_Value = TypeVar("_Value")
Pairs = tuple[tuple[int, _Value], ...]
"""A mapping from partitions, in their order."""
_AForm = TypeVar("_AForm", bound="Form")


class Form(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Describes a value."""


class PlacedArray(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an array stands, in bytes from the first one, and what it is."""

    at: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalPart:
    """What values of a class have besides their trunk, where a feature is in use.

    Attributes
    ----------
    form : type of Form
        With the tag ``part``, which is the part's name.
    has : callable
        Whether a value has this part.
    of : callable or None
        Gives the fields of the form; None: they are attributes of the value.
    joined : callable
        Gives the value from what was read without this part, and from the part's fields.

        Raises CorruptCheckpoint if they do not fit each other.
    trunk : tuple of (type, callable) or None
        The class that all values with this part are of, and what makes the trunk of one; None: the trunk's class.
    """

    form: type[Form]
    has: Callable[[Any], bool]
    of: Callable[[Any], Mapping[str, Any]] | None = None
    joined: Callable[..., Any] = replace
    trunk: tuple[type, Callable[[Any], Any]] | None = None


class Parts(dict[str, OptionalPart]):
    """The parts that the values of a class may have, by name.

    Parameters
    ----------
    *parts : Part
    """

    def __init__(self, *parts: OptionalPart) -> None:
        super().__init__(sorted((str(part.form.__struct_config__.tag), part) for part in parts))


@dataclass(frozen=True, slots=True)
class _Described:
    form: type[Form]
    make: Callable[..., Any]
    check: Callable[[Any], None] | None
    parts: Parts


_BY_CLASS: Final[dict[type, _Described]] = {}
_BY_FORM: Final[dict[type, _Described]] = {}


def describes(
    kind: type | None,
    *,
    make: Callable[..., Any] | None = None,
    check: Callable[[Any], None] | None = None,
    parts: Parts | None = None,
) -> Callable[[type[_AForm]], type[_AForm]]:
    """Say of a form that it describes the values of a class.

    Parameters
    ----------
    kind : type or None
        None where `StateWriter.described` is called with the form.
    make : callable or None
        Makes a value of the form's fields; None: the class does.
    check : callable or None
        Raises CorruptCheckpoint if a value that was read is none.
    parts : Parts or None
        Of a form with a field `parts`.
    """

    def decorated(form: type[_AForm]) -> type[_AForm]:
        maker = make or kind
        assert maker is not None
        described = _Described(form, maker, check, parts or Parts())
        others = [part.trunk[0] for part in described.parts.values() if part.trunk is not None]
        _BY_CLASS.update(dict.fromkeys(others if kind is None else [kind, *others], described))
        _BY_FORM[form] = described
        return form

    return decorated


def parts_of(form: type[Form]) -> Parts:
    """Return the parts that what a form describes may have."""
    return _BY_FORM[form].parts


class StateWriter:
    """Appends arrays one after another and keeps their places."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self._at = 0

    def array(self, array: NDArray[Any]) -> PlacedArray:
        """Append an array."""
        dtype = array.dtype.newbyteorder("<").str
        assert dtype in _DTYPES
        content = np.ascontiguousarray(array, dtype=dtype).tobytes()
        placed = PlacedArray(self._at, dtype, array.shape)
        self.arrays.append(content)
        self._at += len(content)
        return placed

    def value(self, value: Any) -> Any:
        """Append the arrays of a value, and return what describes it; of a mapping, pairs in ascending order."""
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, Mapping):
            return tuple((key, self.value(value[key])) for key in sorted(value))
        if type(value) is tuple:
            return tuple(self.value(one) for one in value)
        described = _BY_CLASS.get(type(value))
        return value if described is None else self.described(described.form, value)

    def described(self, form: type[_AForm], value: Any, **given: Any) -> _AForm:
        """Describe a value in a form, of which some fields are given."""
        parts = parts_of(form)
        trunks = dict(part.trunk for part in parts.values() if part.trunk is not None)
        trunk = trunks[type(value)](value) if type(value) in trunks else value
        for name in form.__struct_fields__:
            if name == "parts":
                given[name] = self._parts(value, parts)
            elif name not in given:
                given[name] = self.value(getattr(trunk, name))
        return form(**given)

    def _parts(self, value: Any, parts: Parts) -> PlacedParts:
        made: list[Form] = []
        for part in parts.values():
            if part.has(value):
                names = part.form.__struct_fields__
                fields = {name: getattr(value, name) for name in names} if part.of is None else part.of(value)
                made.append(part.form(**{name: self.value(fields[name]) for name in names}))
        return tuple(msgspec.Raw(msgspec.json.encode(one, order="deterministic")) for one in sorted_parts(made))


class StateReader:
    """Reads arrays in the order in which they were written; checks every size against the bytes that are left.

    Parameters
    ----------
    arrays : memoryview
    what : str
        Whose they are, for errors.

    Attributes
    ----------
    remedy : str
        What to do about a part that this build does not know.
    """

    def __init__(self, arrays: memoryview, what: str = "record") -> None:
        self._arrays = arrays
        self._what = what
        self._at = 0
        self.remedy = NEWER_BUILD

    def array(self, placed: PlacedArray) -> NDArray[Any]:
        """Read the next array.

        Raises
        ------
        CorruptCheckpoint
            If it is not the next one, or larger than the bytes that are left.
        """
        if placed.dtype not in _DTYPES or not all(0 <= length <= LARGEST_LENGTH for length in placed.shape):
            raise CorruptCheckpoint(f"an array is described as {placed.dtype} {placed.shape}")
        if placed.at != self._at:
            raise CorruptCheckpoint(
                f"an array begins at byte {placed.at}, but the array before it ends at byte {self._at}"
            )
        dtype = np.dtype(placed.dtype)
        self._at += math.prod(placed.shape) * dtype.itemsize
        if self._at > len(self._arrays):
            raise CorruptCheckpoint(
                f"an array ends at byte {self._at}, but the {self._what} has only {len(self._arrays)} bytes of arrays"
            )
        flat = np.frombuffer(self._arrays[placed.at : self._at], dtype=dtype)
        return flat.reshape(placed.shape).astype(dtype.newbyteorder("="))

    def end(self) -> None:
        """Check that every byte was read.

        Raises
        ------
        CorruptCheckpoint
        """
        if self._at != len(self._arrays):
            raise CorruptCheckpoint(
                f"the arrays end at byte {self._at}, but the {self._what} has {len(self._arrays)} bytes of arrays"
            )

    def value(self, placed: Any) -> Any:
        """Read what is described.

        Raises
        ------
        CorruptCheckpoint
        """
        if isinstance(placed, PlacedArray):
            return self.array(placed)
        if type(placed) is tuple:
            return tuple(self.value(one) for one in placed)
        return self.made(placed) if type(placed) in _BY_FORM else placed

    def made(self, placed: Form, **given: Any) -> Any:
        """Read what a form describes, of which some fields were read before.

        Raises
        ------
        CorruptCheckpoint
        """
        described = _BY_FORM[type(placed)]
        for name in placed.__struct_fields__:
            if name not in given and name != "parts":
                given[name] = self.value(getattr(placed, name))
        made = described.make(**given)
        if described.check is not None:
            described.check(made)
        return self._joined(made, getattr(placed, "parts", ()), described.parts)

    def _joined(self, value: Any, placed: PlacedParts, parts: Parts) -> Any:
        """Return a value with the parts of it that this build knows."""
        try:
            found, _ = named_parts(placed, parts)
        except UnknownPart as error:
            what = f"the {self._what} has the part {error.name!r}, which this build does not know"
            raise CorruptCheckpoint(what, self.remedy) from None
        except ValueError as error:
            raise CorruptCheckpoint(f"the {self._what}'s header is damaged: {error}") from None
        for name, raw in found.items():
            try:
                form = msgspec.json.decode(raw, type=parts[name].form)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise CorruptCheckpoint(f"the part {name!r} of the {self._what} is damaged: {error}") from None
            fields = {field: self.value(getattr(form, field)) for field in form.__struct_fields__}
            value = parts[name].joined(value, **fields)
        return value


def _check_points(points: Points) -> None:
    if points.X.ndim != 2 or not points.y.shape == points.weight.shape == (len(points.X),):
        raise CorruptCheckpoint("a set of points has arrays of different shapes")


def _check_reservoir(state: Held) -> None:
    if state.priority.shape != (len(state.points),):
        raise CorruptCheckpoint("an audit sample has arrays of different lengths")


@describes(Points, check=_check_points)
class PlacedPoints(Form):
    """Describes a set of points."""

    X: PlacedArray
    y: PlacedArray
    weight: PlacedArray


@describes(Moments)
class PlacedMoments(Form):
    """Describes exact moments."""

    count: int
    class_weight: PlacedArray
    mean: PlacedArray
    square: PlacedArray


@describes(Extent)
class PlacedExtent(Form):
    """Describes what rows a set of points stands for."""

    start: Position
    end: Position
    rows: int
    first_time_ms: int
    last_time_ms: int
    moments: PlacedMoments


@describes(Learned)
class PlacedLearned(Form):
    """Describes totals of all rows learned."""

    rows: int
    count: int
    class_weight: PlacedArray
    first_time_ms: int
    last_time_ms: int


@describes(Held, check=_check_reservoir)
class PlacedReservoir(Form):
    """Describes an audit sample, or that of one label."""

    points: PlacedPoints
    priority: PlacedArray
    threshold: float


@describes(Sampled)
class PlacedSampled(Form):
    """Describes a partition's part of an audit sample at a cut."""

    points: PlacedPoints
    threshold: float
    class_weight: PlacedArray
