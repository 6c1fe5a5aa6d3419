"""What is particular of worlds of scorers: their crash points, and what scorers do not promise yet."""

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
from tests.simulation.scorer_world import NOT_YET_PROMISED, ScorerWorld
from tests.simulation.world import Profile, Violation

MOVED = [kind for kind in NOT_YET_PROMISED if kind.startswith("positions")]


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


@pytest.mark.parametrize("kind", MOVED)
def test_what_happens_to_a_group_is_not_yet_made_good(kind: str) -> None:
    """A scorer trusts its group's position: a strict judge sees the harm, and the judge of today excuses it.

    Whoever mends that takes the kind out of `NOT_YET_PROMISED`.
    """
    assert any(map(harmed, worlds({kind: 2, "kill": 2})))


def harmed(world: ScorerWorld) -> bool:
    try:
        scorer_world.check(world, strict=True)
    except Violation as violation:
        return str(violation).startswith(("doubled-score", "lost-score"))
    return False


def test_scorers_of_two_topics_of_a_name_break_nothing() -> None:
    """The topic of points is made again while two scorers read it."""
    faults = {"points recreated": 2, "kill": 2}
    place = Simulated(breach="", faults=faults, two=True, records=8, partitions=2, scorer=True)
    assert small_worlds(partial(profile_of, place), range(60)).violations == []
