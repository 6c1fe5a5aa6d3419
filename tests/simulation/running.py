"""From a seed, a script or a search to worlds that were run and judged."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from streamsvm.learning import tuning
from tests.simulation import scorer_world
from tests.simulation.choices import Chance, Chooser, Deviations, Script, Search
from tests.simulation.invariants import Judge
from tests.simulation.ports import Ports
from tests.simulation.scorer_ports import ScorerPorts
from tests.simulation.scorer_world import ScorerWorld
from tests.simulation.stream import Reference, settings_for
from tests.simulation.variants import draw, variants_of
from tests.simulation.world import COMMIT_FAULTS, DEATHS, MARKER_FAULTS, RECONFIGURED, Profile, Violation, World

BENIGN = (
    "append",
    "late poll",
    "small batch",
    "other partition",
    "slow training",
    "slow publish",
    "letters arrive",
    "survivor",
)
NETWORK = (
    *COMMIT_FAULTS,
    *MARKER_FAULTS,
    "refused",
    "failed",
    "unavailable",
    "init unanswered",
    "deliver",
    "disk full",
)
OUTSIDE = (
    "pin",
    "unpin",
    "alias",
    "retire",
    "compact",
    "foreign",
    "end foreign",
    "expire",
    "time out",
    "add partition",
    "abort by hand",
)
JUDGED = ("gate refuses",)
LOSSES = ("trim", "truncate", "recreate", "all lost")
KINDS = (
    "event",
    "network",
    "version",
    "commit",
    "markers",
    "which markers",
    "letters",
    "clock",
    "order",
    "batch",
    "training",
    "disk",
    "person",
    "gate",
    "sending",
    "slot",
    "client",
)
"""Every kind of choice: how often each deviates is drawn for each seed."""


@dataclass(frozen=True)
class Broken:
    """A violation: what it is, and the options that lead to it again."""

    what: str
    again: str


@dataclass
class Tally:
    """What was run.

    `happened`: Events by kind.
    """

    schedules: int = 0
    steps: int = 0
    lives: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    violations: list[Broken] = field(default_factory=list)

    def add(self, world: World, violation: str, again: str = "") -> None:
        """Count a world that was run; `again` are the options that run it again, its choices if left out."""
        self.schedules += 1
        self.steps += len(world.trace)
        self.lives += world.first.lives + (world.second.lives if world.second else 0)
        self.happened += world.happened
        if violation:
            again = again or f"--script '{script_of(world.profile, world.chooser.deviations)}'"
            self.violations.append(Broken(violation, again))

    def join(self, other: Tally) -> Tally:
        """Add another tally to this one."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.lives += other.lives
        self.happened += other.happened
        self.violations += other.violations
        return self


@dataclass(frozen=True)
class Design:
    """Which world is built: the shipped code on honest ports, unless a defect is planted."""

    ports: type[Any] | None = None
    world: Callable[..., World] | None = None

    def built(self, profile: Profile, chooser: Chooser) -> World:
        """Return a world of a profile."""
        world, ports = (ScorerWorld, ScorerPorts) if profile.scorer else (World, Ports)
        return (self.world or world)(profile, chooser, self.ports or ports)


SHIPPED = Design()
SCORERS = 0.3
"""Share of the worlds in which scorers run."""
SEVERAL = 0.1
"""Share of the worlds that have seven labels."""
RECONFIGURED_SHARE = 0.3
"""Share of the worlds of trainers in which options of training change."""
_judges: dict[str, Judge] = {}


def judge_of(profile: Profile) -> Judge:
    """Return the judge for a profile's settings; one process keeps it, since its memory makes it fast."""
    models = settings_for(profile.policy, classes=profile.classes, variants=profile.variants).models()
    if models.sha256() not in _judges:
        made = (one.reading(models) for one in variants_of(profile.variants))
        _judges[models.sha256()] = Judge(Reference(models, next((one for one in made if one is not None), None)))
    return _judges[models.sha256()]


@patch.object(tuning, "EVERY_LEAVES", 2)
def run(profile: Profile, chooser: Chooser, design: Design = SHIPPED) -> tuple[World, str]:
    """Run one world and judge it; return it and what is violated, empty if nothing is."""
    world = design.built(profile, chooser)
    try:
        world.run()
        if isinstance(world, ScorerWorld):
            scorer_world.check(world)
        else:
            judge_of(profile).check(world)
    except Violation as violation:
        return world, str(violation)
    except AssertionError as broken:
        return world, f"an invariant of the code itself broke: {broken!r}"
    return world, ""


def drawn(seed: int) -> tuple[Profile, Mapping[str, float]]:
    """Draw a world from a seed: how large it is, what may happen in it, and how often.

    Most seeds allow only some kinds of events, so that rare ones meet in many combinations.
    """
    chance = random.Random(seed)
    pool = [*DEATHS[:-1], *NETWORK, *OUTSIDE, *JUDGED, *(LOSSES if chance.random() < 0.2 else ())]
    allowed = [kind for kind in pool if chance.random() < 0.4] or ["kill"]
    faults = {kind: chance.choice((1, 1, 2, 3)) for kind in allowed} | dict.fromkeys(BENIGN, 5)
    if "late" in faults or "asked twice" in faults:
        faults["deliver"] = 3
    if "foreign" in faults:
        faults["end foreign"] = 3
    if "markers late" in faults:
        faults["markers arrive"] = 3
    if "recreate" in faults:
        faults["unnoticed"] = 3
    two = chance.random() < 0.3
    if two:
        faults |= {"switch": chance.randrange(1, 9), "copy": 1, "reset": 1, "survivor": 1}
    profile = Profile(
        chance.choice(("every", "latest")),
        chance.choice((1, 1, 2)),
        chance.randrange(2, 9),
        chance.randrange(20, 200),
        faults,
        two,
        chance.choice((1, 1, 2)),
        chance.choice(("fail", "fail", "reset")),
    )
    rates = {kind: chance.choice((0.0, 0.1, 0.3, 0.6)) for kind in KINDS}
    rates |= {"event": chance.choice((0.02, 0.05, 0.1, 0.2)), "unsafe name": 0.5, "unsafe content": 0.5}
    rates |= {"survivor": 0.5, "which markers": 0.7, "client": 0.7}
    if random.Random(f"settings {seed}").random() < RECONFIGURED_SHARE:
        faults[RECONFIGURED] = 2
    # Drawn last: what else happens in the world of a seed does not depend on it.
    another = random.Random(f"scorer {seed}")
    if another.random() < SCORERS:
        return scorer_world.drawn(another), rates
    if chance.random() < SEVERAL:
        return replace(profile, classes=7), rates
    for variant in draw(seed):
        profile = variant.drawn(replace(profile, variants=(*profile.variants, variant.name)))
    return profile, rates


def by_chance(seed: int, design: Design = SHIPPED) -> tuple[World, str]:
    """Run the world of a seed."""
    profile, rates = drawn(seed)
    return run(profile, Chance(seed, rates), design)


def at_random(seeds: range, design: Design = SHIPPED, most_violations: int = 10) -> Tally:
    """Run the worlds of many seeds, until so many violations are found."""
    tally = Tally()
    for seed in seeds:
        world, violation = by_chance(seed, design)
        tally.add(world, violation, f"--replay {seed}")
        if len(tally.violations) >= most_violations:
            break
    return tally


def small_worlds(profile_of: Callable[[int], Profile], seeds: range, design: Design = SHIPPED) -> Tally:
    """Run worlds of given profiles by chance, with every kind of choice about as likely, until one is violated."""
    tally = Tally()
    for seed in seeds:
        rate = (0.05, 0.1, 0.2)[seed % 3]
        rates = dict.fromkeys(KINDS, 0.3) | {"event": rate, "survivor": 0.5, "unsafe name": 0.5, "unsafe content": 0.5}
        rates |= {"which markers": 0.7, "client": 0.7}
        world, violation = run(profile_of(seed), Chance(seed, rates), design)
        tally.add(world, violation)
        if violation:
            break
    return tally


def exhaustively(
    profile: Profile, deviations: int, design: Design = SHIPPED, most_violations: int = 10, most: int = 1 << 60
) -> Tally:
    """Run every schedule of a profile with at most so many deviations from the calm one."""
    tally = Tally()
    for script in Search(deviations):
        world, violation = run(profile, script, design)
        tally.add(world, violation)
        if len(tally.violations) >= most_violations or tally.schedules >= most:
            break
    return tally


def shortest(profile: Profile, deviations: Deviations, design: Design = SHIPPED) -> tuple[World, str]:
    """Return a violation's world with as few deviations as leaving one out after another leads to."""
    kept = dict(deviations)
    best = run(profile, Script(kept), design)
    shrinking = True
    while shrinking:
        shrinking = False
        for index in sorted(kept, reverse=True):
            fewer = {at: chosen for at, chosen in kept.items() if at != index}
            found = run(profile, Script(fewer), design)
            if found[1]:
                kept, best, shrinking = fewer, found, True
                break
    return best


def script_of(profile: Profile, deviations: Deviations) -> str:
    """Write down a run."""
    return json.dumps({"profile": asdict(profile), "deviations": dict(deviations)})


def by_script(script: str, design: Design = SHIPPED) -> tuple[World, str]:
    """Run what `script_of` wrote down."""
    content = json.loads(script)
    deviations = {int(index): chosen for index, chosen in content["deviations"].items()}
    profile = {**content["profile"], "variants": tuple(content["profile"]["variants"])}
    return run(Profile(**profile), Script(deviations), design)


def save(path: Path, seed: int, tally: Tally) -> None:
    """Write down what was run of the seeds from one on."""
    violations = [asdict(one) for one in tally.violations]
    path.write_text(json.dumps({"seed": seed, **vars(tally), "violations": violations}))


def load(path: Path) -> tuple[int, Tally]:
    """Return the first seed and what was run from it on, as `save` wrote them."""
    content = json.loads(path.read_text())
    seed: int = content.pop("seed")
    violations = [Broken(**one) for one in content.pop("violations")]
    return seed, Tally(**content | {"happened": Counter(content["happened"]), "violations": violations})


def describe(tally: Tally) -> dict[str, Any]:
    """Return the figures of a tally."""
    return {
        "schedules": tally.schedules,
        "steps": tally.steps,
        "lives": tally.lives,
        "events": dict(sorted(tally.happened.items())),
        "violations": len(tally.violations),
    }
