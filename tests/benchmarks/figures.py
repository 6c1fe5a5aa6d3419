"""Which published figures are older than the code that they are of: `make figures`.

Pages take their figures from the files in `tests/benchmarks/results`. For each file that a page links to this says
which command makes it, when it was last written, and how many commits have changed its sources since: with any, it is
stale. `--run NAME --data DIR` runs the command of one; a person compares what it prints, and puts it into the file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = "tests/benchmarks/results"
LINK: Final = re.compile(r"results/(\w+)\.(?:txt|md)")
CORESET: Final = ("streamsvm/coreset", "streamsvm/learning", "streamsvm/config")
SOLVER: Final = ("streamsvm/svm",)
DROP_IN: Final = ("streamsvm/drop_in", *SOLVER)
ESTIMATORS: Final = ("streamsvm/estimators", *CORESET, *SOLVER)
SOURCES: Final[Mapping[str, Sequence[str]]] = {
    "agreement": SOLVER,
    "audit": CORESET,
    "backfill": ("consumers/branches/workers", *CORESET),
    "calibration": ("streamsvm/model", *CORESET),
    "certificate": ("streamsvm/certificate", *CORESET),
    "classes": (*CORESET, *SOLVER),
    "coreset": CORESET,
    "coreset_rbf": ("streamsvm/branches/landmarks", *CORESET),
    "deletion": ("streamsvm/branches/history", *CORESET),
    "drop_in": DROP_IN,
    "event_formats": ("streamsvm/branches/events", "streamsvm/ingest"),
    "events": ("streamsvm/branches/events",),
    "forgetting": ("streamsvm/branches/memories", *CORESET),
    "ingest": ("streamsvm/ingest", "streamsvm/kafka", "consumers/trainer", *CORESET),
    "kernels": ("streamsvm/branches/landmarks", *CORESET, *SOLVER),
    "large_linear": DROP_IN,
    "linear": DROP_IN,
    "paper_a": ("streamsvm/papers",),
    "paper_b": ("streamsvm/papers",),
    "peers": ESTIMATORS,
    "promotion": ("streamsvm/branches/challenges",),
    "reduce_rate": CORESET,
    "scale": ("streamsvm/branches/workers", "consumers/branches/workers"),
    "search_share": ("streamsvm/branches/landmarks",),
    "solver": SOLVER,
    "solver_linear": SOLVER,
    "tails": CORESET,
    "thresholds": ("streamsvm/model", *CORESET),
    "tuning": ESTIMATORS,
    "worth": ESTIMATORS,
}
"""Of each file of figures the folders whose changes make it stale."""
COMMANDS: Final[Mapping[str, str]] = {
    "coreset_rbf": "tests.benchmarks.coreset --kernel rbf",
    "solver_linear": "tests.benchmarks.solver --kernel linear",
}
"""Where the module has another name than the file."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A file of figures: the pages that link to it, the day it was written, and the commits to its sources since."""

    name: str
    pages: tuple[str, ...]
    written: str
    commits: int

    @property
    def command(self) -> str:
        """The command that makes it, without the data."""
        return f"python -m {COMMANDS.get(self.name, f'tests.benchmarks.{self.name}')}"


def git(root: Path, *arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def linked(root: Path) -> dict[str, set[str]]:
    """Return the pages that link to each file of figures."""
    found: dict[str, set[str]] = {}
    for page in git(root, "ls-files", "*.md").splitlines():
        if not page.startswith("tests/"):
            for name in LINK.findall((root / page).read_text("utf-8")):
                found.setdefault(name, set()).add(page)
    return found


def figures(root: Path, sources: Mapping[str, Sequence[str]] = SOURCES) -> Iterator[Figures]:
    """Yield every file of figures that a page links to, by name."""
    for name, pages in sorted(linked(root).items()):
        commit, _, written = git(root, "log", "-1", "--format=%H %cs", "--", f"{RESULTS}/{name}.*").partition(" ")
        since = git(root, "rev-list", "--count", "--no-merges", f"{commit}..HEAD", "--", *sources[name])
        yield Figures(name, tuple(sorted(pages)), written, int(since))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the list, or run one command; 0 if nothing is stale, 1 if something is."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.figures", description=__doc__.splitlines()[0])
    parser.add_argument("--run", metavar="NAME", choices=sorted(SOURCES), help="run the command of one file")
    parser.add_argument("--data", help="the folder of data that it is given")
    options = parser.parse_args(arguments)
    if options.run:
        command = Figures(options.run, (), "", 0).command.split()[1:]
        return subprocess.run(
            [sys.executable, *command, *(["--data", options.data] if options.data else [])]
        ).returncode
    stale = 0
    for one in figures(ROOT):
        stale += one.commits > 0
        state = f"STALE, {one.commits} commits to its sources since" if one.commits else "as the code is"
        print(f"{one.name}: {one.written}, {state}; {one.command}; {', '.join(one.pages)}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
