"""Shows that the checker finds planted defects in a live system: `python -m tests.live defects`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.live import results
from tests.live.defects import AFTER_SETTLING, DEFECTS, Defect
from tests.live.running import Outcome, run
from tests.live.world import Plan

KEEP = Path("build/live")
RATE = 100.0
"""Rows a second: more than a trainer takes, so that one is always in the midst of a transaction."""


def plan_of(name: str, defect: Defect, options: argparse.Namespace) -> Plan:
    """Return the run that must bring a defect to light."""
    return Plan(
        nemeses=defect.nemeses,
        transactions=defect.transactions,
        seed=options.seed,
        bound_s=options.bound,
        most_s=options.most,
        defect=name,
        planted_in=defect.part,
        node=False,
        faults=defect.faults,
        rate=RATE,
        models=defect.models,
        scorers=2 if defect.part == "score" else 0,
        operators=0,
    )


def line(name: str, defect: Defect, outcome: Outcome) -> tuple[bool, str]:
    """Tell whether a defect was found, and say so for people."""
    names = {anomaly.name for anomaly in outcome.anomalies}
    found = bool(names & set(defect.shows))
    verdict = (
        f"found by {', '.join(sorted(names))}" if found else f"NOT FOUND ({', '.join(sorted(names)) or 'nothing'})"
    )
    struck = sum(outcome.faults.values())
    return (
        found,
        f"{name} under {','.join(defect.nemeses)}: {verdict}; {outcome.transactions} transactions, {struck} faults",
    )


def main(arguments: Sequence[str]) -> int:
    """Run each defect under its nemesis; return 1 unless all were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.live defects", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help=f"of {', '.join(DEFECTS)}")
    parser.add_argument("--tries", type=int, default=2, help="runs until a defect is found (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--bound", type=float, default=60.0, help="seconds of patience (%(default)s)")
    parser.add_argument("--most", type=float, default=240.0, help="seconds that a run may take (%(default)s)")
    parser.add_argument("--keep", type=Path, default=KEEP, help="directory for histories and logs (%(default)s)")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="add the runs to those in FILE")
    options = parser.parse_args(arguments)
    chosen = options.only.split(",") if options.only else list(DEFECTS)
    missed = [name for name in chosen if not _shown(name, options)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} found; not found: {', '.join(missed) or 'none'}")
    for name in AFTER_SETTLING:
        print(f"still to be planted: {name}")
    return 1 if missed else 0


def _shown(name: str, options: argparse.Namespace) -> bool:
    for attempt in range(options.tries):
        plan = plan_of(name, DEFECTS[name], options)
        outcome = run(Plan(**{**plan.__dict__, "seed": plan.seed + attempt}), options.keep.resolve())
        if options.json:
            results.add(options.json, outcome)
        found, said = line(name, DEFECTS[name], outcome)
        print(said, flush=True)
        for anomaly in outcome.anomalies:
            print(f"  {anomaly.line(most=3)}", flush=True)
        if found:
            return True
    return False
