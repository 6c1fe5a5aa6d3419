"""Defects of the join of late labels: what waits, in which order both logs are merged, and what time it is in a log.

Most stand in the joiner that a trainer makes (`joined_source.Joiner`): a simulated world has a right one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from consumers.branches.late_labels import joined_source
from streamsvm.delivery.reading import Reading
from streamsvm.joining import log_time
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.rows import JoinRules, JoinState, LabelRows, Letter
from streamsvm.points import Rows
from tests.defects.planting import TABLE, Live, Simulated, replace_part, wrap

NEAR_MS: Final = 60_000


def _world(faults: Mapping[str, int]) -> Simulated:
    """Return a simulated world of two logs."""
    return Simulated(
        breach="clean run|at rest no version|dead letter|refused without a reason",
        faults={**faults, "other log": 9},
        records=10,
        steps=250,
        variants=("late labels",),
    )


def _makes(**methods: Callable[..., Any]) -> None:
    """Let the trainer's joiner have other methods."""
    replace_part(joined_source, "Joiner", type("Defective", (Joiner,), methods))


def _with_rules(change: Callable[[JoinRules], JoinRules]) -> None:
    def make(joiner: Joiner, partition: int, rules: JoinRules, *places: Any) -> None:
        Joiner.__init__(joiner, partition, change(rules), *places)

    _makes(__init__=make)


def _saves(change: Callable[[JoinState], JoinState]) -> None:
    _makes(state=lambda joiner: change(Joiner.state(joiner)))


@TABLE.defect(_world({"kill": 1}), joined=True)
def throws_early_labels_away() -> None:
    """A label that comes before its row is thrown away, as if no row could follow it."""
    _with_rules(lambda rules: replace(rules, early_ms=-1))


@TABLE.defect(_world({"kill": 1}), joined=True)
def learns_past_the_horizon() -> None:
    """A label counts until twice the horizon is over."""
    _with_rules(lambda rules: replace(rules, horizon_ms=2 * rules.horizon_ms))


@TABLE.defect(_world({"kill": 3}), joined=True)
def learns_a_label_twice() -> None:
    """A checkpoint does not tell rows that have their label from rows that wait: a second label is learned, too."""
    _saves(lambda saved: replace(saved, row_sign=np.zeros_like(saved.row_sign)))


@TABLE.defect(_world({"kill": 3}), joined=True)
def forgets_what_waits() -> None:
    """A checkpoint holds no rows within their horizon, as if their labels could not come."""

    def without_rows(saved: JoinState) -> JoinState:
        names = ("row_key", "row_time", "row_offset", "row_row", "row_sign")
        rows = {name: getattr(saved, name)[:0] for name in names}
        return replace(saved, **rows, row_points=saved.row_points.take(np.arange(0)))

    _saves(without_rows)


@TABLE.defect(_world({"kill": 3}))
def forgets_what_is_joined() -> None:
    """A checkpoint holds no rows that have their label and are not learned."""
    wrap(Reading, "waiting_rows", lambda original, reading: {})


@TABLE.defect(_world({"kill": 1}), joined=True)
def merges_by_arrival() -> None:
    """Features at hand are merged without waiting for the labels of their time."""

    def join(joiner: Joiner) -> tuple[Rows | None, list[Letter]]:
        if not joiner._labels.chunks:
            joiner._labels.time_ms = max(joiner._labels.time_ms, joiner._features.read_ms)
        return Joiner.join(joiner)

    _makes(join=join)


@TABLE.defect(joined=True)
def takes_the_newest_time() -> None:
    """Times of the labels that run backwards are taken as they are, and not as the greatest so far."""

    def add_labels(joiner: Joiner, chunk: LabelRows) -> None:
        joiner._labels.read_ms = -1
        Joiner.add_labels(joiner, chunk)

    _makes(add_labels=add_labels)


@TABLE.defect(joined=True)
def forgets_the_time() -> None:
    """After a restart the time of the labels is told anew, by the records that come then."""
    _saves(lambda saved: replace(saved, labels=replace(saved.labels, time_ms=-1)))


@TABLE.defect(
    _world({"kill": 1}),
    live=Live(part="train", nemeses=("wrong-clock",), shows=("misjoined",), faults=2, models=("d",)),
    joined=True,
)
def believes_every_clock() -> None:
    """The time of a log of labels is the greatest timestamp so far, whoever wrote it."""

    def add_labels(joiner: Joiner, chunk: LabelRows) -> None:
        log = joiner._labels
        log.chunks.append(chunk)
        log.times.append(np.maximum.accumulate(np.maximum(chunk.time_ms, log.read_ms)))
        log.read_ms = int(log.times[-1][-1])

    _makes(add_labels=add_labels)


@TABLE.defect(joined=True)
def believes_no_leap() -> None:
    """A time far ahead never counts, whatever follows it."""

    def decided(original: Any, timestamp_ms: Any, last: Any, begun_ms: int, *, closed: bool = False) -> Any:
        near = np.where(timestamp_ms < NEAR_MS, timestamp_ms, -1)
        return log_time.Decided(np.maximum.accumulate(np.maximum(near, begun_ms)), 0, -1)

    wrap(log_time, "decided", decided)


@TABLE.defect(joined=True)
def waits_for_no_witness() -> None:
    """A time far ahead counts before anything follows it."""

    def decided(original: Any, timestamp_ms: Any, last: Any, begun_ms: int, *, closed: bool = False) -> Any:
        return original(timestamp_ms, last, begun_ms, closed=True)

    wrap(log_time, "decided", decided)
