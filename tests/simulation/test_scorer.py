"""What is particular of worlds of scorers: their crash points, their group, and their input."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from streamsvm.crashpoints import POINTS
from tests.defects import Simulated
from tests.defects.worlds import profile_of
from tests.simulation import scorer_world
from tests.simulation.choices import Chance
from tests.simulation.ports import quiet
from tests.simulation.running import small_worlds
from tests.simulation.scorer_world import EXCUSES, MOVED, ScorerWorld
from tests.simulation.world import Profile


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


def worlds(faults: dict[str, int]) -> Iterator[ScorerWorld]:
    """Yield finished worlds in which these things happen by chance."""
    for seed in range(150):
        rates = {"event": 0.1, "markers": 0.4, "which markers": 0.7, "version": 0.2}
        world = ScorerWorld(Profile(records=6, steps=150, faults=faults, scorer=True), Chance(seed, rates))
        world.run()
        scorer_world.check(world)
        yield world


def test_every_crash_point_of_a_scorer_is_a_point_to_die_at() -> None:
    """A schedule may end the process at each named place between two steps of a batch or of a settlement."""
    seen = {line.rpartition(": ")[2] for one in worlds({"markers lost": 2, "kill": 1}) for line in one.trace}
    assert {name for name in POINTS if name.startswith(("scores.", "settle."))} <= seen


@pytest.mark.parametrize("kind", [*MOVED, "points truncated"])
def test_what_happens_to_a_group_or_its_input_breaks_nothing(kind: str) -> None:
    """Scorers go on where their scores end, whatever their group says, and whatever an unclean election took."""
    met = [one for one in worlds({kind: 2, "kill": 2, "markers lost": 1}) if one.happened[kind]]
    assert len([one for one in met if not EXCUSES & {*one.excuses}]) > 50


def test_scorers_of_two_topics_of_a_name_break_nothing() -> None:
    """The topic of points is made again while two scorers read it."""
    faults = {"points recreated": 2, "kill": 2}
    place = Simulated(breach="", faults=faults, two=True, records=8, partitions=2, scorer=True)
    assert small_worlds(partial(profile_of, place), range(60)).violations == []
