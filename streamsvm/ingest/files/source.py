"""What a file of points is once it is opened: a schema, and batches that can be read again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label

Format = Literal["csv", "jsonl", "parquet"]

Column = str | int
"""A column's name, or its index from 0; a negative index counts from the last."""

Id = str | int

OnIncomplete = Callable[[int], object]
"""Called with the number of rows of a batch that were skipped."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Consecutive points of a source.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
        Finite features.
    y : list of int, str or bool, or None
        Labels; None from a source without them.
    weight : ndarray of shape (n,), float64, or None
        Weights in [1e-15, 1e15]; None where every point weighs 1.
    ids : list of str, int or None, or None
        Identifiers; None if no point has one.
    first_row : int
        Index in the source, from 0, of the first row that was read for the batch.
    rows : ndarray of shape (n,), int64, or None
        Index of each point in the source; None if no row was skipped: they follow on `first_row`.
    """

    X: NDArray[np.float64]
    y: list[Label] | None
    weight: NDArray[np.float64] | None
    ids: list[Id | None] | None
    first_row: int
    rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSource:
    """Points that can be read any number of times, always in the same order.

    Attributes
    ----------
    name : str
        What messages call it.
    dimension : int
        Number of features.
    feature_names : tuple of str
        Names in the order of the features; empty where there are none.
    labeled : bool
        Whether batches have labels.
    rows : int or None
        Number of points; None if it is not known without reading all of them.
    batches : callable
        Returns an iterator over the batches; each call starts at the first batch. The iterator raises
        `ConfigurationError` at the first row that is not a valid point.
    """

    name: str
    dimension: int
    feature_names: tuple[str, ...]
    labeled: bool
    rows: int | None
    batches: Callable[[], Iterator[SourceBatch]] = field(repr=False)
