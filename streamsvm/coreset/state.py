"""One form of a state, for a checkpoint file, a record of the states topic and the base of a history.

    magic | length of the head | head: MessagePack | arrays, little-endian, one after another | SHA-256 of all before

The head holds the names of a state and the state as a tree, in which an array is its dtype and shape: where it begins
follows from those before it. Only the classes of `KINDS` can be made, and every size is checked against the bytes that
are there before anything is allocated. The same state has the same bytes on every machine.

A state counts only under its own `Names`: which incarnation of a model's log it is of, of which input topic, learned by
which options, without which erased rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import struct
from typing import Any, Final

import msgspec
import numpy as np

from streamsvm.config import ModelConfig
from streamsvm.coreset.audit import Sampled, shares
from streamsvm.coreset.buckets import Bucket, Extent, Learned, Moments
from streamsvm.coreset.memories import Horizons, Memory
from streamsvm.coreset.partition import PartitionState, known
from streamsvm.coreset.pilot import Pilot
from streamsvm.coreset.screen import BINS, Screen
from streamsvm.errors import StateError
from streamsvm.points import Points, Position

MAGIC: Final = b"ssvmstat"
VERSION: Final = 1
HEAD: Final = struct.Struct("<8sIQ")
DTYPES: Final = {"<f4", "<f8", "<i8", "|i1", "|b1"}
MOST_DEPTH: Final = 12
REMEDY: Final = "Remove the damaged file, and start again: the trainer goes on from an older one, or from the log."


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


KINDS: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (Bucket, Extent, Horizons, Learned, Memory, Moments, PartitionState, Pilot, Points, Sampled, Screen)
}


def encode_state(state: object, names: Names) -> bytes:
    """Return the bytes of a state: anything made of `KINDS`, numbers, texts, positions, tuples and dicts."""
    arrays: list[bytes] = []

    def plain(value: Any, depth: int = 0) -> Any:
        if depth > MOST_DEPTH:
            raise ValueError(f"a state is {depth} levels deep; the most are {MOST_DEPTH}")
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            arrays.append(array.tobytes())
            return ["#", array.dtype.str, list(value.shape)]
        if dataclasses.is_dataclass(value):
            name = type(value).__name__
            if name not in KINDS:
                raise TypeError(f"{name} is no part of a state")
            fields = [plain(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)]
            return ["@", name, fields]
        if isinstance(value, Position):
            return ["p", *value]
        if isinstance(value, tuple):
            return ["t", [plain(one, depth + 1) for one in value]]
        if isinstance(value, dict):
            return ["d", [[key, plain(value[key], depth + 1)] for key in sorted(value)]]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError(f"{type(value).__name__} is no part of a state")

    head = msgspec.msgpack.encode([msgspec.to_builtins(names), plain(state)])
    body = b"".join([HEAD.pack(MAGIC, VERSION, len(head)), head, *arrays])
    return body + hashlib.sha256(body).digest()


def decode_state(content: bytes | memoryview) -> tuple[Names, Any]:
    """Return the names and the state of bytes; raise `StateError` where they are damaged or of another format."""
    content = memoryview(content)
    if len(content) < HEAD.size + 32 or bytes(content[:8]) != MAGIC:
        raise StateError("this is no state of a model", REMEDY)
    if hashlib.sha256(content[:-32]).digest() != bytes(content[-32:]):
        raise StateError("a state is damaged: its SHA-256 is another one", REMEDY)
    _, version, size = HEAD.unpack_from(content)
    if version != VERSION or size > len(content) - HEAD.size - 32:
        raise StateError(f"a state has format {version}; this build reads format {VERSION}", REMEDY)
    rest, at = content[HEAD.size + size : -32], 0

    def made(value: Any) -> Any:
        nonlocal at
        if not isinstance(value, list):
            return value
        tag, *of = value
        if tag == "#":
            dtype, shape = of
            if dtype not in DTYPES or any(type(side) is not int or side < 0 for side in shape):
                raise ValueError(f"an array of {dtype} and shape {shape}")
            length = math.prod(shape) * np.dtype(dtype).itemsize
            if length > len(rest) - at:
                raise ValueError("an array is longer than the state")
            at += length
            return np.frombuffer(rest[at - length : at], dtype).reshape(shape).astype(dtype[1:], copy=True)
        if tag == "@":
            kind = KINDS[of[0]]
            return kind(**{field.name: made(one) for field, one in zip(dataclasses.fields(kind), of[1], strict=True)})
        if tag == "p":
            return Position(*of)
        if tag == "t":
            return tuple(map(made, of[0]))
        if tag == "d":
            return {key: made(one) for key, one in of[0]}
        raise ValueError(f"a part of the kind {tag!r}")

    try:
        names, tree = msgspec.msgpack.decode(content[HEAD.size : HEAD.size + size])
        found = msgspec.convert(names, Names), made(tree)
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise StateError(f"a state has content that this build does not know: {error}", REMEDY) from None
    if at != len(rest):
        raise StateError("a state has bytes behind its last array", REMEDY)
    return found


def check_partition(state: PartitionState, config: ModelConfig) -> None:
    """Raise `StateError` where the state of a partition does not fit a configuration, or breaks an invariant."""
    points, coreset = config.points, config.coreset
    d, labels = points.dimension, points.classes

    def require(holds: bool | np.bool_, what: str) -> None:
        if not holds:
            raise StateError(f"the state of a partition is not that of this model: {what}", REMEDY)

    def require_points(held: Points, most: int, what: str) -> None:
        n = len(held.y)
        require(held.X.shape == (n, d) and held.X.dtype == points.numpy_dtype, f"the features of {what}")
        require(held.weight.shape == (n,) and n <= most, f"the number of points of {what}")
        codes = np.isin(held.y, (-1, 1)) if labels == 2 else (held.y >= 0) & (held.y < labels)
        require(codes.all(), f"the labels of {what}")
        require(np.isfinite(held.X).all() and np.isfinite(held.weight).all(), f"the numbers of {what}")
        require((held.weight > 0.0).all(), f"the weights of {what}")

    def require_extent(extent: Extent, what: str) -> None:
        moments = extent.moments
        shapes = [moments.class_weight.shape, moments.mean.shape, moments.square.shape]
        require(shapes == [(labels,), (d,), (d,)], f"the moments of {what}")
        require(all(np.isfinite(one).all() for one in (moments.class_weight, moments.mean, moments.square)), what)
        require((moments.class_weight >= 0.0).all() and (moments.square >= 0.0).all(), f"the moments of {what}")
        require(0 <= moments.count <= extent.rows and extent.start <= extent.end, f"the rows of {what}")

    def require_samples(audit: tuple[Sampled, ...]) -> None:
        held = shares(coreset.bucket_audit_points if coreset.forgets else coreset.audit_points, labels)
        require(len(audit) == len(held), "the number of its audit samples")
        for sample, share in zip(audit, held.values(), strict=True):
            require_points(sample.points, share, "an audit sample")
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
        require_points(bucket.points, most, "a bucket")
        if bucket.audit:
            require_samples(bucket.audit)
        end = bucket.extent.end
    require(state.extent.start == end and len(state.buckets) <= state.sealed, "the positions of its leaf")
    require_extent(state.extent, "the leaf")
    require_points(state.leaf, coreset.leaf_rows, "the leaf")
    require_samples(state.audit)
    sealed = sum(bucket.extent.moments.count for bucket in known(state.buckets, memory, coreset))
    require(state.raw == (not sealed), "whether its rows are as they came")
    screen = state.screen
    if screen is not None:
        p = len(screen.pilot.side)
        shapes = [screen.sums.shape, screen.count.shape, screen.label.shape, screen.active.shape, screen.square.shape]
        require(shapes == [(labels, BINS), (labels,), (labels,), (p, 2), (2, d)], "the screen")
        require(screen.pilot.w.shape == (p, d + 1) and screen.pilot.scaling.shape == (2, d), "the pilot")
        require(screen.pilot.root.shape[:2] == (p, d + 1) and screen.pilot.terms.shape == (p, 2, 3), "the pilot")
        require(0 <= screen.thinned < 1_024 and state.extent.rows < screen.span, "the screen")
