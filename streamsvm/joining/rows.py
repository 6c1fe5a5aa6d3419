"""What a join is given and what it makes: its rules, rows of both logs, refused rows, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import Points, Position

Absent = Literal["negative", "drop", "dead_letter"]
LEFT_OUT: Final = 0.0
"""The weight of a row that is joined, and then counts as a rejected one; that of every other row is above it."""
COUNTED: Final = (
    "joined",
    "absent",
    "joined_early",
    "doubled_row",
    "doubled_label",
    "changed_label",
    "unmatched_label",
)
"""Names of the outcomes that are counted, in the order of the kernels' numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRules:
    """The options of the rule.

    Attributes
    ----------
    horizon_ms : int
        How long a row waits for its label.
    early_ms : int
        How long a label waits for its row.
    absent : str
        What becomes of a row without a label.
    most_rows : int
        Most rows within the horizon, in one partition.
    """

    horizon_ms: int
    early_ms: int
    absent: Absent
    most_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRows:
    """Rows of the features log, in its order; arrays of shape (n,), X of shape (n, d).

    `ok` is False for a row that only tells the time: it was rejected, or is a watermark.
    """

    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    last: NDArray[np.bool_]
    time_ms: NDArray[np.int64]
    key: NDArray[np.uint64]
    ok: NDArray[np.bool_]
    X: NDArray[np.floating]
    weight: NDArray[np.float64]
    leader_epoch: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRows:
    """Rows of the labels log, in its order; arrays of shape (n,). A sign (`sign_of`) of 0 is a watermark's."""

    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    last: NDArray[np.bool_]
    time_ms: NDArray[np.int64]
    key: NDArray[np.uint64]
    sign: NDArray[np.int8]
    leader_epoch: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, slots=True)
class Letter:
    """A row of one log that a join refused: why (of `KINDS`), and where it stands."""

    reason: str
    offset: int
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """How far one log is merged: the next row, the time, and the epoch of the newest record merged (-1: none)."""

    next: Position
    time_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinState:
    """Everything that a joiner is, for a checkpoint; a pure function of the two logs up to where they are merged.

    Attributes
    ----------
    features, labels : LogState
    scalars : tuple of int
        Newest features record merged (-1: none), points joined since, its leader epoch, offset after the newest labels
        record merged.
    counts : tuple of int
        How many of each of `COUNTED` there were.
    row_key, row_time, row_offset, row_row, row_sign : ndarray of shape (n,)
        Rows within their horizon, the oldest first.
    row_points : Points
        Features and weights of those; labels without meaning.
    early_key, early_time, early_offset, early_row, early_sign : ndarray of shape (m,)
        Labels that wait for their rows, the oldest first.
    """

    features: LogState
    labels: LogState
    scalars: tuple[int, int, int, int]
    counts: tuple[int, ...]
    row_key: NDArray[np.uint64]
    row_time: NDArray[np.int64]
    row_offset: NDArray[np.int64]
    row_row: NDArray[np.int32]
    row_sign: NDArray[np.int8]
    row_points: Points
    early_key: NDArray[np.uint64]
    early_time: NDArray[np.int64]
    early_offset: NDArray[np.int64]
    early_row: NDArray[np.int32]
    early_sign: NDArray[np.int8]


def sign_of(code: int, classes: int) -> int:
    """Return what a join has for a label: never 0, which stands for none. Of two labels it is the code itself."""
    return code if classes == 2 else -1 - code


def codes_of(signs: NDArray[np.int8], classes: int) -> NDArray[np.int8]:
    """Return the codes of joined labels, as points have them."""
    return signs if classes == 2 else (-1 - signs).astype(np.int8)
