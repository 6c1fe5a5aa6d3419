"""``python -m tests.simulation``: many worlds from seeds, every schedule of a small one, or one told in full."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from pathlib import Path

from tests.plugged import of_branches
from tests.simulation.ports import quiet
from tests.simulation.running import (
    Tally,
    at_random,
    by_chance,
    by_script,
    describe,
    exhaustively,
    load,
    save,
    script_of,
    shortest,
)
from tests.simulation.world import COMMIT_FAULTS, RECONFIGURED, Profile

SHARE = 50
"""Seeds that a process takes at once."""
SAY_S = 10.0
"""Least time between two lines that say how far a run is."""

_DOUBTS = dict.fromkeys((*COMMIT_FAULTS, "deliver"), 1)
SMALLEST: dict[str, Profile] = {
    "one instance": Profile(
        "every", 1, 3, 400, {"kill": 3, "power loss": 1, "newest lost": 1, "refused": 1, **_DOUBTS}
    ),
    "slow training": Profile(
        "latest", 1, 3, 400, {"kill": 3, "slow training": 3, "late poll": 3, "refused": 1}, variants=("lean",)
    ),
    "slow publishing": Profile(
        "latest",
        1,
        4,
        400,
        {"kill": 3, "slow publish": 3, "late poll": 2, "unanswered": 1},
        variants=("lean",),
    ),
    "two instances": Profile(
        "every", 1, 2, 400, {"copy": 1, "switch": 3, "kill": 1, "survivor": 1, **_DOUBTS}, two=True, variants=("lean",)
    ),
    "foreign transactions": Profile("every", 1, 2, 400, {"foreign": 1, "end foreign": 1, "kill": 2, "expire": 1}),
    "a gate that says no": Profile(
        "every", 1, 4, 400, {"gate refuses": 2, "kill": 2, "unanswered": 1, "late": 1, "deliver": 1}
    ),
    "a gap": Profile("every", 1, 3, 400, {"truncate": 1, "trim": 1, "kill": 2, "oldest kept": 1}),
    "seven labels": Profile(
        "every", 1, 9, 400, {"kill": 3, "power loss": 1, "newest lost": 1, "deliver": 1}, classes=7
    ),
    "a scorer": Profile(
        records=3, steps=400, faults={"kill": 2, "failed": 1, "markers lost": 1, **_DOUBTS}, scorer=True
    ),
    "two scorers": Profile(
        partitions=2,
        records=3,
        steps=400,
        faults={"copy": 1, "switch": 3, "kill": 1, "survivor": 1, "session expires": 1, "unanswered": 1},
        two=True,
        scorer=True,
    ),
    "other settings": Profile(
        "every", 1, 3, 400, {RECONFIGURED: 2, "kill": 1, "newest lost": 1, "unanswered": 1, "refused": 1}
    ),
    "horizons": Profile("every", 1, 4, 400, {"kill": 3, "power loss": 1, "newest lost": 1}, variants=("adaptive",)),
    **{name: profile for found in of_branches("worlds", "SMALLEST") for name, profile in found.items()},
}
"""Worlds that are searched in full."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; the exit status is 1 if the promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000, help="how many worlds to draw")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by the clock if left out")
    parser.add_argument("--processes", type=int, default=2, help="how many processes share them")
    parser.add_argument("--tally", type=Path, help="a file to go on from, by its seeds, and to add the counts up in")
    parser.add_argument("--exhaustive", type=int, metavar="DEVIATIONS", help="every schedule of the smallest worlds")
    parser.add_argument("--replay", type=int, metavar="SEED", help="tell the world of one seed")
    parser.add_argument(
        "--shortest", action="store_true", help="with --replay: leave out what a violation does not need"
    )
    parser.add_argument("--script", metavar="JSON", help="tell the world of a script, as a violation prints it")
    asked = parser.parse_args(arguments)
    if asked.replay is not None or asked.script is not None:
        return replay(asked.replay, asked.script, asked.shortest)
    begun = time.perf_counter()
    if asked.exhaustive is not None:
        with quiet():
            tally = reduce(Tally.join, (search(name, asked.exhaustive) for name in SMALLEST), Tally())
    else:
        seed = int(time.time()) * 1_000_000 if asked.seed is None else asked.seed
        tally = Tally()
        if asked.tally is not None and asked.tally.exists():
            seed, tally = load(asked.tally)
        seeds = range(seed + tally.schedules, seed + asked.schedules)
        print(f"simulation: seeds {seed} to {seeds.stop - 1}, from {seeds.start} on", flush=True)
        shares = [seeds[first : first + SHARE] for first in range(0, len(seeds), SHARE)]
        said = begun
        with ProcessPoolExecutor(asked.processes, initializer=gc.freeze) as pool:
            for share in pool.map(_share, shares):
                tally.join(share)
                if asked.tally is not None:
                    save(asked.tally, seed, tally)
                if time.perf_counter() - said > SAY_S:
                    said = time.perf_counter()
                    done = f"{tally.schedules} of {asked.schedules} schedules"
                    print(f"simulation: {done}, {said - begun:.0f} s, {len(tally.violations)} violations", flush=True)
    return report(tally, time.perf_counter() - begun)


def search(name: str, deviations: int) -> Tally:
    """Run every schedule of one of the smallest worlds with at most so many deviations, and say how many there are."""
    tally = exhaustively(SMALLEST[name], deviations)
    found = f"{tally.schedules} schedules with up to {deviations} deviations, {len(tally.violations)} violations"
    print(f"simulation: {name}: {found}", flush=True)
    return tally


def _share(seeds: range) -> Tally:
    with quiet():
        return at_random(seeds, most_violations=len(seeds))


def report(tally: Tally, seconds: float) -> int:
    """Print the figures, and how to see each violation again."""
    print(json.dumps({**describe(tally), "seconds": round(seconds, 1)}))
    for violation in tally.violations:
        print(f"VIOLATION {violation.what}\n  python -m tests.simulation {violation.again}")
    print(f"simulation: {tally.schedules} schedules, {len(tally.violations)} violations, {seconds:.0f} s")
    return 1 if tally.violations else 0


def replay(seed: int | None, script: str | None, make_short: bool) -> int:
    """Tell what happens under a seed or a script."""
    with quiet():
        world, violation = by_script(script) if script else by_chance(seed or 0)
        if make_short and violation:
            world, violation = shortest(world.profile, world.chooser.deviations)
    print(script_of(world.profile, world.chooser.deviations))
    print("\n".join(world.trace))
    print(f"VIOLATION {violation}" if violation else "no violation")
    return 1 if violation else 0


if __name__ == "__main__":
    sys.exit(main())
