"""Planted defects of the join, and the small worlds in which they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

import numpy as np

from consumers.branches.late_labels import joined_source
from streamsvm.config import LabelRule
from streamsvm.delivery.reading import Reading
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.rows import JoinRules, JoinState, LabelRows, Letter
from streamsvm.points import Rows
from tests.branches.late_labels.worlds import LATE, OTHER_LOG
from tests.simulation import ports
from tests.simulation.broker import Entry
from tests.simulation.planting import Defect, replaced, with_cluster
from tests.simulation.running import SHIPPED, Design

_rules_of = joined_source.rules_of


def _no_early_labels(labels: LabelRule, most_rows: int) -> JoinRules:
    return replace(_rules_of(labels, most_rows), early_ms=-1)


def _a_longer_horizon(labels: LabelRule, most_rows: int) -> JoinRules:
    rules = _rules_of(labels, most_rows)
    return replace(rules, horizon_ms=2 * rules.horizon_ms)


class _ForgetsWhatIsJoined(Joiner):
    def state(self) -> JoinState:
        saved = super().state()
        return replace(saved, row_sign=np.zeros_like(saved.row_sign))


class _ForgetsWhatWaits(Joiner):
    def state(self) -> JoinState:
        saved, none = super().state(), slice(0)
        names = ("row_key", "row_time", "row_offset", "row_row", "row_sign")
        rows = {name: getattr(saved, name)[none] for name in names}
        return replace(saved, **rows, row_points=saved.row_points.take(np.arange(0)))


class _MergesByArrival(Joiner):
    def join(self) -> tuple[Rows | None, list[Letter]]:
        if not self._labels.chunks:
            self._labels.time_ms = max(self._labels.time_ms, self._features.read_ms)
        return super().join()


class _BelievesEveryClock(Joiner):
    def add_labels(self, chunk: LabelRows) -> None:
        log = self._labels
        log.chunks.append(chunk)
        log.times.append(np.maximum.accumulate(np.maximum(chunk.time_ms, log.read_ms)))
        log.read_ms = int(log.times[-1][-1])


class _InputPastRetention(ports.Input):
    def _ready(self, partition: int) -> list[tuple[int, Entry]]:
        self._at[partition] = max(self._at[partition], self._broker.log(self._name, partition).first)
        return super()._ready(partition)


class _PastRetention(ports.Cluster):
    """Neither a start nor a poll notices that records are gone which were not read."""

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, super().log_range(topic, partition)[1]

    def input(self, topic: str, group: str) -> ports.Input:
        return _InputPastRetention(self._world, self._life, topic)


def _nothing_waits(self: Reading) -> dict[int, Rows]:
    return {}


def _of(
    what: str,
    faults: Mapping[str, int],
    planted: Callable[[], AbstractContextManager[Any]] = nullcontext,
    design: Design = SHIPPED,
) -> Defect:
    return Defect(
        what,
        "clean run|at rest no version|dead letter|refused without a reason",
        {**faults, OTHER_LOG: 9},
        design,
        planted,
        records=10,
        steps=250,
        variants=(LATE.name,),
    )


DEFECTS: Final[Mapping[str, Defect]] = {
    "a label that comes before its row is thrown away": _of(
        "early labels", {"kill": 1}, replaced(joined_source, "rules_of", _no_early_labels)
    ),
    "a label that comes twice is learned twice": _of(
        "rows that have their label, in a checkpoint",
        {"kill": 3},
        replaced(joined_source, "Joiner", _ForgetsWhatIsJoined),
    ),
    "a label beyond the horizon is learned": _of(
        "the horizon", {"kill": 1}, replaced(joined_source, "rules_of", _a_longer_horizon)
    ),
    "features that retention took are passed over": _of(
        "the look at the log's beginning", {"kill": 2, "trim": 6}, design=with_cluster(_PastRetention)
    ),
    "rows that wait for their labels are read again": _of(
        "those rows in a checkpoint", {"kill": 3}, replaced(joined_source, "Joiner", _ForgetsWhatWaits)
    ),
    "joined rows that are not learned are forgotten": _of(
        "those rows in a checkpoint", {"kill": 3}, replaced(Reading, "waiting_rows", _nothing_waits)
    ),
    "features do not wait for labels": _of(
        "the one order of both logs", {"kill": 1}, replaced(joined_source, "Joiner", _MergesByArrival)
    ),
    "one label's clock moves the time of its log": _of(
        "the records that confirm a time far ahead", {"kill": 1}, replaced(joined_source, "Joiner", _BelievesEveryClock)
    ),
}
"""What is missing in each breaks what a clean run joins."""
