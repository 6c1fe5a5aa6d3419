"""The main loop: training has its share of the time, the longest turn shows, and no look ends in silence."""

from __future__ import annotations

from typing import Any, cast

import pytest

from consumers.trainer.gauges import TURNS_S, Turns
from consumers.trainer.pacing import Pace
from consumers.trainer.topic_watch import ThreadedWatch
from streamsvm.kafka import Cluster
from tests.deadline import eventually


class Clock:
    """Seconds that a test lets pass."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("share", [0.1, 0.2, 1.0])
def test_a_share_of_the_time(share: float) -> None:
    """A loop that never waits, and trains whenever it may, spends that share training, if need be all of it."""
    clock = Clock()
    pace = Pace(share, clock)
    begun, training = clock.now, 0.0
    assert pace.ready
    for took in (0.5, 2.0, 0.1) * 20:
        while not pace.ready:
            clock.now += 0.001
        pace.begin()
        clock.now += took
        training += took
        pace.end()
    while not pace.ready:
        clock.now += 0.001
    assert training / (clock.now - begun) == pytest.approx(share, rel=0.01)


def test_an_idle_loop_withholds_nothing() -> None:
    clock = Clock()
    pace = Pace(0.2, clock)
    pace.begin()
    clock.now += 3.0
    pace.end()
    assert not pace.ready
    pace.waited(2.9, came=10)
    assert not pace.ready
    pace.waited(0.2, came=10)
    assert pace.ready
    pace.begin()
    clock.now += 1.0
    pace.end()
    assert not pace.ready  # waiting counts since the last model
    pace.waited(0.1, came=0)
    assert pace.ready  # nothing is there to be read


def test_the_longest_turn_stays_until_a_scrape_must_have_seen_it() -> None:
    """For half a minute at least, and no longer than a whole one; then it is forgotten."""
    turns, now = Turns(100.0), 100.0
    for length in (0.1, 7.0, 0.1):
        now += length
        turns.next(now)
    assert turns.longest_s == 7.0
    long_one_ended = now
    while now < long_one_ended + TURNS_S - 0.1:
        now += 0.1
        turns.next(now)
    assert turns.longest_s == 7.0
    while now < long_one_ended + 2 * TURNS_S:
        now += 0.1
        turns.next(now)
    assert turns.longest_s < 0.2


class Broken:
    """A cluster whose client fails in a way that nobody foresaw."""

    def describe(self, topic: str) -> Any:
        raise RuntimeError(f"no words for {topic}")


def test_a_look_that_fails_unforeseen_fails_the_loop() -> None:
    """Otherwise every later look would fail as quietly, and a deleted topic never be noticed."""
    watch = ThreadedWatch(cast(Cluster, Broken()), "t")
    watch.ask({})
    with pytest.raises(RuntimeError, match="no words for t"):
        eventually(lambda: watch.take() is not None, "the look fails", 10.0)
