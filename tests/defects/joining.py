"""Defects of the join of late labels: what waits, in which order both logs are merged, and what time it is in a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from streamsvm.delivery.reading import Reading
from streamsvm.joining import log_time
from streamsvm.joining.joiner import Joiner
from streamsvm.joining.rows import JoinRules, JoinState, LabelRows, Letter
from streamsvm.points import Rows
from tests.defects.planting import TABLE, Live, Simulated, wrap

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


def _with_rules(change: Callable[[JoinRules], JoinRules]) -> None:
    def make(original: Any, joiner: Joiner, partition: int, rules: JoinRules, *places: Any) -> None:
        original(joiner, partition, change(rules), *places)

    wrap(Joiner, "__init__", make)


@TABLE.defect(simulated=_world({"kill": 1}), joined=True)
def throws_early_labels_away() -> None:
    """A label that comes before its row is thrown away, as if no row could follow it."""
    _with_rules(lambda rules: replace(rules, early_ms=-1))


@TABLE.defect(simulated=_world({"kill": 1}), joined=True)
def learns_past_the_horizon() -> None:
    """A label counts until twice the horizon is over."""
    _with_rules(lambda rules: replace(rules, horizon_ms=2 * rules.horizon_ms))


@TABLE.defect(simulated=_world({"kill": 3}), joined=True)
def learns_a_label_twice() -> None:
    """A checkpoint does not tell rows that have their label from rows that wait: a second label is learned, too."""

    def state(original: Any, joiner: Joiner) -> JoinState:
        saved: JoinState = original(joiner)
        return replace(saved, row_sign=np.zeros_like(saved.row_sign))

    wrap(Joiner, "state", state)


@TABLE.defect(simulated=_world({"kill": 3}), joined=True)
def forgets_what_waits() -> None:
    """A checkpoint holds no rows within their horizon, as if their labels could not come."""

    def state(original: Any, joiner: Joiner) -> JoinState:
        saved: JoinState = original(joiner)
        names = ("row_key", "row_time", "row_offset", "row_row", "row_sign")
        rows = {name: getattr(saved, name)[:0] for name in names}
        return replace(saved, **rows, row_points=saved.row_points.take(np.arange(0)))

    wrap(Joiner, "state", state)


@TABLE.defect(simulated=_world({"kill": 3}))
def forgets_what_is_joined() -> None:
    """A checkpoint holds no rows that have their label and are not learned."""
    wrap(Reading, "waiting_rows", lambda original, reading: {})


@TABLE.defect(simulated=_world({"kill": 1}), joined=True)
def merges_by_arrival() -> None:
    """Features at hand are merged without waiting for the labels of their time."""

    def join(original: Any, joiner: Joiner) -> tuple[Rows | None, list[Letter]]:
        if not joiner._labels.chunks:
            joiner._labels.time_ms = max(joiner._labels.time_ms, joiner._features.read_ms)
        merged: tuple[Rows | None, list[Letter]] = original(joiner)
        return merged

    wrap(Joiner, "join", join)


@TABLE.defect(joined=True)
def takes_the_newest_time() -> None:
    """Times of the labels that run backwards are taken as they are, and not as the greatest so far."""

    def add_labels(original: Any, joiner: Joiner, chunk: LabelRows) -> None:
        joiner._labels.read_ms = -1
        original(joiner, chunk)

    wrap(Joiner, "add_labels", add_labels)


@TABLE.defect(joined=True)
def forgets_the_time() -> None:
    """After a restart the time of the labels is told anew, by the records that come then."""

    def state(original: Any, joiner: Joiner) -> JoinState:
        saved: JoinState = original(joiner)
        return replace(saved, labels=replace(saved.labels, time_ms=-1))

    wrap(Joiner, "state", state)


def _decides(near: Callable[[Any], Any]) -> None:
    def decided(original: Any, timestamp_ms: Any, last: Any, begun_ms: int, *, closed: bool = False) -> Any:
        latest = np.minimum(timestamp_ms, log_time.LATEST_MS)
        times = np.maximum.accumulate(np.maximum(np.where(near(timestamp_ms), latest, -1), begun_ms))
        return log_time.Decided(times, 0, -1)

    wrap(log_time, "decided", decided)


@TABLE.defect(
    simulated=_world({"kill": 1}),
    live=Live(part="train", nemeses=("wrong-clock",), shows=("misjoined",), faults=2, models=("d",)),
    joined=True,
)
def believes_every_clock() -> None:
    """The time of a log is the greatest timestamp so far, whoever wrote it."""
    _decides(lambda timestamp_ms: timestamp_ms >= -1)


@TABLE.defect(joined=True)
def believes_no_leap() -> None:
    """A time far ahead never counts, whatever follows it."""
    _decides(lambda timestamp_ms: timestamp_ms < NEAR_MS)


@TABLE.defect(joined=True)
def waits_for_no_witness() -> None:
    """A time far ahead counts before anything follows it."""

    def decided(original: Any, timestamp_ms: Any, last: Any, begun_ms: int, *, closed: bool = False) -> Any:
        return original(timestamp_ms, last, begun_ms, closed=True)

    wrap(log_time, "decided", decided)
