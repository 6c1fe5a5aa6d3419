"""What was served, joined with the labels that came later: quality as people had it, by version.

**The rule** is that of `streamsvm.joining.joiner`, with the scores in the features' place. Partition p of the scorer's
input belongs to partition p of the labels. The scores of p are put in the order of their input (offset, row), whatever
partitions they were written to; their time is that of `streamsvm.joining.log_time`, in this order, of the times at
which they were written. So a label counts for the first score of its key that was written at most a horizon before it,
or at most `early` after it; a second score of the key within the horizon is passed over, and so is a label that changes
an earlier one. Both ranges are read to their ends, so that every record in them has a time.

Where labels come with the points there is nothing to wait for: a row's place is its key, and every time is 0.

Invariant: the result is a function of what both logs hold in the ranges given, and of the rule; in which order and
portions they were read changes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.joining import log_time
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.rows import COUNTED, FeatureRows, JoinRules, LabelRows
from streamsvm.points import Position, hashed

COLUMNS: Final = (
    "offset",
    "row",
    "version",
    "score",
    "probability",
    "answer",
    "shadow_version",
    "shadow_score",
    "shadow_probability",
    "shadow_answer",
    "partition",
)
"""What is kept of a score, as float64: offset and row of its place in the input; version, decision value, probability
(NaN: none) and answer (-1 or +1) of what was served; the same of the version in the shadow, whose number is 0 where
there is none; the partition of its place."""
FLOAT64: Final = np.dtype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedScores:
    """Scores, in any order.

    Attributes
    ----------
    partition, time_ms : ndarray of shape (n,), int64
        Partition of the scorer's input; when the score was written, -1 where that is unknown.
    keys : list of n bytes
    said : ndarray of shape (n, len(COLUMNS)), float64
    """

    partition: NDArray[np.int64]
    time_ms: NDArray[np.int64]
    keys: list[bytes]
    said: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, chosen: NDArray[np.bool_]) -> ServedScores:
        """Return some of them."""
        return ServedScores(
            partition=self.partition[chosen],
            time_ms=self.time_ms[chosen],
            keys=[self.keys[index] for index in np.flatnonzero(chosen).tolist()],
            said=self.said[chosen],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLabels:
    """Labels of one partition, in the order of their log.

    Attributes
    ----------
    time_ms : ndarray of shape (n,), int64
    last : ndarray of shape (n,), bool
        Whether it is its record's last.
    keys : list of n bytes
    sign : ndarray of shape (n,), int8
        0 where a record only tells the time.
    """

    time_ms: NDArray[np.int64]
    last: NDArray[np.bool_]
    keys: list[bytes]
    sign: NDArray[np.int8]

    def of(self, wanted: Container[bytes]) -> ServedLabels:
        """Return those of some keys."""
        chosen = [index for index, key in enumerate(self.keys) if key in wanted]
        return ServedLabels(
            time_ms=self.time_ms[chosen],
            last=self.last[chosen],
            keys=[self.keys[index] for index in chosen],
            sign=self.sign[chosen],
        )


NO_LABELS: Final = ServedLabels(
    time_ms=np.empty(0, np.int64), last=np.empty(0, np.bool_), keys=[], sign=np.empty(0, np.int8)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Scores that met their label.

    Attributes
    ----------
    said : ndarray of shape (m, len(COLUMNS)), float64
    y : ndarray of shape (m,), int8
        -1 or +1.
    counts : mapping of str to int
        `scores`, `labels`, `open` (scores that may still get a label), and `streamsvm.joining.rows.COUNTED`.
    """

    said: NDArray[np.float64]
    y: NDArray[np.int8]
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.y)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a column by its name."""
        return self.said[:, COLUMNS.index(name)]

    def ordered(self) -> Served:
        """Return them in the order of the input: by partition, offset and row."""
        order = np.lexsort([self.column(name) for name in ("row", "offset", "partition")])
        return Served(said=self.said[order], y=self.y[order], counts=self.counts)

    def where(self, chosen: NDArray[np.bool_]) -> Served:
        """Return some of them."""
        return Served(said=self.said[chosen], y=self.y[chosen], counts=self.counts)


def served(
    scores: ServedScores,
    labels: Mapping[int, ServedLabels],
    *,
    horizon_ms: int,
    early_ms: int,
) -> Served:
    """Join scores with the labels of their partitions.

    Parameters
    ----------
    scores : ServedScores
    labels : mapping of int to ServedLabels
        By partition.
    horizon_ms, early_ms : int
        Of the rule.
    """
    rules = JoinRules(horizon_ms=horizon_ms, early_ms=early_ms, absent="drop", most_rows=len(scores) + 1)
    counts = dict.fromkeys(("scores", "labels", "open", *COUNTED), 0)
    said, signs = [np.empty((0, len(COLUMNS)))], [np.empty(0, np.int8)]
    for partition in sorted({*np.unique(scores.partition).tolist(), *labels}):
        own = _timed_scores(_in_order(scores, np.flatnonzero(scores.partition == partition)))
        answers = labels.get(partition, NO_LABELS)
        times = log_time.decided(answers.time_ms, answers.last, -1, closed=True).time_ms
        answers = replace(answers, time_ms=times)
        found, sign = _of_partition(own, answers, rules, counts)
        # In the order of the input: sums of what was joined are then the same bits whatever was read first.
        order = np.lexsort((found[:, 1], found[:, 0]))
        said.append(found[order])
        signs.append(sign[order])
    return Served(said=np.concatenate(said), y=np.concatenate(signs), counts=counts)


def _timed_scores(scores: ServedScores) -> ServedScores:
    """Return scores, in the order of the input, under the times of their log."""
    offset = scores.said[:, 0]
    times = log_time.decided(scores.time_ms, np.append(offset[1:] != offset[:-1], True), -1, closed=True)
    return replace(scores, time_ms=times.time_ms)


def _in_order(scores: ServedScores, own: NDArray[np.intp]) -> ServedScores:
    """Return some scores in the order of the input; of two of the same place the one read first comes first."""
    places = scores.said[own]
    order = own[np.lexsort((places[:, 1], places[:, 0]))]
    return ServedScores(
        partition=scores.partition[order],
        time_ms=scores.time_ms[order],
        keys=[scores.keys[index] for index in order.tolist()],
        said=np.ascontiguousarray(scores.said[order]),
    )


def _of_partition(
    scores: ServedScores, labels: ServedLabels, rules: JoinRules, counts: dict[str, int]
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    joiner = Joiner(0, rules, len(COLUMNS), FLOAT64, Position(0), Position(0))
    # Past the end of both logs records that only tell the time: else what came last would wait for the other log.
    end_ms = 1 + max((int(times[-1]) for times in (scores.time_ms, labels.time_ms) if len(times)), default=0)
    joiner.add_features(_features(scores, end_ms))
    joiner.add_labels(_labels(labels, end_ms))
    said, signs = [np.empty((0, len(COLUMNS)))], [np.empty(0, np.int8)]
    while True:
        rows, letters = joiner.join()
        if rows is not None:
            said.append(np.asarray(rows.points.X, np.float64))
            signs.append(rows.points.y.astype(np.int8))
        elif not letters:
            break
    for name, count in zip(COUNTED, joiner.counts.tolist(), strict=True):
        counts[name] += count
    counts["scores"] += len(scores)
    counts["labels"] += int(np.count_nonzero(labels.sign))
    counts["open"] += joiner.rows_open
    return np.concatenate(said), np.concatenate(signs)


def _features(scores: ServedScores, end_ms: int) -> FeatureRows:
    n, more = len(scores) + log_time.ENOUGH, log_time.ENOUGH
    return FeatureRows(
        offset=np.arange(n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        time_ms=np.append(scores.time_ms, np.full(more, end_ms)),
        key=hashed([*scores.keys, *[b""] * more]),
        ok=np.arange(n) < len(scores),
        X=np.vstack([scores.said, np.zeros((more, len(COLUMNS)))]),
        weight=np.ones(n),
        leader_epoch=np.full(n, -1, np.int64),
    )


def _labels(labels: ServedLabels, end_ms: int) -> LabelRows:
    n, more = len(labels.keys) + log_time.ENOUGH, log_time.ENOUGH
    return LabelRows(
        offset=np.arange(n),
        row=np.zeros(n, np.int64),
        last=np.ones(n, np.bool_),
        time_ms=np.append(labels.time_ms, np.full(more, end_ms)),
        key=hashed([*labels.keys, *[b""] * more]),
        sign=np.append(labels.sign, np.zeros(more, np.int8)).astype(np.int8),
        leader_epoch=np.full(n, -1, np.int64),
    )


def gathered(parts: Sequence[ServedScores]) -> ServedScores:
    """Return scores that were read in portions, as they were read."""
    return ServedScores(
        partition=np.concatenate([np.empty(0, np.int64), *(part.partition for part in parts)]),
        time_ms=np.concatenate([np.empty(0, np.int64), *(part.time_ms for part in parts)]),
        keys=[key for part in parts for key in part.keys],
        said=np.concatenate([np.empty((0, len(COLUMNS))), *(part.said for part in parts)]),
    )
