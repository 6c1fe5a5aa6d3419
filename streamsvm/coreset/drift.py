"""Whether the newest rows of a stream come from another distribution than all rows before them.

A `History` holds the moments of up to 63 equal, consecutive blocks of all rows; of 64 blocks, neighbours are merged.
Of n blocks, 32 or more, the newest m = n // 5 are compared with the oldest n - 2 m. The m blocks between them are left
out, because a change may take its time. The mean of a feature, or the share of a label, has drifted if all of this
holds:

1. All of the newest blocks lie on one side of all the oldest. For blocks in a random order, of whatever distribution,
   that has probability 2 / C(n - m, m): 9e-6 for 32 blocks, 1e-11 for 63.
2. Their distance from the oldest is more than `MARGIN` times the range of the oldest. This is for blocks that depend on
   one another, of which (1) says nothing: of a cycle, the stream may have shown only a part.
3. The distance is more than `LEAST` standard deviations of a row.
4. Rows vary within blocks by more than the oldest blocks vary among themselves. Else the column follows a clock, or an
   order of the rows (a weekday, an hour, a day of sorted rows), and the past of its mean says nothing about its future.

So a change is found after it lasted for about a quarter of the time before it, and a burst or a cycle is called drift
only if it is longer than that, and nothing like it was seen before: the first weekend of a label whose share differs on
weekends can be drift. Not found: a change of a column without noise; a ramp that begins with the stream; a change that
is not several times larger than the range of blocks, as in strongly autocorrelated columns and below the longest cycle;
a change of the rule behind the labels that moves neither means nor shares.

Sources: tests by the extremes of two samples (Rosenbaum 1954); means of few, long batches of a series of unknown
autocorrelation (Schmeiser 1982); merging neighbours to keep memory constant (Yeh and Schmeiser 2000).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streamsvm.config.sizes import HISTORY_BLOCKS
from streamsvm.coreset.buckets import Float, Moments
from streamsvm.points import Points

FIRST_ROWS: Final = 1_024
"""Rows of a block at first: what is found has lasted for 6,144 rows; with 512, for 3,072 as a burst of labels may."""
MARGIN: Final = 2.5
"""A parabola whose extremum lies in the middle of the oldest blocks moves by up to 2.24 times their range until the
newest begin; with 2, one of 100 streams with long, noisy cycles was called drift."""
LEAST: Final = 0.1
"""Less can be significant in a long stream, and matters to nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Moments of consecutive blocks of all rows; they depend on the rows and their order only.

    Attributes
    ----------
    rows : int
        Of a block.
    class_weight : ndarray of shape (n, n_labels), float64
        Of each block, the oldest first; as `mean` and `square` a field of `Moments`.
    mean, square : ndarray of shape (n, d), float64
    part : Moments
        Of the rows after the last block.
    """

    rows: int
    class_weight: Float
    mean: Float
    square: Float
    part: Moments

    def __len__(self) -> int:
        return len(self.mean)

    @staticmethod
    def zero(dimension: int, labels: int = 2) -> History:
        """Return the history of no rows."""
        none, part = np.zeros((0, dimension)), Moments.zero(dimension, labels)
        return History(rows=FIRST_ROWS, class_weight=np.zeros((0, labels)), mean=none, square=none, part=part)

    @property
    def weight(self) -> Float:
        """Total weight of each block, shape (n,), added as in `Moments.weight`."""
        return np.add.accumulate(self.class_weight, axis=1)[:, -1]

    def add(self, points: Points) -> History:
        """Return this history with points added one after another."""
        found, start = self, 0
        while start < len(points):
            stop = min(start + found.rows - found.part.count, len(points))
            part, start = found.part.add(points.take(slice(start, stop))), stop
            found = replace(found, part=part) if part.count < found.rows else found._with_block(part)
        return found

    def _with_block(self, part: Moments) -> History:
        found = History(
            rows=self.rows,
            class_weight=np.vstack([self.class_weight, part.class_weight]),
            mean=np.vstack([self.mean, part.mean]),
            square=np.vstack([self.square, part.square]),
            part=Moments.zero(len(part.mean), len(part.class_weight)),
        )
        return found if len(found) < HISTORY_BLOCKS else found._halved()

    def _halved(self) -> History:
        """Return this history with each two neighbours as one block, by Chan's update."""
        older, newer, shift = self.weight[::2, None], self.weight[1::2, None], self.mean[1::2] - self.mean[::2]
        share = newer / (older + newer)
        return replace(
            self,
            rows=2 * self.rows,
            class_weight=self.class_weight[::2] + self.class_weight[1::2],
            mean=self.mean[::2] + shift * share,
            square=self.square[::2] + self.square[1::2] + shift * shift * (older * share),
        )


@dataclass(frozen=True, slots=True)
class Drift:
    """What moved most.

    Attributes
    ----------
    feature, label : int or None
        Index of the feature whose mean moved, or of the label whose share did.
    before, now : float
        Mean, or share, of the oldest and of the newest blocks.
    deviations : float
        Least distance of a newest block from all the oldest, in standard deviations of a row within a block.
    """

    feature: int | None
    label: int | None
    before: float
    now: float
    deviations: float


def drift(history: History) -> Drift | None:
    """Return what moved most; None where nothing did, and before 32 blocks, which have 32,768 rows."""
    if len(history) < HISTORY_BLOCKS // 2:
        return None
    weight = history.weight[:, None]
    shares = history.class_weight / weight
    if shares.shape[1] == 2:
        shares = shares[:, 1:]  # the share of the other label moves as much
    means = np.hstack([history.mean, shares])
    within = np.hstack([history.square / weight, shares * (1.0 - shares)])
    newest = len(history) // 5
    old, new = means[: -2 * newest], means[-newest:]
    low, high = old.min(axis=0), old.max(axis=0)
    distance = np.maximum(new.min(axis=0) - high, low - new.max(axis=0))
    # The median, because one step of a weekday within a block is no noise. What was constant has the noise of now.
    noise = np.where(high > low, np.median(within[: -2 * newest], axis=0), within[-newest:].min(axis=0))
    moved = (distance > MARGIN * (high - low)) & (distance > LEAST * np.sqrt(noise)) & (noise > old.var(axis=0))
    if not moved.any():
        return None
    deviations = np.divide(distance, np.sqrt(noise), out=np.zeros_like(distance), where=moved)
    at, d = int(deviations.argmax()), len(history.part.mean)
    feature, label = (at, None) if at < d else (None, history.part.class_weight.size - means.shape[1] + at)
    return Drift(feature, label, float(old[:, at].mean()), float(new[:, at].mean()), float(deviations[at]))
