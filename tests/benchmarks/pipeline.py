"""From topic to model, end to end, side by side: `python -m tests.benchmarks.pipeline`; see `contenders`.

Figures are of this machine and this minute. CPU time a point (all threads of the consuming process, the broker's not
among them; "its loop": the thread that polls) is steadier than points a second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from consumers.host.runtime import configure_logging
from consumers.settings import LogConfig
from tests.benchmarks.broker import broker_process
from tests.benchmarks.contenders import CONTENDERS, make_stream, whole
from tests.benchmarks.timing import ROUNDS_AT_LEAST, Interval, Outcome, alternate

PACKAGES: Final = ("confluent-kafka", "msgspec", "numba", "numpy", "scikit-learn")
TABLE_COLUMNS: Final = 104
Row = dict[str, Any]


def measure(points: int, dimensions: Sequence[int], runs: int) -> list[Row]:
    """Run every contender on a stream of each dimension.

    Parameters
    ----------
    points : int
        Points of a stream, rounded down to whole leaves.
    dimensions : sequence of int
    runs : int
        Measured rounds; one more, unmeasured, comes first.

    Raises
    ------
    AssertionError
        If a contender did not see every point.
    """
    n = whole(points)
    rows: list[Row] = []
    with broker_process() as connection, threadpool_limits(1):
        for dimension in dimensions:
            stream = make_stream(connection, n, dimension)
            outcomes = alternate([partial(contender, stream) for contender in CONTENDERS], runs)
            rows.extend(summarise(outcomes, n, dimension))
    return rows


def summarise(outcomes: Sequence[Outcome], n: int, dimension: int) -> list[Row]:
    """Return one row for each case and contender, in the order in which they first came."""
    by_contender: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        assert outcome.seen == n, f"{outcome.contender} saw {outcome.seen} of {n} points"
        by_contender.setdefault((outcome.case, outcome.contender), []).append(outcome)
    speeds = {key: Interval.of([n / run.lap.wall_s for run in runs]) for key, runs in by_contender.items()}
    return [
        {
            "case": case,
            "n": n,
            "d": dimension,
            "contender": contender,
            "points_per_s_median": round(speeds[case, contender].median),
            "min": round(speeds[case, contender].least),
            "max": round(speeds[case, contender].greatest),
            "ratio_to_sgd_loop": round(speeds[case, contender].median / speeds[case, "sgd_loop"].median, 3),
            "wall_s_median": round(statistics.median(run.lap.wall_s for run in runs), 4),
            "cpu_s_median": round(statistics.median(run.lap.cpu_s for run in runs), 4),
            "loop_cpu_s_median": round(statistics.median(run.lap.loop_s for run in runs), 4),
            "versions": [run.versions for run in runs if run.versions is not None],
        }
        for (case, contender), runs in sorted(by_contender.items(), key=lambda item: item[0][0])
    ]


def table_of(rows: Sequence[Row], runs: int, load: float) -> Table:
    """Return the rows as people read them."""
    table = Table(
        title=f"From topic to model: median of {runs} runs (least-greatest), {rows[0]['n']:,} points",
        caption=f"CPU time is that of the consuming process; loop: of its polling thread alone. The load average was "
        f"{load:.1f} on {os.cpu_count()} CPUs before the start: other work widens the intervals.",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    for heading in ("case", "d", "contender"):
        table.add_column(heading, no_wrap=True)
    for heading in ("thousand points/s", "to SGD\nloop", "CPU us\n/point", "loop us\n/point", "versions"):
        table.add_column(heading, justify="right", no_wrap=True)
    previous = None
    for row in rows:
        if previous not in (None, (row["case"], row["d"])):
            table.add_section()
        previous = (row["case"], row["d"])
        speeds = [row[key] / 1000 for key in ("points_per_s_median", "min", "max")]
        versions = sorted(set(row["versions"]))
        table.add_row(
            row["case"],
            str(row["d"]),
            row["contender"],
            f"{speeds[0]:,.0f} ({speeds[1]:,.0f}-{speeds[2]:,.0f})",
            f"{row['ratio_to_sgd_loop']:.2f}",
            *(f"{row[key] / row['n'] * 1e6:.2f}" for key in ("cpu_s_median", "loop_cpu_s_median")),
            f"{versions[0]}-{versions[-1]}" if len(versions) > 1 else "".join(map(str, versions)),
        )
    return table


def environment() -> Row:
    """Return what the figures depend on besides the code."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "packages": {package: version(package) for package in PACKAGES},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, show the table, and write JSON where asked: `-` is standard output, the table then goes to the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pipeline", description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=120_000, help="points of a stream (default %(default)s)")
    parser.add_argument("--dimension", default="8,24", help="features a point, several with commas (%(default)s)")
    parser.add_argument("--runs", type=int, default=ROUNDS_AT_LEAST, help="measured rounds (%(default)s)")
    parser.add_argument("--json", default="", metavar="FILE", help="also write JSON; - is standard output")
    options = parser.parse_args(arguments)
    dimensions = [int(part) for part in options.dimension.split(",")]
    configure_logging(LogConfig(level="error"))
    surroundings = environment()
    rows = measure(options.points, dimensions, options.runs)
    to: TextIO = sys.stderr if options.json == "-" else sys.stdout
    load = surroundings["load_average_1_min"]
    Console(file=to, width=TABLE_COLUMNS).print(table_of(rows, options.runs, load))
    report = {"benchmark": "pipeline", "runs": options.runs, "environment": surroundings, "rows": rows}
    if options.json == "-":
        print(json.dumps(report, indent=2))
    elif options.json:
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
