"""The shipped code keeps its promise in simulated worlds, and every planted defect breaks it there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.simulation.__main__ import SMALLEST
from tests.simulation.defects import DEFECTS
from tests.simulation.ports import quiet
from tests.simulation.running import Tally, at_random, by_chance, by_script, exhaustively, script_of, small_worlds

SCHEDULES = 250
SMALL_WORLDS = 600
CLEAN_WORLDS = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


def broken(tally: Tally) -> list[str]:
    return [f"{violation.what}: python -m tests.simulation {violation.again}" for violation in tally.violations]


@pytest.mark.parametrize("first_seed", range(0, 4 * SCHEDULES, SCHEDULES))
def test_the_promise_holds_in_random_worlds(first_seed: int) -> None:
    """Schedules with crashes, lost answers, two instances, lost power and meddling people break nothing."""
    tally = at_random(range(first_seed, first_seed + SCHEDULES))
    assert broken(tally) == []
    assert tally.schedules == SCHEDULES


@pytest.mark.parametrize("name", SMALLEST)
def test_the_promise_holds_in_every_schedule_of_the_smallest_worlds(name: str) -> None:
    """Every schedule with one deviation from a calm run breaks nothing: each step is a point to die or to be unsure."""
    tally = exhaustively(SMALLEST[name], 1)
    assert broken(tally) == []
    assert tally.schedules > 30


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str) -> None:
    """The simulation can fail: without this part of the code or its world, a schedule breaks the promise."""
    defect = DEFECTS[name]
    with defect.planted():
        tally = small_worlds(defect.profile, range(SMALL_WORLDS), defect.design)
    assert tally.violations, f"not found in {tally.schedules} schedules"
    assert re.search(defect.breach, tally.violations[0].what), tally.violations[0].what


@pytest.mark.parametrize("name", DEFECTS)
def test_the_shipped_code_breaks_nothing_where_a_defect_is_found(name: str) -> None:
    """The same small worlds without the defect are without violation."""
    tally = small_worlds(DEFECTS[name].profile, range(CLEAN_WORLDS))
    assert broken(tally) == []


def test_a_seed_replays_exactly() -> None:
    """A world is a function of its choices: run again by its seed or its script it goes step by step the same way."""
    for seed in range(20):
        world, _ = by_chance(seed)
        assert by_chance(seed)[0].trace == world.trace
        assert by_script(script_of(world.profile, world.chooser.deviations))[0].trace == world.trace
