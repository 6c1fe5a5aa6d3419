"""Rows that a table holds more than once: a copy on the other side of a split is learned, not foretold.

Rows of few values are alike by chance. Where one column alone tells most distinct rows apart, rows that are alike in
all columns are copies of one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import Points

TELLS_APART: Final = 0.5
"""Share of the distinct rows that a column must have distinct values for."""
LEAST_VALUES: Final = 10
"""Distinct values that it must have besides: of a table with one constant, all rows of a label are one by chance."""
SAID_FROM: Final = 0.01
"""Share of the held-out rows with a copy among those that are learned, from which people are told."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Which rows are copies.

    Attributes
    ----------
    groups : ndarray of shape (n,), int64, or None
        The number of each distinct row; None where rows are alike by chance only, or not at all.
    rows : int
        That are copies of another one.
    """

    groups: NDArray[np.int64] | None
    rows: int

    def said(self, train: Points, test: Points) -> Iterator[str]:
        """Yield what copies there are, and what became of them."""
        if self.groups is not None:
            yield f"{self.rows:,} rows are copies of others: copies were kept on one side of the split"
            return
        learned = set(map(bytes, _packed(train)))
        alike = sum(bytes(row) in learned for row in _packed(test))
        if alike >= SAID_FROM * len(test):
            yield (
                f"{alike:,} of the {len(test):,} held-out rows are like a row that was learned: rows of few values are "
                "alike by chance, and copies make figures too good"
            )


def copies_of(points: Points) -> Copies:
    """Look for rows of the same features and label."""
    packed = _packed(points)
    _, groups, counts = np.unique(packed, return_inverse=True, return_counts=True)
    rows = len(points) - len(counts)
    if not rows:
        return Copies(None, 0)
    finest = max(len(np.unique(column)) for column in points.X.T)
    least = max(TELLS_APART * len(counts), LEAST_VALUES)
    return Copies(groups.astype(np.int64) if finest >= least else None, rows)


def _packed(points: Points) -> NDArray[np.void]:
    """Return each row as one value that equals that of a row of the same features and label, shape (n,)."""
    X = np.ascontiguousarray(np.column_stack([points.X.astype(np.float64), points.y]) + 0.0)
    return X.view(np.dtype((np.void, X.dtype.itemsize * X.shape[1]))).ravel()
