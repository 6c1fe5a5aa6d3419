"""What every benchmark shares: its options, stopwatches, turns, data sets, a file of results, and child processes.

A program takes `--data DIR` (NAME.npz files with `X` and `y`, -1 or +1), `--sets NAMES`, `--rounds N` and `--json FILE`
where they make sense. Contenders take turns: where a round begins moves on with the rounds. A figure is the median over
the rounds with its least and greatest: on a busy machine the interval says more. What FILE holds is not measured again,
so that a command that was killed goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from streamsvm.datasets import load_htru2
from streamsvm.points import Points

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 5
"""Fewer rounds give no interval worth reporting."""
ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

T = TypeVar("T")


def words(text: str) -> list[str]:
    """Return what stands between commas."""
    return [word for word in text.split(",") if word]


def numbers(text: str) -> list[int]:
    """Return the whole numbers between commas."""
    return [int(word) for word in words(text)]


def parser_of(name: str, doc: str | None, *, data: bool | None = None, rounds: int = ROUNDS) -> argparse.ArgumentParser:
    """Return a parser with the options that programs share.

    `data`: Whether data sets are required; None for a program that reads none.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.benchmarks.{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if data is not None:
        parser.add_argument("--data", type=Path, metavar="DIR", required=data, help="has NAME.npz files with X and y")
        parser.add_argument("--sets", type=words, default=[], metavar="NAMES", help="some sets, with commas")
    parser.add_argument("--rounds", type=int, default=rounds, help="times that everything is measured (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results are kept")
    return parser


def known(parser: argparse.ArgumentParser, option: str, given: Sequence[str], names: Sequence[str]) -> None:
    """Refuse names that do not exist: a name that is misspelled is not an empty table."""
    if unknown := sorted(set(given) - set(names)):
        parser.error(f"{option} {','.join(unknown)}: unknown; there are {', '.join(names)}")


def sets_in(data: Path, named: Sequence[str]) -> list[str]:
    """Return the sets that were named, or all of a folder."""
    return list(named) or sorted(file.stem for file in data.glob("*.npz"))


def load(name: str, data: Path | None) -> Points:
    """Return a set, of weight 1 a row; `htru2` is at hand without a folder."""
    if name == "htru2" and data is None:
        X, y, _ = load_htru2()
    else:
        assert data is not None, f"{name} needs --data"
        with np.load(data / f"{name}.npz") as held:
            X, y = held["X"], held["y"]
    return Points(X.astype(np.float32), y.astype(np.int8), np.ones(len(y)))


@dataclass(frozen=True, slots=True)
class Lap:
    """Seconds since a stopwatch began: of the wall, of all threads' processors, and of the calling thread's alone."""

    wall_s: float
    cpu_s: float
    loop_s: float


class Stopwatch:
    """Measures from its construction; belongs to the thread that made it."""

    def __init__(self) -> None:
        self._loop, self._cpu, self._wall = time.thread_time(), time.process_time(), time.perf_counter()

    def lap(self) -> Lap:
        """Return the time so far."""
        return Lap(time.perf_counter() - self._wall, time.process_time() - self._cpu, time.thread_time() - self._loop)


@dataclass(frozen=True, slots=True)
class Interval:
    """Median, least and greatest of one figure over the rounds."""

    median: float
    least: float
    greatest: float

    @staticmethod
    def of(figures: Sequence[float]) -> Interval:
        """Summarise at least one figure."""
        return Interval(statistics.median(figures), min(figures), max(figures))


def turns(names: Sequence[str], turn: int) -> list[str]:
    """Return the order of a round."""
    first = turn % len(names)
    return [*names[first:], *names[:first]]


def in_turns(contenders: Mapping[str, Callable[[int], T]], rounds: int) -> dict[str, list[T]]:
    """Return what each contender returned in each round."""
    found: dict[str, list[T]] = {name: [] for name in contenders}
    for turn in range(rounds):
        for name in turns(list(contenders), turn):
            found[name].append(contenders[name](turn))
    return found


class Kept:
    """Results by what they are of, in a file if there is one; written as a whole or not at all."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.cells: dict[str, Any] = json.loads(file.read_text()) if file is not None and file.exists() else {}

    def get(self, key: str, measure: Callable[[], Any]) -> Any:
        """Return a result, measured if it is not held."""
        if key not in self.cells:
            self.cells[key] = measure()
            self._write()
        return self.cells[key]

    def _write(self) -> None:
        if self._file is not None:
            aside = self._file.with_name(f"{self._file.name}.new")
            aside.write_text(json.dumps(self.cells, indent=1) + "\n")
            aside.replace(self._file)


def aligned(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table: each column is as wide as its widest cell, and the first one begins at the left."""
    cells = [list(heading), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *others in cells:
        yield "  ".join((first.ljust(widths[0]), *map(str.rjust, others, widths[1:])))


def shown(value: float | None, form: str) -> str:
    """Return a figure for people; a dash for one that is not there."""
    if value is None:
        return "-"
    return format(value, form)


def written(file: Path | None, rows: object) -> None:
    """Write rows to a file, with the load of the machine that measured them."""
    if file is not None:
        file.write_text(json.dumps({"load_average": os.getloadavg()[0], "rows": rows}, indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class Child:
    """A process that answers lines with lines of JSON."""

    process: subprocess.Popen[str]

    @staticmethod
    def start(stack: ExitStack, command: Sequence[str], cores: int | str, cwd: Path = ROOT) -> Child:
        """Start one, with a thread for each library, on some processors; the stack ends it."""
        pipe, environment = subprocess.PIPE, {**os.environ, **ONE_THREAD}
        pinned = ["taskset", "-c", str(cores), *command]
        process = stack.enter_context(
            subprocess.Popen(pinned, cwd=cwd, env=environment, stdin=pipe, stdout=pipe, text=True)
        )
        stack.callback(process.kill)
        return Child(process)

    def ask(self, *asked: object, between: str = " ") -> dict[str, Any]:
        """Return the answer to a line of words.

        Raises `ModuleNotFoundError` if the process lacks a library for it.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(between.join(map(str, asked)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{asked}: the process ended with {self.process.wait()}")
        found: dict[str, Any] = json.loads(answer)
        if "missing" in found:
            raise ModuleNotFoundError(found["missing"])
        return found


def all_cores() -> str:
    """Return the processors of this process, as `taskset` names them."""
    return ",".join(map(str, sorted(os.sched_getaffinity(0))))


def make_environment(folder: Path, packages: Path, *options: str) -> None:
    """Make an environment of pinned packages, in which other people's programs run."""
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options]
    subprocess.run([str(python), *install, "--requirement", str(packages)], check=True)
    print(f"--peers {python}")
