"""The join of one pair of partitions: features of one log, labels of another, found by key.

**The rule.** Partition p of the features belongs to partition p of the labels: both logs are keyed alike. The *time* of
a record is that of `streamsvm.joining.log_time`: the greatest record timestamp of its own log up to it that counts, so
time never runs backwards within a log, and one wrong clock does not move it. The two logs are merged by that time;
where times are equal features come first, and within a log the order is that of its offsets and rows. Then, step by
step of that one order:

- Before a step at time T every row of time t with t + horizon < T leaves. If it never met a label it is *absent*, and
  becomes a point of the first label, nothing, or a dead letter (`absent`). An early label of time t leaves where
  t + early < T; one that no row took is *unmatched*, a dead letter.
- A features row is opened under its key. If a label waits for it (it came *early*) it is joined at once. If its key is
  that of a row within its horizon, joined or not, it is *doubled*: the first row counts, this one is a dead letter.
- A label joins the row of its key. Where the row has the same label already it is *doubled* and passed over; where the
  row has the other label it is *changed*: the row may be learned already, so the first label counts, and this one is a
  dead letter. Where there is no such row it waits as an early label. A label beyond the horizon, or of a row that
  was never accepted, becomes unmatched that way.

So the sequence of joined points is a function of the two logs and the rule's three options. Which log was read first,
in what portions, and how often the process was killed change nothing.

**What waits.** A step is known only when the other log's next record is known to be no earlier: that log has a record
at hand, or has already passed that time. Where a partition of one log is idle, the other waits for it (`waits_for`).
The decision to go on is itself a record of the idle log: any later record tells the time, and so does a *watermark*, a
record with the header `streamsvm-watermark`, which is neither a row nor a label. A record whose own time needs those
behind it waits for them, with what follows it.

**Positions.** A joined point has the place (offset, row): the offset of the newest features record merged before it,
and how many points were joined since that record was. Within both logs' retention that place determines the newest
labels record merged, which every point carries, too (`Rows.beside_offset`).

**Memory.** A row takes 29 bytes of key, time, place and label, and 6 to 12 of index, besides its features and weight;
rings that have just grown are an eighth larger than they need be. A row stands for the horizon, joined or not, because
only so a doubled row or label can be recognised. Keys are 64 bits of BLAKE2b: among n rows within the horizon a label
meets a stranger's row with probability n / 2^64.
"""

from __future__ import annotations

import sys
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError
from streamsvm.joining import kernels, log_time
from streamsvm.joining.log_time import Ahead
from streamsvm.joining.read_log import ReadLog, part_of
from streamsvm.joining.rows import LEFT_OUT, FeatureRows, JoinRules, JoinState, LabelRows, Letter
from streamsvm.points import LookedUp, Points, Position, Rows

ABSENT: Final[dict[str, int]] = {
    "drop": kernels.DROP,
    "negative": kernels.NEGATIVE,
    "dead_letter": kernels.DEAD_LETTER,
}
KINDS: Final[dict[int, str]] = {
    kernels.ABSENT: "absent_label",
    kernels.DOUBLED_ROW: "doubled_key",
    kernels.CHANGED_LABEL: "changed_label",
    kernels.UNMATCHED_LABEL: "unmatched_label",
}
"""The reasons of dead letters that a join makes; the first two are of features, the others of labels."""
PORTION: Final = 8_192
"""Most points, and most letters, of one call of `join`; changes nothing but when they come."""
_SAVED: Final = (kernels.MERGED_OFFSET, kernels.JOINED_SINCE, kernels.MERGED_EPOCH, kernels.LABELS_OFFSET)
"""Scalars of the kernels' state that a checkpoint holds; the others follow from the rings."""
SMALLEST: Final = 1_024
"""First capacity of the rings."""


class Joiner:
    """Joins one pair of partitions.

    Parameters
    ----------
    partition : int
    rules : JoinRules
    dimension : int
    dtype : dtype
        Of the features.
    features, labels : Position
        Where each log begins.
    """

    def __init__(
        self,
        partition: int,
        rules: JoinRules,
        dimension: int,
        dtype: np.dtype[np.floating],
        features: Position,
        labels: Position,
    ) -> None:
        self.partition = partition
        self.counts = np.zeros(kernels.OUTCOMES, np.int64)
        self._rules, self._dimension, self._dtype = rules, dimension, dtype
        self._features, self._labels = ReadLog(features), ReadLog(labels)
        self._state = np.zeros(kernels.STATE, np.int64)
        self._state[kernels.MERGED_OFFSET] = -1
        self._state[kernels.MERGED_EPOCH] = -1
        self._state[kernels.LABELS_OFFSET] = labels.offset
        self._rows = self._ring(SMALLEST)
        self._early = _early_ring(SMALLEST)
        self._index = np.zeros(4 * SMALLEST, np.int32)
        self._why = kernels.EXHAUSTED
        most = (PORTION, dimension)
        self._points: tuple[NDArray[Any], ...] = (np.empty(most, dtype), np.empty(PORTION), np.empty(PORTION, np.int8))
        self._places = tuple(np.empty(PORTION, np.int64) for _ in range(6))
        self._letters_out = (np.empty(PORTION, np.int8), np.empty(PORTION, np.int64), np.empty(PORTION, np.int64))

    def _ring(self, capacity: int) -> tuple[NDArray[Any], ...]:
        return (
            np.zeros(capacity, np.uint64),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.int32),
            np.zeros(capacity, np.int8),
            np.zeros((capacity, self._dimension), self._dtype),
            np.zeros(capacity, np.float64),
        )

    # ------------------------------------------------------------------ reading

    @property
    def features_next(self) -> Position:
        """The next features row to merge."""
        return self._features.next

    @property
    def labels_next(self) -> Position:
        """The next row of the labels log to merge."""
        return self._labels.next

    @property
    def features_waiting(self) -> int:
        """Features rows that were read, have a time, and are not merged yet."""
        return self._features.waiting

    @property
    def labels_waiting(self) -> int:
        """Rows of the labels log that were read, have a time, and are not merged yet."""
        return self._labels.waiting

    def ahead(self, log: Literal["features", "labels"]) -> tuple[int, Ahead | None]:
        """Return how many records of a log were too far ahead for their time to count, and the newest of them."""
        found = self._features if log == "features" else self._labels
        return found.ahead, found.newest_ahead

    def add_features(self, chunk: FeatureRows) -> None:
        """Let rows wait that follow those before; rows that are merged already are left out."""
        new = self._features.merged_of(chunk)
        self._features.add(part_of(chunk, slice(new, None)) if new else chunk)

    def add_labels(self, chunk: LabelRows) -> None:
        """Let labels wait; as `add_features`."""
        new = self._labels.merged_of(chunk)
        self._labels.add(part_of(chunk, slice(new, None)) if new else chunk)

    # ------------------------------------------------------------------ joining

    @property
    def waits_for(self) -> Literal["", "features", "labels"]:
        """Which log has to bring a record before anything more can be merged; empty if none."""
        if self._features.chunks and not self._labels.chunks and self._why == kernels.WAITS_FOR_LABELS:
            return "labels"
        if self._labels.chunks and not self._features.chunks and self._why == kernels.WAITS_FOR_FEATURES:
            return "features"
        if not self._features.chunks and not self._labels.chunks:
            # Neither log has a row of a known time: one that has rows at all needs more of its own.
            return "features" if self._features.open else "labels" if self._labels.open else ""
        return ""

    @property
    def waits_at_ms(self) -> int:
        """The time that the log it waits for has to reach; -1 if it waits for none, or the time is not known."""
        waiting = {"labels": self._features, "features": self._labels}.get(self.waits_for)
        return int(waiting.times[0][waiting.at]) if waiting is not None and waiting.chunks else -1

    @property
    def rows_kept(self) -> int:
        """Rows within their horizon, joined or not."""
        return int(self._state[kernels.NEXT_ROW] - self._state[kernels.FIRST_ROW])

    @property
    def rows_open(self) -> int:
        """Rows within their horizon that met no label yet."""
        return int(self._state[kernels.UNANSWERED])

    @property
    def oldest_ms(self) -> int:
        """Time of the oldest row within its horizon; -1 if there is none."""
        if not self.rows_kept:
            return -1
        first = int(self._state[kernels.FIRST_ROW]) % len(self._rows[0])
        return int(self._rows[1][first])

    @property
    def time_ms(self) -> int:
        """Time up to which both logs are merged; -1 before the first record."""
        return max(self._features.time_ms, self._labels.time_ms)

    @property
    def position(self) -> Position | None:
        """The place of the next joined point while no further features record is merged; None before the first."""
        offset = int(self._state[kernels.MERGED_OFFSET])
        return None if offset < 0 else Position(offset, int(self._state[kernels.JOINED_SINCE]))

    @property
    def index_bytes(self) -> int:
        """Bytes of everything but features and weights: of rows, early labels and the index."""
        own = sum(array.nbytes for array in self._rows[:5])
        return own + sum(array.nbytes for array in self._early) + self._index.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes of features and weights."""
        return self._rows[5].nbytes + self._rows[6].nbytes

    def join(self) -> tuple[Rows | None, list[Letter]]:
        """Merge what is known of both logs, up to a portion of joined points; None if there is no point.

        Call it again until it returns neither points nor letters.

        Raises
        ------
        ConfigurationError
            If more rows are within the horizon than the rules allow.
        """
        while True:
            features, f_times, f_at = self._features.at_hand(self._no_features())
            labels, l_times, l_at = self._labels.at_hand(_no_labels())
            assert isinstance(features, FeatureRows)
            assert isinstance(labels, LabelRows)
            state = self._state
            state[kernels.FEATURES_AT], state[kernels.LABELS_AT] = f_at, l_at
            merge: Any = kernels.merge
            self._why, points, letters = merge(
                state,
                self._rules.horizon_ms,
                self._rules.early_ms,
                ABSENT[self._rules.absent],
                features.offset,
                f_times,
                features.key,
                features.ok,
                features.X,
                features.weight,
                features.leader_epoch,
                features.row,
                int(f_times[-1]) if len(f_times) else self._features.time_ms,
                labels.offset,
                labels.row,
                l_times,
                labels.key,
                labels.sign,
                int(l_times[-1]) if len(l_times) else self._labels.time_ms,
                *self._rows,
                *self._early,
                self._index,
                *self._points,
                *self._places,
                *self._letters_out,
                self.counts,
            )
            self._features.advance(int(state[kernels.FEATURES_AT]))
            self._labels.advance(int(state[kernels.LABELS_AT]))
            self._grow()
            if points or letters:
                return self._put_out(points), self._letters(letters)
            if not self._goes_on():
                return None, []

    def _goes_on(self) -> bool:
        """Return whether another pass can do more: something was grown, or another chunk is at hand."""
        if self._why in (kernels.ROWS_FULL, kernels.EARLY_FULL, kernels.INDEX_FULL, kernels.OUTPUT_FULL):
            return True
        if self._why == kernels.WAITS_FOR_LABELS:
            return bool(self._labels.chunks)
        if self._why == kernels.WAITS_FOR_FEATURES:
            return bool(self._features.chunks)
        return bool(self._features.chunks or self._labels.chunks)

    def _put_out(self, n: int) -> Rows | None:
        if not n:
            return None
        X, weight, sign = (array[:n].copy() for array in self._points)
        offset, row, time_ms, epoch, labels, key = (array[:n].copy() for array in self._places)
        return Rows(
            partition=self.partition,
            offset=offset,
            row=row,
            last=np.zeros(n, np.bool_),
            times=LookedUp.of(time_ms),
            accepted=weight > LEFT_OUT,
            points=Points(X, sign.astype(np.int8), weight.astype(np.float64)),
            leader_epoch=epoch,
            beside_offset=labels,
            id_hash=LookedUp.of(key),
        )

    def _letters(self, n: int) -> list[Letter]:
        kind, offset, row = (array[:n].tolist() for array in self._letters_out)
        return [Letter(KINDS[one], at, index) for one, at, index in zip(kind, offset, row, strict=True)]

    # ------------------------------------------------------------------- memory

    def _grow(self) -> None:
        """Give what is full an eighth more room; places change, so that everything is indexed again."""
        if self._why == kernels.ROWS_FULL:
            if self.rows_kept >= self._rules.most_rows:
                raise ConfigurationError(
                    f"{self.rows_kept} rows of partition {self.partition} wait within labels.horizon: more may not",
                    "Shorten labels.horizon, which makes another incarnation, or give the topics more partitions.",
                )
            most = self._rules.most_rows
            self._rows = self._moved(self._rows, kernels.FIRST_ROW, kernels.NEXT_ROW, most)
        elif self._why == kernels.EARLY_FULL:
            self._early = self._moved(self._early, kernels.FIRST_EARLY, kernels.NEXT_EARLY)
        elif self._why != kernels.INDEX_FULL:
            return
        self._reindex()

    def _moved(
        self, ring: tuple[NDArray[Any], ...], first: int, following: int, most: int = sys.maxsize
    ) -> tuple[NDArray[Any], ...]:
        begin, end, capacity = int(self._state[first]), int(self._state[following]), len(ring[0])
        more = min(capacity + capacity // 8, most)
        old, new = np.arange(begin, end) % capacity, np.arange(begin, end) % more
        larger = []
        for array in ring:
            moved = np.zeros((more, *array.shape[1:]), array.dtype)
            moved[new] = array[old]
            larger.append(moved)
        return tuple(larger)

    def _reindex(self) -> None:
        entries = int(self._state[kernels.INDEXED]) + 1
        size = len(self._index)
        while 10 * entries > 7 * size:
            size *= 2
        self._index = np.zeros(size, np.int32)
        state = self._state
        state[kernels.INDEXED] = kernels.reindex(
            self._index,
            self._rows[0],
            state[kernels.FIRST_ROW],
            state[kernels.NEXT_ROW],
            self._early[0],
            self._early[4],
            state[kernels.FIRST_EARLY],
            state[kernels.NEXT_EARLY],
        )

    def _no_features(self) -> FeatureRows:
        none = np.empty(0, np.int64)
        return FeatureRows(
            offset=none,
            row=none,
            last=np.empty(0, np.bool_),
            time_ms=none,
            key=np.empty(0, np.uint64),
            ok=np.empty(0, np.bool_),
            X=np.empty((0, self._dimension), self._dtype),
            weight=np.empty(0),
            leader_epoch=none,
        )

    # -------------------------------------------------------------------- state

    def state(self) -> JoinState:
        """Return everything that a checkpoint needs; what was read and not merged is read again."""
        state = self._state
        rows = np.arange(state[kernels.FIRST_ROW], state[kernels.NEXT_ROW]) % len(self._rows[0])
        early = np.arange(state[kernels.FIRST_EARLY], state[kernels.NEXT_EARLY]) % len(self._early[0])
        early = early[self._early[4][early] != 0]
        key, time, offset, row, sign, X, weight = (array[rows] for array in self._rows)
        early_key, early_time, early_offset, early_row, early_sign = (array[early] for array in self._early)
        a, b, c, d = _SAVED
        return JoinState(
            features=self._features.state(),
            labels=self._labels.state(),
            scalars=(int(state[a]), int(state[b]), int(state[c]), int(state[d])),
            counts=tuple(self.counts.tolist()),
            row_key=key,
            row_time=time,
            row_offset=offset,
            row_row=row,
            row_sign=sign,
            row_points=Points(X, np.ones(len(rows), np.int8), weight),
            early_key=early_key,
            early_time=early_time,
            early_offset=early_offset,
            early_row=early_row,
            early_sign=early_sign,
        )

    @classmethod
    def restored(
        cls, partition: int, rules: JoinRules, dimension: int, dtype: np.dtype[np.floating], saved: JoinState
    ) -> Joiner:
        """Return a joiner as it was; both logs are to be read on from `features_next` and `labels_next`."""
        joiner = cls(partition, rules, dimension, dtype, saved.features.next, saved.labels.next)
        for log, at in ((joiner._features, saved.features), (joiner._labels, saved.labels)):
            log.time_ms = log.read_ms = at.time_ms
            log.leader_epoch = at.leader_epoch
        n, m = len(saved.row_key), len(saved.early_key)
        joiner._rows, joiner._early = joiner._ring(max(SMALLEST, n)), _early_ring(max(SMALLEST, m))
        points = saved.row_points
        kept = (saved.row_key, saved.row_time, saved.row_offset, saved.row_row, saved.row_sign, points.X, points.weight)
        for array, rows in zip(joiner._rows, kept, strict=True):
            array[:n] = rows
        early = (saved.early_key, saved.early_time, saved.early_offset, saved.early_row, saved.early_sign)
        for array, labels in zip(joiner._early, early, strict=True):
            array[:m] = labels
        state = joiner._state
        for place, number in zip(_SAVED, saved.scalars, strict=True):
            state[place] = number
        state[kernels.NEXT_ROW], state[kernels.NEXT_EARLY] = n, m
        state[kernels.INDEXED] = n + m
        state[kernels.UNANSWERED] = np.count_nonzero(saved.row_sign == 0)
        joiner.counts[:] = saved.counts
        joiner._reindex()
        return joiner


def _early_ring(capacity: int) -> tuple[NDArray[Any], ...]:
    return (
        np.zeros(capacity, np.uint64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int8),
    )


def _no_labels() -> LabelRows:
    none = np.empty(0, np.int64)
    return LabelRows(
        offset=none,
        row=none,
        last=np.empty(0, np.bool_),
        time_ms=none,
        key=np.empty(0, np.uint64),
        sign=np.empty(0, np.int8),
        leader_epoch=none,
    )


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, what a join runs."""
    rules = JoinRules(horizon_ms=1, early_ms=1, absent="drop", most_rows=1)
    joiner = Joiner(0, rules, 1, dtype, Position(0), Position(0))
    joiner._reindex()
    joiner.join()
    log_time.warm_up()
