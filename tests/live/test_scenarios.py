"""Every scenario of the table, on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from streamsvm.crashpoints import POINTS
from streamsvm.kafka import Connection
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import settings_for
from tests.deadline import Late
from tests.live.cluster import Brokers
from tests.live.lives import OTHERS, STRUCK
from tests.live.play import Play
from tests.live.scenario import Scenario, rows, run
from tests.live.scenarios import SCENARIOS
from tests.live.test_scorers import NAMED

TESTS: Final = Path(__file__).parent.parent


@pytest.mark.parametrize("scenario", rows(SCENARIOS))
def test_scenario(
    scenario: Scenario,
    at_hand: Callable[[str], Brokers | Connection],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """What is promised holds, the checker finds nothing, and what is planted is found."""
    name = f"scenario-{tmp_path.name[-12:]}-{abs(hash(scenario.name)) % 10**8}"
    run(scenario, settings_for(name, tmp_path / "checkpoint"), at_hand(scenario.on), tmp_path, record_property)


def test_every_crash_point_is_struck() -> None:
    """By a scenario of trainers, of scorers or of workers, or by a test that brings about what must come before it."""
    places = (
        "live/test_workers.py",
        "branches/history/test_erasing_killed.py",
        "consumers/streams/test_settling.py",
    )
    texts = "".join((TESTS / file).read_text() for file in places)
    left = {*POINTS} - STRUCK - {*NAMED}
    assert [point for point in sorted(left) if f'"{point}' not in texts] == []
    assert all(point.startswith(OTHERS) for point in left)


def test_a_missed_deadline_hides_no_anomaly(real_broker: TestBroker, tmp_path: Path) -> None:
    """What was recorded before it is judged: an anomaly is raised in its place, and without one the deadline."""

    def miss(_: Play) -> None:
        raise Late("never within 1 s: a version")

    def tell_of_a_version(play: Play) -> None:
        play.recorder.tell("trainer/0", "ok", "publish", model="m", number=7)

    for steps, raised in (((), "never within"), ((tell_of_a_version,), "m@7")):
        directory = tmp_path / raised
        settings = settings_for(real_broker.name("late"), directory / "checkpoint")
        directory.mkdir()
        with pytest.raises(AssertionError, match=raised):
            run(Scenario(name="late", steps=steps, end=miss), settings, real_broker.connection, directory)
