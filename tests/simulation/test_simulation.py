"""The shipped code keeps its promise in simulated worlds, and every planted defect breaks it there."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from consumers.host import Health
from consumers.streams import heeding
from streamsvm import kafka
from tests.defects import SIMULATED
from tests.defects.worlds import alone, defective, profile_of
from tests.simulation import ports, scorer_ports
from tests.simulation.__main__ import SMALLEST
from tests.simulation.broker import Entry
from tests.simulation.choices import Script
from tests.simulation.invariants import nobody_is_in_doubt, nothing_hangs
from tests.simulation.ports import Ports, quiet
from tests.simulation.running import (
    Tally,
    at_random,
    by_chance,
    by_script,
    drawn,
    exhaustively,
    script_of,
    small_worlds,
)
from tests.simulation.stream import AUDIT, TRANSACTIONAL_ID
from tests.simulation.world import IDLE_TURNS, LONGEST_DOUBT_S, Life, Profile, Violation, World

NOT_SIMULATED = {
    "member",
    "connection",
    "tail",
    "subscription",
    "slots",
}
"""What a trainer without workers does not ask of a `Cluster`."""
KNOWN: Final = Path(__file__).with_name("known.json")
SCHEDULES = 50
SMALL_WORLDS = 3_000
CLEAN_WORLDS = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


def broken(tally: Tally) -> list[str]:
    return [f"{violation.what}: python -m tests.simulation {violation.again}" for violation in tally.violations]


def misfits(simulated: type, real: type) -> list[str]:
    """Return the methods that do not take what the real ones take; a parameter that has a default may be left out."""
    found = []
    for name, method in vars(simulated).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        taken = {one.name: one.kind for one in inspect.signature(method).parameters.values()}
        there = inspect.signature(getattr(real, name)).parameters.values()
        given = {one.name: one.kind for one in there if one.name in taken or one.default is inspect.Parameter.empty}
        if list(taken.items()) != list(given.items()):
            found.append(name)
    return found


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_simulated_broker_takes_what_the_real_one_takes() -> None:
    """What the trainer drives here is what it drives there: the same methods, the same parameters."""
    assert public(kafka.Cluster) - public(ports.Cluster) == NOT_SIMULATED
    for kind in ("Cluster", "Publisher", "Outbox", "Input", "RecordFetcher"):
        assert misfits(getattr(ports, kind), getattr(kafka, kind)) == []
    for of_scorer, real in (("Subscription", "Subscription"), ("Slots", "GroupSlots")):
        assert misfits(getattr(scorer_ports, of_scorer), getattr(kafka, real)) == []


def test_a_simulated_method_that_does_not_fit_would_be_found() -> None:
    """The check can fail: a parameter that the real one does not have, and one that is missing."""

    class Strange(ports.Cluster):
        def describe(self, topic: str, again: bool) -> None: ...

        def record(self, topic: str, offset: int) -> None: ...

    assert misfits(Strange, kafka.Cluster) == ["describe", "record"]


@pytest.mark.long
@pytest.mark.parametrize("first_seed", range(0, 32 * SCHEDULES, SCHEDULES))
def test_the_promise_holds_in_random_worlds(first_seed: int) -> None:
    """Schedules with crashes, lost answers, two instances, lost power and meddling people break nothing."""
    tally = at_random(range(first_seed, first_seed + SCHEDULES))
    assert broken(tally) == []
    assert tally.schedules == SCHEDULES


@pytest.mark.long(keep=("two instances", "a gap"))
@pytest.mark.parametrize("name", SMALLEST)
def test_the_promise_holds_in_every_schedule_of_the_smallest_worlds(name: str) -> None:
    """Every schedule with one deviation from a calm run breaks nothing: each step is a point to die or to be unsure."""
    tally = exhaustively(SMALLEST[name], 1)
    assert broken(tally) == []
    assert tally.schedules > 30


@pytest.mark.long(
    only=(
        "reads-to-the-stable-offset",
        "names-its-id-by-incarnation",
        "orders-checkpoints-by-epoch",
        "learns-a-label-twice",
        "forgets-what-is-joined",
        "forgets-what-waits",
        "remembers-its-tuning",
        "takes-its-id-back",
    )
)
@pytest.mark.parametrize("name", SIMULATED)
def test_a_planted_defect_is_found(name: str) -> None:
    """The simulation can fail: without this part of the code or its world, a schedule breaks the promise."""
    with defective(name) as design:
        tally = small_worlds(partial(profile_of, SIMULATED[name]), range(SMALL_WORLDS), design)
    assert tally.violations, f"not found in {tally.schedules} schedules"
    assert re.search(SIMULATED[name].breach, tally.violations[0].what), tally.violations[0].what


@pytest.mark.long(keep=("keeps-a-pending-cut-as-positions",))
@pytest.mark.parametrize("name", SIMULATED)
def test_the_shipped_code_breaks_nothing_where_a_defect_is_found(name: str) -> None:
    """The same small worlds without the defect are without violation."""
    with alone(name):
        tally = small_worlds(partial(profile_of, SIMULATED[name]), range(CLEAN_WORLDS))
    assert broken(tally) == []


@pytest.mark.parametrize("known", json.loads(KNOWN.read_text()), ids=lambda known: known["why"].replace(" ", "-"))
def test_what_100_000_schedules_found_is_known(known: dict[str, Any]) -> None:
    """Each still breaks what it says, or nothing where that is empty: whoever mends one empties it."""
    assert by_script(json.dumps(known["script"]))[1] == known["violation"]


def test_a_seed_replays_exactly() -> None:
    """A world is a function of its choices: run again by its seed or its script it goes step by step the same way."""
    for seed in range(20):
        world, _ = by_chance(seed)
        assert by_chance(seed)[0].trace == world.trace
        assert by_script(script_of(world.profile, world.chooser.deviations))[0].trace == world.trace


def test_a_thread_without_the_baton_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the trainer that brings a thread of its own into a world cannot pass unnoticed."""
    monkeypatch.setattr(ports, "heeding_inline", heeding)
    trainers = [seed for seed in range(60) if not drawn(seed)[0].scorer]
    for two in (False, True):
        seed = next(seed for seed in trainers if drawn(seed)[0].two is two)
        with pytest.raises(RuntimeError, match=r"thread aside touches the world while \w+ holds the baton"):
            by_chance(seed)


def test_a_trainer_in_doubt_is_not_at_rest() -> None:
    """What only time mends is waited for, as long as a trainer documents that it takes, and no longer."""
    world = World(Profile(), Script({}), Ports)
    life = Life(world.first, "A1", health=Health(stuck_after_s=60.0, clock=lambda: world.time))
    world.calm = True
    assert any(world.rest(life) for _ in range(IDLE_TURNS))
    life.health.require("publish", "another instance took over")
    assert not world.rest(life)
    world.time = LONGEST_DOUBT_S + 1.0
    assert world.rest(life)
    with pytest.raises(Violation, match="cannot publish: another instance took over"):
        nobody_is_in_doubt(world)


def test_a_world_whose_readers_are_held_up_is_not_at_rest() -> None:
    """A transaction without its end is the trainer's to settle, though it has nothing to read or to publish."""
    world = World(Profile(), Script({}), Ports)
    life = Life(world.first, "A1", health=Health(stuck_after_s=60.0, clock=lambda: world.time))
    world.calm, world.idle = True, IDLE_TURNS
    world.broker.send(TRANSACTIONAL_ID, world.broker.initialise(TRANSACTIONAL_ID), AUDIT, Entry(b"{}"))
    assert not world.rest(life)
    world.time = LONGEST_DOUBT_S + 1.0
    assert world.rest(life)
    with pytest.raises(Violation, match="at rest readers of"):
        nothing_hangs(world)
