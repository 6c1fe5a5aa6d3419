"""`make budget`: what may not grow unnoticed, by counts and not by seconds.

Counted are the lines of the trunk, the modules that a reader, a linear trainer and `--help` load, the options that
are shown, the metrics and threads of a plain trainer, and what a seal and a poll take (`tests.counted_work`). A limit
is what was measured when it was set, or a little above; that of passes over rows is what was measured, since one pass
more may be one over every row. A commit that needs more raises the limit and says why; one that takes something away
lowers it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.structure.report import learning_lines
from tests.structure.tree import Tree

HERE: Final = Path(__file__).parent.parent
OWN: Final = ("streamsvm", "consumers")
HEAVY: Final = ("sklearn", "scipy.stats", "pandas")
"""What neither a reader nor a linear trainer loads: 130 MB and a second or more."""
TIMEOUT_S: Final = 300.0

LIMITS: Final[Mapping[str, int]] = {
    "lines outside branches, papers and drop-ins": 75_490,  # joined passes, late times, sparse rows: for time
    "lines of the trunk of learning and publishing": 56_075,  # the same
    "modules that a reader loads": 75,  # grids of support vectors, and their part
    "modules that `streamsvm --help` loads": 36,  # two a branch, and those with its commands
    "modules that a linear trainer loads": 429,  # common values; grids of support vectors; codecs of branches
    "modules that a linear trainer loads, others' included": 1_562,
    "options that `streamsvm train --help` shows": 13,
    "commands that `streamsvm --help` and its groups show": 20,
    "metrics of a plain trainer": 59,  # one more: erased rows, which any model may have
    "threads of a plain trainer": 5,
    "calls of a seal, 1 partition": 855,
    "calls of a seal, 16 partitions": 680,
    "calls of a batch without a seal, 1 partition": 116,  # rows copied by `take`, which costs half as much
    "calls of a batch without a seal, 16 partitions": 95,
    "passes over rows of a seal, 1 partition": 101,
    "passes over rows of a seal, 16 partitions": 76,
    "passes over rows of a batch without a seal, 1 partition": 12,  # a look at the times of the ends, instead of all
    "passes over rows of a batch without a seal, 16 partitions": 11,  # the same
    "calls of a poll, 1 partition": 315,  # columns by the ends of runs
    "calls of a poll, 16 partitions": 1_095,  # columns by the ends of runs: more calls, a third less time
    "passes over rows of a poll, 1 partition": 28,
    "passes over rows of a poll, 16 partitions": 37,
    "kilobytes of a poll, 1 partition": 1_600,
    "kilobytes of a poll, 16 partitions": 1_825,  # the same
}
"""The most that each count may be."""

READER: Final = "import json, sys, streamsvm; streamsvm.ModelSubscriber; print(json.dumps(sorted(sys.modules)))"
HELP: Final = (
    "import json, sys\nfrom consumers.cli.app import app\n"
    "try: app(['--help'])\nfinally: print(json.dumps(sorted(sys.modules)))"
)
OPTIONS: Final = (
    "import contextlib, io, json, os, re\nos.environ['COLUMNS'] = '200'\nfrom consumers.cli.app import app\n"
    "with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):\n"
    "    app(['train', '--help'])\n"
    "print(json.dumps(sorted(set(re.findall(r'^│ +(?:[*] +)?(--[a-z-]+)', shown.getvalue(), re.M)))))"
)
COMMANDS: Final = (
    "import json\nfrom typer.main import get_command\nfrom consumers.cli.app import app\n"
    "def shown(command, *words):\n"
    "    below = getattr(command, 'commands', None)\n"
    "    if getattr(command, 'rare', False): return []\n"
    "    return [one for name in below for one in shown(below[name], *words, name)] if below else [' '.join(words)]\n"
    "print(json.dumps(sorted(shown(get_command(app)))))"
)
TRAINER: Final = ("-m", "tests.plain_trainer")
WORK: Final = ("-m", "tests.counted_work")


@dataclass(frozen=True)
class Counted:
    """One count.

    Attributes
    ----------
    name : str
        A key of `LIMITS`.
    count : int
    held : collection of str
        What was counted, if it has names; of calls and passes those that are most frequent.
    """

    name: str
    count: int
    held: Collection[str] = ()


def lines(tree: Path) -> list[Counted]:
    """Count the lines of the trunk of a checkout."""
    product = Tree(tree)
    return [
        Counted("lines outside branches, papers and drop-ins", product.trunk_lines),
        Counted("lines of the trunk of learning and publishing", sum(learning_lines(product).values())),
    ]


def reader(tree: Path) -> tuple[list[Counted], list[str]]:
    """Count what a reader loads, and say which of `HEAVY` it loads."""
    loaded = _run(tree, "-c", READER)
    return [Counted("modules that a reader loads", len(_own(loaded)), _own(loaded))], _heavy("a reader", loaded)


def asked_for_help(tree: Path) -> list[Counted]:
    """Count what `--help` loads, and the options and commands that help texts show."""
    loaded, options, commands = _own(_run(tree, "-c", HELP)), _run(tree, "-c", OPTIONS), _run(tree, "-c", COMMANDS)
    return [
        Counted("modules that `streamsvm --help` loads", len(loaded), loaded),
        Counted("options that `streamsvm train --help` shows", len(options), options),
        Counted("commands that `streamsvm --help` and its groups show", len(commands), commands),
    ]


def plain_trainer(tree: Path) -> tuple[list[Counted], list[str]]:
    """Run a trainer with defaults up to its first version, and count what it loads, its metrics and its threads."""
    found = _read(tree, *TRAINER)
    assert isinstance(found, dict)
    loaded, metrics, threads = (found[name] for name in ("modules", "metrics", "threads"))
    counted = [
        Counted("modules that a linear trainer loads", len(_own(loaded)), _own(loaded)),
        Counted("modules that a linear trainer loads, others' included", len(loaded)),
        Counted("metrics of a plain trainer", len(metrics), metrics),
        Counted("threads of a plain trainer", len(threads), threads),
    ]
    return counted, _heavy("a linear trainer", loaded)


def work(tree: Path) -> list[Counted]:
    """Count what a seal and a poll take."""
    found = _read(tree, *WORK)
    assert isinstance(found, dict)
    return [Counted(name, count, most) for name, (count, most) in found.items()]


def too_much(counted: Sequence[Counted], limits: Mapping[str, int] = LIMITS) -> list[str]:
    """Return a line for each count beyond its limit."""
    return [
        f"{one.name}: {one.count:,}, {one.count - limits[one.name]:,} more than the limit of {limits[one.name]:,}"
        for one in counted
        if one.count > limits[one.name]
    ]


def _heavy(who: str, loaded: Collection[str]) -> list[str]:
    return [f"{who} loads {name}: import it where it is used" for name in HEAVY if name in loaded]


def _own(loaded: Sequence[str]) -> list[str]:
    return [name for name in loaded if name.split(".")[0] in OWN]


def _run(tree: Path, *arguments: str) -> list[str]:
    found = _read(tree, *arguments)
    assert isinstance(found, list)
    return found


def _read(tree: Path, *arguments: str) -> object:
    """Run this Python in a tree, and return the JSON of the last line that it prints."""
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(f"{' '.join(arguments)[:80]} ended with status {ran.returncode}: {ran.stderr[-2_000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


def main() -> int:
    """Count, and return 1 if anything is beyond its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("--tree", type=Path, default=HERE, metavar="DIR", help="checkout to count; default: this one")
    parser.add_argument("--names", action="store_true", help="also print what was counted")
    parser.add_argument("--without-trainer", action="store_true", help="start none, and count no seals and polls")
    asked = parser.parse_args()
    checks: list[Callable[[Path], tuple[list[Counted], list[str]]]] = [
        lambda tree: (lines(tree), []),
        reader,
        lambda tree: (asked_for_help(tree), []),
        *([] if asked.without_trainer else [plain_trainer, lambda tree: (work(tree), [])]),
    ]
    failures: list[str] = []
    for check in checks:
        counted, wrong = check(asked.tree)
        for one in counted:
            print(f"{one.name}: {one.count:,} of {LIMITS[one.name]:,}")
            if asked.names:
                print(*(f"  {name}" for name in one.held), sep="\n")
        failures += too_much(counted) + wrong
    print(*(f"OVER BUDGET: {line}" for line in failures), sep="\n", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
