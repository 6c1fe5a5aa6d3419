"""Training takes its share of the time where there is more to read, and none is withheld where there is not."""

from __future__ import annotations

import pytest

from consumers.trainer.pacing import Pace


class Clock:
    """Seconds that a test lets pass."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_a_share_of_the_time(share: float) -> None:
    """A loop that never waits, and trains whenever it may, spends that share training."""
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


def test_without_a_pause() -> None:
    clock = Clock()
    pace = Pace(1.0, clock)
    pace.begin()
    clock.now += 3.0
    pace.end()
    assert pace.ready
