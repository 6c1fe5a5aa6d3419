"""Histories of a live system under a nemesis, and what is wrong with them: `python -m tests.live`."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.brokers.jvm import CannotRun
from tests.live import results
from tests.live.checker import check
from tests.live.history import load
from tests.live.nemesis import NEMESES
from tests.live.running import run
from tests.live.world import Plan

KEEP = Path("build/live")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, or judge a history again; return 1 if an anomaly was found."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["check"]:
        return judge(Path(given[1]))
    if given[:1] == ["defects"]:
        from tests.live.proving import main as proving

        return proving(given[1:])
    return live(parser().parse_args(given))


def parser() -> argparse.ArgumentParser:
    """Return the options of a live run."""
    made = argparse.ArgumentParser(
        prog="python -m tests.live",
        description=__doc__,
        epilog="Also: check FILE (judge a history again), defects (planted ones).",
    )
    made.add_argument("--nemesis", default="kill-trainer,kill-scorer", help=f"of {', '.join(NEMESES)}; none; all")
    made.add_argument("--transactions", type=int, default=500, help="versions, batches and moves (%(default)s)")
    made.add_argument("--seed", type=int, default=None, help="default: another one each time, said")
    made.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="(%(default)s)")
    settings = made.add_mutually_exclusive_group()
    settings.add_argument("--defaults", action="store_true", help="Kafka's own settings")
    settings.add_argument("--frequent", action="store_true", help="those that make lost markers frequent (default)")
    made.add_argument("--bound", type=float, default=90.0, help="seconds of patience (%(default)s)")
    made.add_argument("--rate", type=float, default=20.0, help="rows a second for each model (%(default)s)")
    made.add_argument("--most", type=float, default=3600.0, help="seconds that a run may take (%(default)s)")
    made.add_argument("--no-node", action="store_true", help="without the reader in Node.js")
    made.add_argument("--models", default="a,b,c,d,e", help="which models there are (%(default)s)")
    made.add_argument("--scorers", type=int, default=2, help="(%(default)s)")
    made.add_argument("--operators", type=int, default=2, help="(%(default)s)")
    made.add_argument("--faults", type=int, default=3, help="least number of faults in a run (%(default)s)")
    made.add_argument("--each", action="store_true", help="a run for each nemesis named, instead of one for all")
    made.add_argument("--keep", type=Path, default=KEEP, help="directory for histories and logs (%(default)s)")
    made.add_argument("--json", type=Path, default=None, metavar="FILE", help="add the counts to those in FILE")
    return made


def live(options: argparse.Namespace) -> int:
    """Do the runs that were asked for, and print a line for each kind of run so far."""
    named = [] if options.nemesis == "none" else options.nemesis.split(",")
    named = list(NEMESES) if options.nemesis == "all" else named
    unknown = sorted(set(named) - set(NEMESES))
    if unknown:
        raise SystemExit(f"Unknown nemesis {', '.join(unknown)}. Known: {', '.join(NEMESES)}")
    runs: list[dict[str, object]] = []
    found = 0
    for nemeses in [(name,) for name in named] if options.each else [tuple(named)]:
        seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
        plan = Plan(
            nemeses=nemeses,
            transactions=options.transactions,
            seed=seed,
            brokers=options.brokers,
            defaults=options.defaults,
            rate=options.rate,
            bound_s=options.bound,
            most_s=options.most,
            node=not options.no_node,
            models=tuple(options.models.split(",")),
            scorers=options.scorers,
            operators=options.operators,
            faults=options.faults,
        )
        print(f"{','.join(nemeses) or 'none'}: seed {seed}", flush=True)
        try:
            outcome = run(plan, options.keep.resolve(), lambda line: print(line, flush=True))
        except CannotRun as missing:
            raise SystemExit(f"no broker: {missing}") from missing
        for line in [*outcome.remarks, *(anomaly.line() for anomaly in outcome.anomalies)]:
            print(f"  {line}", flush=True)
        print(f"  {outcome.history}", flush=True)
        found += len(outcome.anomalies)
        runs = results.add(options.json, outcome) if options.json else [*runs, results.told(outcome)]
    print("\n".join(results.lines(runs)), flush=True)
    return 1 if found else 0


def judge(file: Path) -> int:
    """Judge a history that was recorded before."""
    found = check(load(file))
    for anomaly in found:
        print(anomaly.line(most=20))
    print(f"{len(found)} anomalies")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
