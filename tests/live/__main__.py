"""Random faults on live systems: `python -m tests.live`; scenarios are run by `pytest tests/live`.

With `--nemesis` one run under these faults; with `--hours`, runs under faults drawn anew, until the time is over. Also:
`check FILE` judges a history again; `defects [NAME ...]` plants defects, each of which its run must find.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.brokers.jvm import CannotRun
from tests.defects import LIVE
from tests.live.checker import check
from tests.live.history import load
from tests.live.nemesis import NEMESES
from tests.live.running import Outcome, plan_of, run
from tests.live.world import Plan

KEEP: Final = Path("build/live")
AT_ONCE: Final = 3
"""How many kinds of faults a run under `--hours` mixes, at most."""
TRIES: Final = 2
"""Runs until a planted defect must be found."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; return 1 if anything was wrong."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["check"]:
        return judge(Path(given[1]))
    if given[:1] == ["defects"]:
        return defects(given[1:])
    made = argparse.ArgumentParser(prog="python -m tests.live", description=__doc__)
    made.add_argument("--hours", type=float, default=0.0, help="runs for so long")
    made.add_argument("--nemesis", default="", help="faults, with commas between them; all; none; default: drawn anew")
    made.add_argument("--transactions", type=int, default=500, help="of a run: versions, batches, moves (%(default)s)")
    made.add_argument("--seed", type=int, default=None, help="of the choices; default: another one each time, printed")
    made.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="of a run (%(default)s)")
    made.add_argument("--defaults", action="store_true", help="Kafka's own settings in a run, under which markers last")
    return random_runs(made.parse_args(given))


def random_runs(options: argparse.Namespace) -> int:
    """Do one run, or runs until the time is over; print a line for each, and each anomaly."""
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    chance, until, wrong = random.Random(seed), time.monotonic() + 3_600 * options.hours, 0
    named = {"all": [*NEMESES], "none": []}.get(options.nemesis, options.nemesis.split(","))
    if unknown := sorted({*named} - {*NEMESES, ""}):
        raise SystemExit(f"Unknown nemesis {', '.join(unknown)}. Known: {', '.join(NEMESES)}")
    while True:
        drawn = named if options.nemesis else chance.sample([*NEMESES], chance.randint(1, AT_ONCE))
        plan = Plan(
            nemeses=tuple(drawn),
            transactions=options.transactions,
            seed=seed,
            brokers=options.brokers,
            defaults=options.defaults,
        )
        wrong += len(_run(plan).anomalies)
        seed += 1
        if time.monotonic() >= until:
            return 1 if wrong else 0


def _run(plan: Plan) -> Outcome:
    """Do a run, and print what it came to."""
    print(f"{','.join(plan.nemeses) or 'none'}: seed {plan.seed}", flush=True)
    try:
        outcome = run(plan, KEEP.resolve(), lambda line: print(line, flush=True))
    except CannotRun as missing:
        raise SystemExit(f"no broker: {missing}") from missing
    for line in [*outcome.remarks, *(anomaly.line() for anomaly in outcome.anomalies), outcome.line()]:
        print(f"  {line}", flush=True)
    print(f"  {outcome.history}", flush=True)
    return outcome


def judge(file: Path) -> int:
    """Judge a history that was recorded before."""
    found = check(load(file))
    for anomaly in found:
        print(anomaly.line(most=20))
    print(f"{len(found)} anomalies")
    return 1 if found else 0


def defects(names: Sequence[str]) -> int:
    """Run each defect, or these, under its nemesis; return 1 unless all were found."""
    missed = []
    for name in names or LIVE:
        found: Counter[str] = Counter()
        for seed in range(1, TRIES + 1):
            found.update(anomaly.name for anomaly in _run(plan_of(name, seed)).anomalies)
            if shown := {*found} & {*LIVE[name].shows}:
                print(f"{name}: found by {', '.join(sorted(shown))}", flush=True)
                break
        else:
            missed.append(name)
    print(f"not found: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
