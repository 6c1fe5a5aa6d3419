"""One form of a state, for a checkpoint file, a record of the coresets topic and the base of a history.

    magic | format | length of the head | head: MessagePack | arrays, little-endian, one after another | SHA-256

The head holds the names of a state, the release that wrote it, and the state as a tree, in which an array is its dtype
and shape: where it begins follows from those before it. An array that is the first rows of one before it, or all of
them, is only named: what two states share is stored once. Fields at the end of a class that have their default are
left out, so a state that does not use what a later release adds stays readable.

Only the classes of `KINDS` can be made; every size is checked against the bytes that are there before anything is
allocated, every field against its type, and every array is of the bytes that are there. The same state has the same
bytes on every machine. The first twelve bytes and the SHA-256 of all before it mean the same in every format.

A state counts only under its own `Names`: which incarnation of a model's log it is of, of which input topic, learned by
which options, without which erased rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache
from operator import lt
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from streamsvm.config import ModelConfig
from streamsvm.config.sizes import HISTORY_BLOCKS
from streamsvm.coreset.audit import Sampled
from streamsvm.coreset.buckets import Bucket, Extent, Learned, Moments
from streamsvm.coreset.curves import Curves, are_curves
from streamsvm.coreset.drift import FIRST_ROWS, History
from streamsvm.coreset.landmarks import Landmarks
from streamsvm.coreset.memories import Horizons, Memory
from streamsvm.coreset.partition import PartitionState
from streamsvm.coreset.pilot import Pilot, loss_of
from streamsvm.coreset.screen import BINS, Screen
from streamsvm.errors import CorruptCheckpoint
from streamsvm.points import LookedUp, Points, Position, Rows

MAGIC: Final = b"ssvmstat"
FORMAT: Final = 1
HEAD: Final = struct.Struct("<8sIQ")
CHECKSUM_BYTES: Final = 32
DTYPES: Final = {"<f4", "<f8", "<i4", "<i8", "<u8", "|i1", "|b1"}
SHARED_BYTES: Final = 64
"""Length from which an array is stored once. To name a shorter one takes as many bytes."""
Value = TypeVar("Value")


class Names(msgspec.Struct, frozen=True):
    """What a state is of.

    Attributes
    ----------
    incarnation : int
        How often the model began anew.
    topic : str
        The id of the input topic.
    learned : str
        The hash of the options that decide what is learned.
    erased : str
        The hash of the record of erased rows; empty where none was erased.
    """

    incarnation: int
    topic: str
    learned: str
    erased: str = ""


class Kind(NamedTuple):
    """A class that states are made of: a dataclass, a named tuple or a msgspec struct.

    Attributes
    ----------
    of : type
    check : callable
        Raises `CorruptCheckpoint` where an object that was read is none: fields have their types.
    part : str
        The name under which a branch keeps an object of this class in a checkpoint; empty elsewhere.
    """

    of: type
    check: Callable[[Any], None] = lambda _: None
    part: str = ""


def require_lengths(what: str, n: int, **columns: np.ndarray[Any, Any] | None) -> None:
    """Refuse columns that are not of this length."""
    for name, column in columns.items():
        if column is not None and column.shape != (n,):
            raise CorruptCheckpoint(f"{name} of {what} is described as {column.dtype} {column.shape}")


def _check_points(points: Points) -> None:
    if points.X.ndim != 2:
        raise CorruptCheckpoint(f"the features of points are described as {points.X.dtype} {points.X.shape}")
    require_lengths("points", len(points.X), y=points.y, weight=points.weight)
    if points.place is not None and points.place.shape != (len(points.X), 3):
        raise CorruptCheckpoint(f"the places of points are described as {points.place.dtype} {points.place.shape}")


def _check_rows(rows: Rows) -> None:
    own = {name: getattr(rows, name) for name in ("offset", "row", "last", "time_ms", "accepted", "leader_epoch")}
    own |= {"passed_over": rows.passed_over, "beside_offset": rows.beside_offset}
    hashes = None if rows.id_hash is None else rows.id_hash.known()
    require_lengths("rows", len(rows.points), **own, id_hash=hashes)


def _check_sample(sample: Sampled) -> None:
    require_lengths("an audit sample", len(sample.points), priority=sample.priority)


KINDS: Final[dict[str, Kind]] = {}
"""Every class that can be part of a state, by its name; whoever owns one registers it."""


def register(*kinds: Kind) -> None:
    """Let states be made of more classes."""
    for kind in kinds:
        assert KINDS.setdefault(kind.of.__name__, kind).of is kind.of, f"there are two classes {kind.of.__name__}"


register(Kind(Points, _check_points), Kind(Rows, _check_rows), Kind(Sampled, _check_sample), Kind(LookedUp))
register(
    *map(Kind, (Bucket, Extent, Curves, Horizons, Landmarks, Learned, Memory, Moments, PartitionState, Pilot, Position))
)
register(Kind(Curves), Kind(History), Kind(Screen))


@cache
def _fields(kind: type) -> tuple[tuple[str, Callable[[], Any] | None], ...]:
    """Return the names of a class's fields, each with what makes its default, if it has one."""
    if not dataclasses.is_dataclass(kind):
        defaults = kind._field_defaults  # type: ignore[attr-defined]
        names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
        return tuple((name, (lambda own=defaults[name]: own) if name in defaults else None) for name in names)
    found: list[tuple[str, Callable[[], Any] | None]] = []
    for field in dataclasses.fields(kind):
        if not field.compare:  # for people: no part of what it is
            continue
        default: Callable[[], Any] | None = None
        if field.default is not dataclasses.MISSING:
            default = lambda own=field.default: own  # noqa: E731
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory
        found.append((field.name, default))
    return tuple(found)


def field_names(kind: Any) -> list[str]:
    """Return the names of a class's fields, in the order in which a state has them."""
    return [*kind.__struct_fields__] if issubclass(kind, msgspec.Struct) else [name for name, _ in _fields(kind)]


class StateWriter:
    """Writes one state. Parts of it may be written beforehand, in their order, so that others can work in between."""

    def __init__(self) -> None:
        self._arrays: list[bytes] = []
        # Numbers of the arrays that may begin with the same rows, by dtype, shape of a row and first bytes.
        self._alike: dict[tuple[object, ...], list[int]] = {}
        # Trees of the parts written beforehand, in their order, by `id` of the object.
        self._parts: dict[int, list[Any]] = {}

    def part(self, value: object) -> None:
        """Write an object that is part of the state; before it only those without arrays, and parts, may come."""
        self._parts.setdefault(id(value), []).append(self._plain(value))

    def finished(self, state: object, names: Names, wrote: str = "") -> bytes:
        """Return the bytes of the whole state; `wrote` is the release that writes it."""
        head = msgspec.msgpack.encode([msgspec.to_builtins(names), wrote, self._tree(state)])
        body = b"".join([HEAD.pack(MAGIC, FORMAT, len(head)), head, *self._arrays])
        return body + hashlib.sha256(body).digest()

    def _tree(self, value: Any) -> Any:
        """Return what stands for a value in the head: of a part that was written beforehand, what was made then."""
        written = self._parts.get(id(value))
        return written.pop(0) if written else self._plain(value)

    def _plain(self, value: Any) -> Any:
        kind = type(value)
        if kind.__name__ in KINDS and KINDS[kind.__name__].of is kind:
            return ["@", kind.__name__, self._of_kind(value)]
        if value is None or kind in (bool, int, str):
            return value
        if isinstance(value, float):
            return float(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if kind in (tuple, list):
            return ["t" if kind is tuple else "l", *map(self._tree, value)]
        if isinstance(value, Mapping):
            return ["d", *([key, self._tree(value[key])] for key in sorted(value))]
        raise TypeError(f"{kind.__name__} is no part of a state")

    def _of_kind(self, value: Any) -> Any:
        """Return the trees of an object's fields, without the last ones if they have their default."""
        if isinstance(value, msgspec.Struct):
            return msgspec.to_builtins(value)
        if isinstance(value, LookedUp):
            return [self._array(value.known())]
        kind: Any = type(value)
        fields = list(_fields(kind))
        while fields:
            name, make_default = fields[-1]
            if make_default is None:
                break
            own, default = getattr(value, name), make_default()
            if type(own) is not type(default) or own != default:
                break
            fields.pop()
        return [self._tree(getattr(value, name)) for name, _ in fields]

    def _array(self, value: np.ndarray[Any, Any]) -> Any:
        """Return what stands for an array: dtype and shape, or the number of one before it and how many of its rows."""
        dtype = value.dtype.newbyteorder("<")
        if dtype.str not in DTYPES or not value.ndim:
            raise TypeError(f"an array of {dtype} and shape {value.shape} is no part of a state")
        content = np.ascontiguousarray(value, dtype).tobytes()
        if len(content) >= SHARED_BYTES:
            alike = self._alike.setdefault((dtype.str, value.shape[1:], content[:SHARED_BYTES]), [])
            for number in alike:
                if self._arrays[number].startswith(content):
                    return ["=", number, len(value)]
            alike.append(len(self._arrays))
        self._arrays.append(content)
        return ["#", dtype.str, list(value.shape)]


def encode_state(state: object, names: Names, wrote: str = "") -> bytes:
    """Return the bytes of a state: anything made of `KINDS`, arrays, numbers, texts, tuples, lists and mappings."""
    return StateWriter().finished(state, names, wrote)


def decode_state(
    content: bytes | memoryview, kind: type[Value] | None = None, what: str = "state", otherwise: str = ""
) -> tuple[Names, Value]:
    """Return the names and the state of bytes.

    Parameters
    ----------
    content : bytes
    kind : type, optional
        What the state must be.
    what : str
        Whose bytes they are, for errors.
    otherwise : str
        What to do where the build that wrote it is not at hand: the end of a sentence.

    Raises
    ------
    CorruptCheckpoint
        If bytes are damaged or missing, or another build wrote what this one does not know.
    """
    content = memoryview(content)
    if len(content) < HEAD.size + CHECKSUM_BYTES:
        raise CorruptCheckpoint(f"the {what} has only {len(content)} bytes")
    magic, version, size = HEAD.unpack_from(content)
    if magic != MAGIC:
        raise CorruptCheckpoint(f"the {what} does not begin with {MAGIC.decode()}")
    body = content[:-CHECKSUM_BYTES]
    if hashlib.sha256(body).digest() != content[-CHECKSUM_BYTES:]:
        raise CorruptCheckpoint(f"the {what}'s checksum does not match: bytes were lost or changed")
    if version != FORMAT:
        raise CorruptCheckpoint(
            f"the {what} was written before the first release, or by a later one: its format is {version}, and this "
            f"build knows {FORMAT} only",
            f"Use the build that wrote it{otherwise}.",
        )
    if size > len(body) - HEAD.size:
        raise CorruptCheckpoint(f"the {what}'s head is longer than the {what}")
    try:
        head = msgspec.msgpack.decode(body[HEAD.size : HEAD.size + size])
        names, wrote, tree = msgspec.convert(head, tuple[Names, str, Any])
        writer = f"streamsvm {wrote}, which wrote it" if wrote else "the build that wrote it"
        reader = _Reader(body[HEAD.size + size :], what, f"Use {writer}, or a newer one{otherwise}.")
        found = reader.made(tree)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise CorruptCheckpoint(f"the {what}'s head is damaged: {error}") from None
    reader.end()
    if kind is not None and type(found) is not kind:
        raise CorruptCheckpoint(f"the {what} holds a {type(found).__name__}, but a {kind.__name__} belongs there")
    return names, found


class _Reader:
    """Makes a state of its tree; each array is the next one of the bytes, or named one of those before.

    `content` holds the bytes of all arrays; `what` and `remedy` are for errors: whose bytes they are, and what to do.
    """

    def __init__(self, content: memoryview, what: str, remedy: str) -> None:
        self._content, self._what, self._remedy, self._at = content, what, remedy, 0
        self._arrays: list[np.ndarray[Any, Any]] = []

    def made(self, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        tag, *of = tree
        if tag == "@":
            return self._of_kind(*of)
        if tag == "#":
            return self._array(*of)
        if tag == "=":
            number, n = of
            if not 0 <= number < len(self._arrays) or not 0 <= n <= len(self._arrays[number]):
                raise CorruptCheckpoint(f"{n} rows of array {number} are named, and {len(self._arrays)} came before")
            return self._arrays[number][:n]
        if tag == "t":
            return tuple(map(self.made, of))
        if tag == "l":
            return list(map(self.made, of))
        if tag == "d":
            return {key: self.made(one) for key, one in of}
        raise ValueError(f"a value of the form {tag!r}")

    def end(self) -> None:
        """Require that every byte was read."""
        if self._at != len(self._content):
            raise CorruptCheckpoint(
                f"the arrays end at byte {self._at}, but the {self._what} has {len(self._content)} bytes of arrays"
            )

    def _of_kind(self, name: str, own: list[Any]) -> Any:
        if name not in KINDS:
            raise self._unknown(f"a part of the kind {name!r}")
        kind: Any
        kind, check, _ = KINDS[name]
        if issubclass(kind, msgspec.Struct):
            return msgspec.convert(own, kind)
        if issubclass(kind, LookedUp):
            (values,) = map(self.made, own)
            require_lengths("a column", len(values), values=values)
            if values.dtype != np.int64:
                raise CorruptCheckpoint(f"a column is described as {values.dtype}")
            return kind.of(values)
        fields = _fields(kind)
        if len(own) > len(fields) or any(default is None for _, default in fields[len(own) :]):
            raise self._unknown(f"a part of the kind {name!r} with {len(own)} fields")
        values = {field: self.made(one) for (field, _), one in zip(fields, own, strict=False)}
        for field, value in values.items():
            if not _fits(value, _hints(kind)[field]):
                raise CorruptCheckpoint(f"{field} of a {name} is described as {_described(value)}")
        found = kind(**values)
        check(found)
        return found

    def _unknown(self, part: str) -> CorruptCheckpoint:
        return CorruptCheckpoint(f"the {self._what} has {part}, which this build does not know", self._remedy)

    def _array(self, name: str, shape: list[int]) -> np.ndarray[Any, Any]:
        if name not in DTYPES or not shape or any(type(side) is not int or side < 0 for side in shape):
            raise CorruptCheckpoint(f"an array is described as {name} {tuple(shape)}")
        begin, dtype = self._at, np.dtype(name)
        self._at += math.prod(shape) * dtype.itemsize
        if self._at > len(self._content):
            raise CorruptCheckpoint(
                f"an array ends at byte {self._at}, but the {self._what} has only {len(self._content)} bytes of arrays"
            )
        flat = np.frombuffer(self._content[begin : self._at], dtype)
        self._arrays.append(flat.reshape(shape).astype(dtype.newbyteorder("=")))
        return self._arrays[-1]


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, localns={name: one.of for name, one in KINDS.items()})


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value that was read is what a field's type says."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in args)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and issubclass(value.dtype.type, get_args(args[1])[0])
    if origin is tuple and type(value) is tuple:
        hints = args[:1] * len(value) if args[-1] is Ellipsis else args
        return len(hints) == len(value) and all(map(_fits, value, hints))
    if origin in (dict, Mapping):
        return type(value) is dict and all(_fits(key, args[0]) and _fits(value[key], args[1]) for key in value)
    if origin is Literal:
        return value in args
    return type(value) in (int, float) if hint is float else type(value) is (origin or hint)


def _described(value: Any) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def check_partition(state: PartitionState, config: ModelConfig) -> None:
    """Raise `CorruptCheckpoint` where the state of a partition does not fit a configuration, or breaks an invariant."""
    points, coreset = config.points, config.coreset
    d, labels = points.dimension, points.classes

    def require(holds: bool | np.bool_, what: str) -> None:
        if not holds:
            raise CorruptCheckpoint(f"the state of a partition is not that of this model: {what}")

    def require_points(held: Points, most: int, what: str, extent: Extent | None = None) -> None:
        n = len(held.y)
        require(held.X.shape == (n, d) and held.X.dtype == points.numpy_dtype, f"the features of {what}")
        require(held.weight.shape == (n,) and n <= most, f"the number of points of {what}")
        codes = np.isin(held.y, (-1, 1)) if labels == 2 else (held.y >= 0) & (held.y < labels)
        require(codes.all(), f"the labels of {what}")
        require(np.isfinite(held.X).all() and np.isfinite(held.weight).all(), f"the numbers of {what}")
        require((held.weight > 0.0).all(), f"the weights of {what}")
        require(held.place is not None, f"the places of {what}")
        places = [Position(*place) for place in held.places[:, :2].tolist()]
        require(all(map(lt, places, places[1:])), f"the order of {what}")
        require(
            not places or extent is None or (extent.start <= places[0] and places[-1] < extent.end),
            f"the places of {what}",
        )

    def require_moments(moments: Moments, what: str) -> None:
        shapes = [moments.class_weight.shape, moments.mean.shape, moments.square.shape]
        require(shapes == [(labels,), (d,), (d,)], f"the moments of {what}")
        require(all(np.isfinite(one).all() for one in (moments.class_weight, moments.mean, moments.square)), what)
        require((moments.class_weight >= 0.0).all() and (moments.square >= 0.0).all(), f"the moments of {what}")

    def require_extent(extent: Extent, what: str) -> None:
        moments = extent.moments
        require_moments(moments, what)
        require(0 <= moments.count <= extent.rows and extent.start <= extent.end, f"the rows of {what}")

    def require_samples(audit: tuple[Sampled, ...]) -> None:
        most = coreset.bucket_audit_points if coreset.forgets else coreset.audit_points
        require(len(audit) == len(state.audit) and len(audit) in {0, 1, labels}, "the number of its audit samples")
        for sample in audit:
            require_points(sample.points, most, "an audit sample")
            require(sample.priority.shape == sample.points.weight.shape, "the priorities of an audit sample")
            require((sample.priority > sample.threshold).all() and sample.threshold >= 0.0, "an audit sample")
            require(sample.class_weight.shape == (labels,), "the weights of an audit sample")
            require(np.isfinite(sample.class_weight).all(), "the weights of an audit sample")

    memory = state.memory
    require((memory is None) == (coreset.memory == "all"), "its memory")
    most = coreset.bucket_points
    if memory is not None:
        most = max(most, coreset.leaf_rows)  # of the open span
        require(all(bucket.before is not None for bucket in state.buckets), "what was learned before its buckets")
        require(memory.learned.class_weight.shape == (labels,), "what it learned")
        found = memory.horizons
        if found is not None:
            h, width = len(state.buckets), (1 if labels == 2 else labels, d + 1)
            require(coreset.memory == "adaptive" and found.w.shape == (h, *width), "the experts of its horizons")
            require(len(found.borders) == len(found.solved) == len(found.starts) == h, "its horizons")
    end = state.buckets[0].extent.start if state.buckets else state.extent.start
    for bucket in state.buckets:
        require(bucket.extent.start == end, "the positions of its buckets")
        require_extent(bucket.extent, "a bucket")
        require_points(bucket.points, most, "a bucket", bucket.extent)
        if bucket.audit:
            require_samples(bucket.audit)
        end = bucket.extent.end
    require(state.extent.start == end and len(state.buckets) <= state.sealed, "the positions of its leaf")
    require_extent(state.extent, "the leaf")
    require_points(state.leaf, coreset.leaf_rows, "the leaf", state.extent)
    require_samples(state.audit)
    history = state.history
    n, shapes = len(history.mean), [history.class_weight.shape, history.mean.shape, history.square.shape]
    require(shapes == [(n, labels), (n, d), (n, d)] and n < HISTORY_BLOCKS, "its history")
    require_moments(history.part, "its history")
    require(0 <= history.part.count < history.rows and history.rows >= FIRST_ROWS, "the rows of its history")
    numbers = (history.class_weight, history.mean, history.square)
    require(all(np.isfinite(one).all() for one in numbers), "the numbers of its history")
    require((history.weight > 0.0).all() and (history.square >= 0.0).all(), "the numbers of its history")
    bounding = sum(bucket.extent.moments.count for bucket in state.buckets)
    if state.since is not None:
        require_moments(state.since, "what bounds its rows")
        bounding = state.since.count
    require(state.raw == (not bounding) or memory is not None, "whether its rows are as they came")
    screen = state.screen
    if screen is not None:
        pilot, rough = screen.pilot, screen.pilot.landmarks
        p = len(pilot.side)
        shapes = [screen.sums.shape, screen.count.shape, screen.label.shape, screen.active.shape, screen.square.shape]
        require(shapes == [(labels, BINS), (labels,), (labels,), (p, 2), (2, d)], "the screen")
        require(screen.certain.shape == (labels,) and screen.gradient.shape in {(p, d), (p, 0)}, "the screen")
        require(pilot.w.shape == (p, d + 1) and pilot.scaling.shape == (2, d), "the pilot")
        require(pilot.root.shape[:2] == (p, d + 1) and pilot.terms.shape == (p, 2, 3), "the pilot")
        require(pilot.side.shape == (p, labels) and pilot.class_weight.shape == (labels,), "the pilot")
        require(pilot.root.ndim == 3 and pilot.centre.shape == (p, 2, d), "the pilot")
        require(pilot.loss == loss_of(config.pilots), "the loss of the pilot")
        if rough is not None:
            k = rough.places.shape[-1]
            shapes = [rough.scaling.shape, rough.places.shape, rough.coefficients.shape, rough.intercepts.shape]
            require(shapes == [(2, d), (d, k), (p, k), (p,)], "the landmarks")
        if pilot.curves is not None:
            require(labels == 2 and are_curves(pilot.curves, d), "the curves of the pilot")
        require(0 <= screen.thinned < 1_024 and state.extent.rows < screen.span, "the screen")
