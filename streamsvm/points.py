"""Points, positions and decoded rows: the words every other module is written in.

A *point* is (x in R^d, y, weight u). A *position* (offset, row) of a partition is the next row to learn; a record may
hold many rows. A *place* (offset, row, hash of the id) is where a kept point came from. Points are stored raw, never
scaled: a scaler belongs to a model, and comes from its cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.floating]
"""Raw features, shape (n, d), float32 or float64 as configured."""
Signs = NDArray[np.int8]
"""Labels as -1 and +1, shape (n,); where more than two classes share a structure, the index of each point's class."""
Weights = NDArray[np.float64]
"""Positive weights, shape (n,)."""
Places = NDArray[np.int64]
"""Where points came from, shape (n, 3); see `Points`."""


class Position(NamedTuple):
    """The next row to learn of one partition: `row` rows of the record at `offset` are already learned."""

    offset: int
    row: int = 0


NO_CODE: Final = -128
"""Stands for no label where codes of labels are expected."""


def label_codes(classes: int) -> tuple[int, ...]:
    """Return what `Points.y` holds for each of so many labels, in their order: a sign of two, the index of more."""
    return (-1, 1) if classes == 2 else tuple(range(classes))


Positions = Mapping[int, Position]
"""One position for each partition: a cut, a base, or a checkpoint's truth."""


def precedes(earlier: Positions, later: Positions) -> bool:
    """Return whether `earlier` <= `later` in every partition; a partition that is absent stands at its beginning."""
    return all(position <= later.get(partition, Position(-1)) for partition, position in earlier.items())


ROUNDED_AWAY: Final = 1e-3
"""Standard deviations of a column by which float32 may move its values: less is no loss to a linear model."""


LARGEST_FEATURE: Final[Mapping[str, float]] = {"float32": float(np.finfo(np.float32).max), "float64": 1e100}
"""Largest magnitude of a feature: the storage dtype holds it, and its square can be summed in float64."""


def is_lost_as_float32(column: NDArray[np.float64]) -> bool:
    """Return whether different values of a column become the same as float32, far enough from where they were.

    float32 has 24 bits: at 1.7e9, the seconds since 1970, neighbours are 128 apart.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = column.astype(np.float32)
        moved = np.abs(rounded - column).max(initial=0.0)
    if not moved > ROUNDED_AWAY * float(np.std(column)):
        return False
    return len(np.unique(rounded)) < len(np.unique(column))


@dataclass(frozen=True, slots=True)
class Points:
    """Weighted labeled points.

    Attributes
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n,), int8, each -1 or +1
        Where more than two classes share a structure, the index of the point's class; `against_the_rest` has signs.
    weight : ndarray of shape (n,), float64, each positive
    place : ndarray of shape (n, 3), int64, or None
        Where the point came from: the offset of its record, its row there, and the hash of its id (0: it has none), see
        `id_hashes`. None of points that no partition has kept.
    """

    X: Features
    y: Signs
    weight: Weights
    place: Places | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dimension(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in (self.X, self.y, self.weight, self.place) if array is not None)

    def not_before(self, start: Position) -> NDArray[np.bool_]:
        """Return which points, which have places, came from there on in their partition."""
        offset, row = self.places[:, 0], self.places[:, 1]
        own: NDArray[np.bool_] = (offset > start.offset) | ((offset == start.offset) & (row >= start.row))
        return own

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Points:
        """Select rows, in the order given."""
        if type(rows) is slice:
            place = None if self.place is None else self.place[rows]
            return Points(self.X[rows], self.y[rows], self.weight[rows], place)
        # Not by brackets, which copy a row of a matrix value by value.
        at = rows.nonzero()[0] if rows.dtype == np.bool_ else rows
        place = None if self.place is None else self.place.take(at, axis=0)
        return Points(self.X.take(at, axis=0), self.y.take(at), self.weight.take(at), place)

    def reweighted(self, weight: Weights) -> Points:
        """Return the same points under other weights."""
        return Points(self.X, self.y, weight, self.place)

    def scaled(self, factor: float) -> Points:
        """Return the same points, each of so many times its weight."""
        return self if factor == 1.0 else self.reweighted(self.weight * factor)

    def class_weighted(self, class_weight: tuple[float, ...]) -> Points:
        """Return the same points, weights times the first number where y = -1, times the second where y = +1.

        More than two numbers are those of the classes that y has indices of.
        """
        if class_weight.count(1.0) == len(class_weight):
            return self
        label = self.y if len(class_weight) > 2 else (self.y > 0).astype(np.intp)
        return self.reweighted(self.weight * np.array(class_weight)[label])

    def against_the_rest(self, label: int) -> Points:
        """Return the same points with signs: +1 where y is the index of this class, else -1."""
        return Points(self.X, np.where(self.y == label, 1, -1).astype(np.int8), self.weight, self.place)

    def also_in(self, others: Points) -> NDArray[np.bool_]:
        """Return which points have the features, to the last bit, of one of others; whatever their labels are.

        By the labels, too, it would say which label a row has that occurs twice.
        """
        own, known = (
            np.ascontiguousarray(X).view(f"V{X.itemsize * X.shape[1]}").ravel().tolist() for X in (self.X, others.X)
        )
        held = set(known)
        return np.array([x in held for x in own], np.bool_)

    def sha256(self) -> str:
        """Hash shape, dtype and every byte of the points in their order, but for their places, in hexadecimal."""
        digest = hashlib.sha256(f"{self.X.dtype.str} {self.X.shape}".encode())
        for array in (self.X, self.y, self.weight):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @staticmethod
    def empty(dimension: int, dtype: np.dtype[np.floating], room: int = 0) -> Points:
        """Return memory for so many points with places, of a given dimension."""
        y, weight = np.empty(room, np.int8), np.empty(room, np.float64)
        return Points(np.empty((room, dimension), dtype), y, weight, np.empty((room, 3), np.int64))

    @property
    def places(self) -> Places:
        """Where the points came from; only of points that have places."""
        assert self.place is not None
        return self.place

    def write(self, begin: int, points: Points) -> None:
        """Write other points, which have places, over those from `begin` on."""
        part = slice(begin, begin + len(points))
        self.X[part], self.y[part], self.weight[part] = points.X, points.y, points.weight
        self.places[part] = points.places

    @staticmethod
    def union(parts: Sequence[Points]) -> Points:
        """Concatenate, keeping the order: the union of weighted sets (`parts` must not be empty)."""
        return Points(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.weight for part in parts]),
            _concatenated([part.place for part in parts]),
        )


class LookedUp:
    """A column of rows, int64, that is looked up where it is asked for: times, or hashes of ids.

    To ask a consumed record for its time takes as long as to parse its numbers, and few rows need either.

    Parameters
    ----------
    look_up : callable
        Returns the values of some indexes.
    at : ndarray of shape (n,), int64
        The index of each row.
    """

    __slots__ = ("_at", "_look_up")

    def __init__(self, look_up: Callable[[NDArray[np.int64]], NDArray[np.int64]], at: NDArray[np.int64]) -> None:
        self._look_up, self._at = look_up, at

    @classmethod
    def of(cls, values: NDArray[np.int64]) -> Self:
        """Return values that are known."""
        return cls(values.__getitem__, np.arange(len(values)))

    @classmethod
    def union(cls, parts: Sequence[Self]) -> Self:
        """Concatenate columns; they are looked up now."""
        return cls.of(np.concatenate([part.known() for part in parts]))

    def take(self, which: slice | NDArray[np.int64]) -> Self:
        """Return the values of some of the rows."""
        return type(self)(self._look_up, self._at[which])

    def known(self) -> NDArray[np.int64]:
        """Return all values, shape (n,)."""
        return self._look_up(self._at)

    def ends(self) -> tuple[int, int]:
        """Return the time of the first and of the last row, at least one, that has one; -1 if none has."""
        first, last = self._look_up(self._at[[0, -1]]).tolist()
        if first < 0 or last < 0:
            time_ms = self.known()
            first, last = time_ms[time_ms >= 0][[0, -1]].tolist() if (time_ms >= 0).any() else (-1, -1)
        return first, last


def key_of(id_: str | int | None) -> bytes | None:
    """Return the key that an `id` is: the same for a number and its digits."""
    return None if id_ is None else str(id_).encode(errors="surrogatepass")


def hashed(keys: Sequence[bytes], name: str = "") -> NDArray[np.uint64]:
    """Return 64 bits of BLAKE2b of each key, shape (n,); salted by the name of a model, if one is given."""
    salt = blake2b(name.encode(), digest_size=16).digest() if name else b""
    found = b"".join([blake2b(key, digest_size=8, salt=salt).digest() for key in keys])
    return np.frombuffer(found, "<u8").astype(np.uint64)


def id_hashes(ids: Sequence[str | int | None], name: str) -> LookedUp:
    """Return the hash of each id, 0 where there is none: by it a point is found, and it does not say whose it is."""

    def look_up(at: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = [key_of(ids[index]) for index in at.tolist()]
        return np.where([key is None for key in keys], 0, hashed([key or b"" for key in keys], name).view(np.int64))

    return LookedUp(look_up, np.arange(len(ids)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Consecutive decoded rows of one partition, in log order, rejected ones included.

    A rejected row still occupies its position, because leaves seal by rows *seen*: where a leaf ends may not depend
    on anything but the log.

    Attributes
    ----------
    partition : int
    offset : ndarray of shape (n,), int64
        Offset of the record that holds the row.
    row : ndarray of shape (n,), int64
        Index of the row inside its record.
    last : ndarray of shape (n,), bool
        Whether it is the last row of its record.
    times : LookedUp
        The record's timestamp in the log, milliseconds since the epoch; -1 where the log has none.
    accepted : ndarray of shape (n,), bool
        Whether the row is a valid point; `points` holds meaningless values where not.
    points : Points
        n points, one a row.
    leader_epoch : ndarray of shape (n,), int64
        Leader epoch of the record; -1 where the broker tells none.
    passed_over : ndarray of shape (n,), bool, or None
        Which of the rows that are not accepted are not rejected either, because they hold nothing to learn, such as a
        deletion; None if none is.
    beside_offset : ndarray of shape (n,), int64, or None
        Where rows are joined from two logs: the offset after the newest record of the log beside the input that counted
        when the row was joined. Then `offset` is that of the newest record of the input merged, and `row` counts the
        points joined since; see `streamsvm.joining`.
    id_hash : LookedUp or None
        None if no row has an id.
    """

    partition: int
    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    last: NDArray[np.bool_]
    times: LookedUp
    accepted: NDArray[np.bool_]
    points: Points
    leader_epoch: NDArray[np.int64]
    passed_over: NDArray[np.bool_] | None = None
    beside_offset: NDArray[np.int64] | None = None
    id_hash: LookedUp | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def time_ms(self) -> NDArray[np.int64]:
        """All times, shape (n,)."""
        return self.times.known()

    @property
    def rejected(self) -> int:
        """Number of rejected rows."""
        without = len(self) - int(np.count_nonzero(self.accepted))
        return without if self.passed_over is None else without - int(np.count_nonzero(self.passed_over))

    def position_after(self, index: int) -> Position:
        """Return the position once row `index` is learned."""
        offset, row = int(self.offset[index]), int(self.row[index])
        return Position(offset + 1, 0) if self.last[index] else Position(offset, row + 1)

    @property
    def valid(self) -> Points:
        """The accepted points."""
        return self.points if self.accepted.all() else self.points.take(self.accepted)

    @property
    def placed(self) -> Points:
        """The accepted points, with their places."""
        hashes = np.zeros(len(self), np.int64) if self.id_hash is None else self.id_hash.known()
        place = np.stack([self.offset, self.row, hashes], axis=1)
        return replace(self, points=replace(self.points, place=place)).valid

    @staticmethod
    def union(parts: Sequence[Rows]) -> Rows:
        """Concatenate rows of one partition that follow each other (`parts` must not be empty)."""
        hashes = [part.id_hash or LookedUp.of(np.zeros(len(part), np.int64)) for part in parts]
        return Rows(
            partition=parts[0].partition,
            offset=np.concatenate([part.offset for part in parts]),
            row=np.concatenate([part.row for part in parts]),
            last=np.concatenate([part.last for part in parts]),
            times=LookedUp.union([part.times for part in parts]),
            accepted=np.concatenate([part.accepted for part in parts]),
            points=Points.union([part.points for part in parts]),
            leader_epoch=np.concatenate([part.leader_epoch for part in parts]),
            passed_over=_joined([(part.passed_over, len(part)) for part in parts]),
            beside_offset=_concatenated([part.beside_offset for part in parts]),
            id_hash=LookedUp.union(hashes) if any(part.id_hash for part in parts) else None,
        )

    def index_of(self, position: Position) -> int:
        """Return the index of the first row at or past `position` (n if all lie before it)."""
        # Nearly always the rows follow what is learned: then nothing is searched.
        if not len(self) or (int(self.offset[0]), int(self.row[0])) >= position:
            return 0
        first = int(np.searchsorted(self.offset, position.offset, side="left"))
        after = int(np.searchsorted(self.offset, position.offset, side="right"))
        return first + int(np.searchsorted(self.row[first:after], position.row, side="left"))

    def slice(self, start: int, stop: int) -> Rows:
        """Return rows `start` to `stop` (exclusive), without copying."""
        part = slice(start, stop)
        return Rows(
            partition=self.partition,
            offset=self.offset[part],
            row=self.row[part],
            last=self.last[part],
            times=self.times.take(part),
            accepted=self.accepted[part],
            points=self.points.take(part),
            leader_epoch=self.leader_epoch[part],
            passed_over=None if self.passed_over is None else self.passed_over[part],
            beside_offset=None if self.beside_offset is None else self.beside_offset[part],
            id_hash=None if self.id_hash is None else self.id_hash.take(part),
        )

    def detached(self) -> Rows:
        """Return the rows with everything looked up, for who keeps rows: else these keep the records they are of."""
        id_hash = None if self.id_hash is None else LookedUp.of(self.id_hash.known())
        return replace(self, times=LookedUp.of(self.time_ms), id_hash=id_hash)


def _joined(parts: Sequence[tuple[NDArray[np.bool_] | None, int]]) -> NDArray[np.bool_] | None:
    """Concatenate marks, of which None stands for so many that are not set."""
    if all(marks is None for marks, _ in parts):
        return None
    return np.concatenate([np.zeros(rows, np.bool_) if marks is None else marks for marks, rows in parts])


def _concatenated(parts: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
    """Concatenate arrays that all parts have, or none."""
    given = [part for part in parts if part is not None]
    return np.concatenate(given) if len(given) == len(parts) else None
