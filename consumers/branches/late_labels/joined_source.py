"""Reads features and labels side by side and joins them: what a trainer and `verify` learn where labels come later.

What is joined is decided by `streamsvm.joining`; here records become rows of both logs, and each log is read only so
far ahead of the other that what waits stays bounded. In what order the topics answer changes nothing that comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from consumers import constants
from streamsvm.config import LabelRule, ModelConfig
from streamsvm.ingest.decoder import PointDecoder, RejectedRecord, Rejection
from streamsvm.ingest.label_records import LabelDecoder, is_watermark
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.rows import LEFT_OUT, FeatureRows, JoinRules, JoinState, LabelRows, Letter, codes_of
from streamsvm.kafka import Batch, Cluster, Record
from streamsvm.model.left_out import Places, masked
from streamsvm.points import Points, Position, Positions, Rows, hashed, key_of

MOST_WAITING: Final = 20_000
"""Rows of one partition of one log that wait for the other log; beyond it that partition is not read. Changes speed and
memory only: pausing throws away what the client fetched ahead."""

Log = Literal["features", "labels"]


def rules_of(labels: LabelRule, most_rows: int) -> JoinRules:
    """Return the rule of a join as the configuration has it."""
    return JoinRules(
        horizon_ms=round(1_000 * labels.horizon),
        early_ms=round(1_000 * constants.LABEL_EARLY_S),
        absent=labels.absent,
        most_rows=most_rows,
    )


@dataclass(frozen=True, slots=True)
class Came:
    """What one poll of a log brought: its records, and those that hold a row to reject."""

    log: Log
    records: Sequence[Record]
    rejected: Sequence[RejectedRecord]


class JoinedSource:
    """Both logs of all partitions.

    Parameters
    ----------
    cluster : Cluster
    config : ModelConfig
        With `labels`.
    features, labels : str
        The topics.
    group : str or None
        Under which observers see how far both are read.
    most_rows : int
        Most rows within the horizon, in one partition.
    left_out : mapping of partition to positions
        Rows of the features that are joined as ever, so that no other row's label or place changes, and then count as
        rejected ones; of their features nothing is kept.
    name : str
        Of the model, by which keys are hashed; empty where no point is kept.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ModelConfig,
        *,
        features: str,
        labels: str,
        group: str | None,
        most_rows: int,
        left_out: Places,
        name: str = "",
    ) -> None:
        assert config.label_rule is not None
        self.topics: Final[Mapping[Log, str]] = {"features": features, "labels": labels}
        self._config, self._join = config, config.label_rule
        self._rules = rules_of(config.label_rule, most_rows)
        self._left_out, self._name = left_out, name
        self.decoder = PointDecoder(config.points, labeled=False, recipe=config.recipe)
        self._labels = LabelDecoder(config.points, config.label_rule.key)
        self._inputs = {log: cluster.input(topic, group) for log, topic in self.topics.items()}
        self.joiners: dict[int, Joiner] = {}
        self._read_to: dict[Log, dict[int, int]] = {"features": {}, "labels": {}}
        self._paused: dict[Log, set[int]] = {"features": set(), "labels": set()}
        self._idle: set[int] = set()
        self._is_paused = False
        self._active: frozenset[int] = frozenset()

    def begin(self, features: Positions, labels: Positions, saved: Mapping[int, JoinState] | None = None) -> None:
        """Read from these positions on; partitions that were saved go on from where they were.

        Raises
        ------
        TopicMissing, BrokerUnavailable
            As of `Input.assign`.
        """
        self.joiners = {p: self._joiner(p, features[p], labels[p], (saved or {}).get(p)) for p in sorted(features)}
        begun: dict[Log, dict[int, int]] = {
            "features": {p: joiner.features_next.offset for p, joiner in self.joiners.items()},
            "labels": {p: joiner.labels_next.offset for p, joiner in self.joiners.items()},
        }
        self._read_to, self._paused, self._idle = begun, {"features": set(), "labels": set()}, set()
        self._is_paused, self._active = False, frozenset(self.joiners)
        for log, offsets in begun.items():
            self._inputs[log].assign(offsets)

    def _joiner(self, partition: int, features: Position, labels: Position, saved: JoinState | None) -> Joiner:
        points = self._config.points
        if saved is not None:
            return Joiner.restored(partition, self._rules, points.dimension, points.numpy_dtype, saved)
        return Joiner(partition, self._rules, points.dimension, points.numpy_dtype, features, labels)

    def close(self) -> None:
        """Let go of the broker."""
        for source in self._inputs.values():
            source.close()

    # ------------------------------------------------------------------ reading

    def read(self, most: int, timeout_s: float) -> list[Came]:
        """Read both logs, the one that is waited for with patience; blocks about `timeout_s` at most.

        Raises
        ------
        OffsetOutOfRange, TopicMissing, ConfigurationError, FatalError
            As of `Input.poll`.
        """
        awaited = self._awaited()
        came = []
        # First the log that is not waited for, without patience: it may be read ahead.
        for log in sorted(self._inputs, key=lambda one: one in awaited):
            # What waits already lasts for a while. The client keeps what it fetched meanwhile; a pause would drop it.
            if log not in awaited and max(self._waiting(log).values(), default=0) >= most:
                continue
            if not self._is_paused:
                self._pace(log)
            records = self._inputs[log].poll(most, timeout_s / len(awaited) if log in awaited else 0.0)
            if records:
                came.append(Came(log, records, self._decode(log, records)))
        return came

    def _waiting(self, log: Log) -> dict[int, int]:
        """Return how many rows of each partition of a log were read and are not merged."""
        return {p: j.features_waiting if log == "features" else j.labels_waiting for p, j in self.joiners.items()}

    def _awaited(self) -> set[Log]:
        """Return the logs of which a record is needed before anything more can be joined."""
        awaited: set[Log] = set()
        for partition in self._active:
            joiner = self.joiners[partition]
            if joiner.waits_for:
                awaited.add(joiner.waits_for)
            elif not (joiner.features_waiting or joiner.labels_waiting):
                awaited |= {"features", "labels"}
        return awaited or {"features", "labels"}

    def _pace(self, log: Log) -> None:
        """Do not read on where much waits; read on where little does."""
        waiting = self._waiting(log)
        paused, source = self._paused[log], self._inputs[log]
        full = {p for p, rows in waiting.items() if rows > MOST_WAITING} - paused
        free = {p for p in paused if waiting[p] < MOST_WAITING // 2}
        if full:
            source.pause(sorted(full))
        if free:
            source.resume(sorted(free))
        self._paused[log] = (paused | full) - free

    def hold(self) -> None:
        """Fetch nothing from now on: `read` then only serves the clients, and returns what was fetched before."""
        self._is_paused = True
        for source in self._inputs.values():
            source.pause()

    def release(self) -> None:
        """Read on after `hold`."""
        self._is_paused = False
        for log, source in self._inputs.items():
            source.resume([p for p in self.joiners if p not in self._paused[log]])

    def _decode(self, log: Log, records: Sequence[Record]) -> list[RejectedRecord]:
        ends = records.ends() if isinstance(records, Batch) else {r.partition: r.offset + 1 for r in records}
        self._read_to[log] |= ends
        self._idle.difference_update(ends)
        return self._add_features(records) if log == "features" else self._add_labels(records)

    def _add_features(self, records: Sequence[Record]) -> list[RejectedRecord]:
        decoded = self.decoder.decode(records)
        headed = () if isinstance(records, Batch) and records.plain else records
        watermarks = {(record.partition, record.offset) for record in headed if is_watermark(record)}
        rejected = [one for one in decoded.rejected if (one.record.partition, one.record.offset) not in watermarks]
        keys = self._keys(records, decoded.rows, decoded.ids)
        keyless: list[tuple[int, int, int]] = []
        for rows in decoded.rows:
            own = [next(keys) for _ in range(len(rows))]
            ok = rows.accepted & np.array([key is not None for key in own], np.bool_)
            without = np.flatnonzero(rows.accepted & ~ok).tolist()
            left = masked(rows, self._left_out)
            weight = np.where(rows.accepted & ~left.accepted, LEFT_OUT, rows.points.weight)
            keyless += [(rows.partition, int(rows.offset[index]), int(rows.row[index])) for index in without]
            self.joiners[rows.partition].add_features(
                FeatureRows(
                    offset=rows.offset,
                    row=rows.row,
                    last=rows.last,
                    time_ms=rows.time_ms,
                    key=hashed([key or b"" for key in own], self._name),
                    ok=ok,
                    X=np.ascontiguousarray(left.points.X),
                    weight=np.ascontiguousarray(weight, np.float64),
                    leader_epoch=rows.leader_epoch,
                )
            )
        return self._with_keyless(records, rejected, keyless)

    def _keys(
        self, records: Sequence[Record], rows: Iterable[Rows], ids: Sequence[str | int | None]
    ) -> Iterator[bytes | None]:
        if self._join.key == "id":
            return iter([key_of(one) for one in ids])
        of_record = {(record.partition, record.offset): record.key for record in records}
        return iter([of_record[one.partition, offset] for one in rows for offset in one.offset.tolist()])

    def _with_keyless(
        self, records: Sequence[Record], rejected: list[RejectedRecord], keyless: Sequence[tuple[int, int, int]]
    ) -> list[RejectedRecord]:
        """Add rows without a key to what is rejected: one entry a record."""
        if not keyless:
            return rejected
        what = "id is missing" if self._join.key == "id" else "the record has no key"
        found = {(one.record.partition, one.record.offset): one for one in rejected}
        sources = {(record.partition, record.offset): record for record in records}
        for partition, offset, row in keyless:
            place = partition, offset
            before = found.get(place) or RejectedRecord(sources[place], self._rows_of(sources[place]), ())
            more = Rejection(row, "missing_key", what)
            found[place] = replace(before, rejections=(*before.rejections, more))
        return [found[place] for place in sorted(found)]

    def _rows_of(self, record: Record) -> int:
        return sum(len(rows) for rows in self.decoder.decode([record]).rows)

    def _add_labels(self, records: Sequence[Record]) -> list[RejectedRecord]:
        decoded, rejected = self._labels.decode(records)
        for labels in decoded:
            self.joiners[labels.partition].add_labels(
                LabelRows(
                    offset=labels.offset,
                    row=labels.row,
                    last=labels.last,
                    time_ms=labels.time_ms,
                    key=hashed(labels.keys, self._name),
                    sign=labels.sign,
                    leader_epoch=labels.leader_epoch,
                )
            )
        return rejected

    # ------------------------------------------------------------------ joining

    def join(self, partitions: Collection[int]) -> list[tuple[int, Rows | None, list[Letter]]]:
        """Return a portion of each of these partitions in which anything can be joined."""
        self._active = frozenset(partitions)
        found = []
        for partition in sorted(partitions):
            if partition in self._idle:
                continue
            rows, letters = self._joined(partition)
            if rows is None and not letters:
                self._idle.add(partition)
            else:
                found.append((partition, rows, letters))
        return found

    def _joined(self, partition: int) -> tuple[Rows | None, list[Letter]]:
        """Return a portion of a partition, its labels as points have them."""
        rows, letters = self.joiners[partition].join()
        if rows is not None and (classes := self._config.points.classes) > 2:
            points = rows.points
            rows = replace(rows, points=Points(points.X, codes_of(points.y, classes), points.weight))
        return rows, letters

    def rejected_by(self, letter: Letter, record: Record) -> RejectedRecord:
        """Return a row that the join refused as a rejected record, for a dead letter."""
        of_features = letter.reason in OF_FEATURES
        count = self._rows_of(record) if of_features else len(self._labels.decode([record])[0][0].sign)
        return RejectedRecord(record, count, (Rejection(letter.row, letter.reason, MEANINGS[letter.reason]),))

    def is_left_out(self, partition: int, letter: Letter) -> bool:
        """Return whether a letter is of a row of the features that nobody may keep."""
        at = Position(letter.offset, letter.row)
        return letter.reason in OF_FEATURES and at in self._left_out.get(partition, ())

    # ----------------------------------------------------------------- standing

    def end(self, partition: int) -> int | None:
        """Return the end of the features where all of both logs was read and nothing more can be joined, else None."""
        features, labels = (self._inputs[log].seen_end(partition) for log in ("features", "labels"))
        return features if labels is not None and partition in self._idle else None

    def read_to(self, log: Log) -> dict[int, Position]:
        """Return how far each partition of a log was read."""
        return {p: Position(offset) for p, offset in self._read_to[log].items()}

    def high_watermarks(self, log: Log) -> dict[int, int | None]:
        """Return the offset after each partition's last record that can be read, as far as known."""
        return {partition: self._inputs[log].stable_end(partition) for partition in self.joiners}

    def in_open_transactions(self, log: Log) -> dict[int, int]:
        """Return how many offsets of each partition open transactions withhold."""
        return self._inputs[log].in_open_transactions()

    def connected(self) -> bool:
        """Return whether a broker's connection was up at the last poll of each log."""
        return all(source.connected() for source in self._inputs.values())

    def commit(self) -> None:
        """Show observers of the group how far both logs are merged."""
        self._inputs["features"].commit({p: joiner.features_next.offset for p, joiner in self.joiners.items()})
        self._inputs["labels"].commit({p: joiner.labels_next.offset for p, joiner in self.joiners.items()})

    def state(self) -> dict[int, JoinState]:
        """Return what every joiner is, for a checkpoint."""
        return {partition: joiner.state() for partition, joiner in self.joiners.items()}


OF_FEATURES: Final = ("absent_label", "doubled_key")
MEANINGS: Final = {
    "absent_label": "no label came within the horizon",
    "doubled_key": "a row within the horizon has the same key",
    "changed_label": "the row has another label already",
    "unmatched_label": "no row has this key within the horizon before the label, or a minute after it",
}
