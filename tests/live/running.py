"""One run: begin, let things go wrong until there are enough transactions, make everything well, look, judge."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.defects import LIVE
from tests.live.checker import check
from tests.live.checker.evidence import Evidence
from tests.live.history import Recorder, load
from tests.live.nemesis import Conductor
from tests.live.world import Plan, World
from tests.promise.anomalies import Anomaly
from tests.promise.answers import SOURCE

KINDS: Final = ("versions", "batches", "moves")
LOOK_S: Final = 0.5
FIRST_VERSION_S: Final = 180.0
RATE: Final = 100.0
"""Rows a second: more than a trainer takes, so that one is always in the midst of a transaction."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to.

    `lives`: Processes of daemons that were started. `counts`: Versions, batches, moves; scores, and records that were
    aborted. `faults`: How often each nemesis struck. `remarks`: What could not be done or seen; for people.
    """

    plan: Plan
    seconds: float
    lives: int
    counts: Counter[str]
    faults: Counter[str]
    anomalies: list[Anomaly]
    remarks: list[str] = field(default_factory=list)
    history: Path

    @property
    def transactions(self) -> int:
        """Versions, batches of scores and moves together."""
        return sum(self.counts[kind] for kind in KINDS)

    def line(self) -> str:
        """Return what it came to, for people."""
        counted = ", ".join(f"{self.counts[kind]:,} {kind}" for kind in KINDS)
        named = Counter(anomaly.name for anomaly in self.anomalies)
        wrong = ", ".join(f"{count} {name}" for name, count in sorted(named.items())) or "none"
        return f"{self.seconds:,.0f} s, {self.lives} lives, {self.faults.total()} faults, {counted}; anomalies: {wrong}"


def run(plan: Plan, keep: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Do one run; its history and logs are kept in a new directory under `keep`."""
    keep.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{'+'.join(plan.nemeses) or 'calm'}-{plan.seed}-", dir=keep))
    recorder = Recorder(directory / "history.jsonl")
    world, begun = World(plan, recorder, directory), time.monotonic()
    conductor = Conductor(world, plan.nemeses, random.Random(plan.seed))
    try:
        world.begin()
        _suffer(world, conductor, say)
        world.heal()
        settled = world.settle()
        say(f"  settled: {settled}; {world.transactions} transactions; waiting: {world.waiting() or 'nothing'}")
        world.look_for_the_last_time(settled=settled)
    finally:
        conductor.stop()
        world.end()
        recorder.close()
    seconds = time.monotonic() - begun
    evidence = Evidence(load(recorder.file))
    return Outcome(
        plan=plan,
        seconds=seconds,
        lives=len([entry for entry in evidence.told["life"] if entry.type == "invoke"]),
        counts=counts_of(evidence),
        faults=conductor.struck,
        anomalies=check(load(recorder.file)),
        remarks=[*world.skipped, *conductor.failures, *world.feeder.failures, *map(str, world.counts.items())],
        history=recorder.file,
    )


def _suffer(world: World, conductor: Conductor, say: Callable[[str], None]) -> None:
    """Wait for the first versions, then let things go wrong until there are enough transactions."""
    pause, begun, said = threading.Event(), time.monotonic(), 0.0
    while len(world.seen.newest) < len(world.plan.models) and time.monotonic() - begun < FIRST_VERSION_S:
        pause.wait(LOOK_S)
    conductor.start()
    begun, before = time.monotonic(), world.transactions
    while _goes_on(world, conductor, before) and time.monotonic() - begun < world.plan.most_s:
        pause.wait(LOOK_S)
        if time.monotonic() - said > 30.0:
            said = time.monotonic()
            struck = " ".join(f"{name}:{count}" for name, count in sorted(conductor.struck.items()))
            kinds = f"{world.seen.versions} versions, {world.batches} batches, {world.moves} moves"
            say(f"  {said - begun:4.0f} s: {world.transactions} transactions ({kinds}); {struck}")
    conductor.stop()


def _goes_on(world: World, conductor: Conductor, before: int) -> bool:
    """Tell whether there were too few transactions, or too few faults, since things began to go wrong."""
    faults = world.plan.faults if world.plan.nemeses else 0
    return world.transactions - before < world.plan.transactions or conductor.struck.total() < faults


def counts_of(evidence: Evidence) -> Counter[str]:
    """Count what is committed, by the history alone; batches by what scorers said, for no reader tells them apart."""
    counts: Counter[str] = Counter()
    for site in evidence.sites:
        counts["versions"] += sum(1 for read in evidence.log(site.models) if read.sha256 is not None)
        moves = [read for read in evidence.log(site.audit) if read.value and read.value.get("by") != "trainer"]
        counts["moves"] += len(moves)
    batches: dict[str, int] = {}
    for entry in evidence.told["score"]:
        batches[entry.client] = max(batches.get(entry.client, 0), entry["batches"])
    counts["batches"] = sum(batches.values())
    for scoring in evidence.scorings:
        counts["scores"] += sum(1 for read in evidence.log(scoring.scores) if SOURCE in read.headers)
    counts["aborted records"] = sum(
        len(evidence.aborted(topic)) for topic in {place[0] for place in evidence.uncommitted}
    )
    counts["reads"] = sum(len(reads) for reads in evidence.live.values())
    counts["serves"] = len(evidence.told["serve"])
    return counts


def plan_of(name: str, seed: int, **more: Any) -> Plan:
    """Return the run that must bring a defect to light."""
    defect = LIVE[name]
    scorers = 2 if defect.part == "score" else 0
    usual: dict[str, Any] = {"bound_s": 60.0, "most_s": 240.0, "rate": RATE, "scorers": scorers}
    return Plan(
        nemeses=defect.nemeses,
        seed=seed,
        defect=name,
        planted_in=defect.part,
        node=False,
        faults=defect.faults,
        models=defect.models,
        operators=0,
        **{**usual, "transactions": defect.transactions, **more},
    )
