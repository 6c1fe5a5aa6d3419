"""The STDA solver beside others on the same problem, at the same tolerance, one thread, compilation excluded.

    python -m tests.benchmarks.solver --data DIR [--sets a9a,...] [--kernel rbf|linear] [--C 1,10,20] [--rows N]
        [--weighted] [--peers svc,svc-sparse,onedal,liblinear,liblinear-1e-4,stda-paper] [--trials 5]
        [--svc-iterations N] [--json] [--into FILE]

Every `NAME.npz` in DIR with X (n, d) and y (+-1) is a set. `--rows` draws so many of its rows once. A set with any
value beyond `SCALED` counts as raw and is standardised. gamma = 1 / d. `--weighted` draws weights log-uniformly over
three orders of magnitude, of mean 1; C times a weight is a point's box.

Peers: `svc` is scikit-learn's SVC (LIBSVM) on a dense array, `svc-sparse` the same on a CSR matrix, both with a
cache of 2000 MB; `onedal` is scikit-learn-intelex; `liblinear` is LinearSVC, whose problem is another one (it
regularises the bias), so that its objective is the primal one of *our* problem with the best bias for its w;
`liblinear-1e-3` and its like are LinearSVC with the scaling of the bias and the least number of passes, among powers of
two, that bring that objective to within so much of ours, relatively: what a tolerance that knew the optimum would cost;
`stda-paper` is the method to its paper's letter. `--svc-iterations` ends SVC earlier than usual: where it has not
converged by then, the ratio is a lower bound of what it would be. A peer that is not installed, does not know the
kernel or never comes so near is named under `absent`.

A figure is a median over alternating rounds with its least and greatest; a case in which any contender needs more than
`LONG_S` gets `LONG_ROUNDS` rounds. With `--into` every case is written to FILE as soon as it is measured, and as a line
of text beside it; a case that FILE has already is not measured again: a stopped run goes on, and further commands add
to it.

`ratio` is of CPU seconds, peer's over ours: a busy machine counts less; `ratio_wall` is of wall seconds. `objective` is
f, minus the dual objective, of which less is better (for `liblinear` the primal one), `gap` the KKT gap; all in float64
from scratch. `limit` is the time of the kernel values that no method can do without, support vectors times points: 2 d
operations each at this core's measured rate of a large float32 matrix product, and a power of two each at the measured
rate, in seconds; `share_of_limit` is their sum's share of our time, which a sparse set may raise above 1, for zeros are
skipped. `profile` is one more run's seconds a phase (of `streamsvm.svm.block.descent`).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from streamsvm.model.kernels import Float, LinearKernel, RbfKernel
from streamsvm.papers.stda import PaperStdaSolver
from streamsvm.svm.block.descent import warm_up as prepare
from streamsvm.svm.objective import optimality, primal_objective
from streamsvm.svm.problem import Problem, Solution
from streamsvm.svm.solvers import StdaSolver
from tests.benchmarks.timing import ROUNDS_AT_LEAST, Interval, Lap, Stopwatch
from tests.papers.foreign import LiblinearSolver
from tests.svm.powers import powers_of_two

SCALED: Final = 10.0
TOLERANCE: Final = 1e-3
CACHE_MB: Final = 2000
MOST_ITERATIONS: Final = 10_000_000
DRAW_SEED: Final = 7
WEIGHT_SEED: Final = 5
DECADES: Final = 3.0
LONG_S: Final = 20.0
LONG_ROUNDS: Final = 2
REACHING: Final = "liblinear-"
PEERS: Final = (
    "svc",
    "svc-sparse",
    "onedal",
    "liblinear",
    "liblinear-1e-2",
    "liblinear-1e-3",
    "liblinear-1e-4",
    "stda-paper",
)
SCALINGS: Final = (1.0, 10.0, 100.0)
MOST_PASSES: Final = 2**14


@dataclass(frozen=True, slots=True)
class Found:
    """What a contender returned: a decision function without its bias, by duals or by coefficients."""

    alpha: Float | None
    intercept: float
    iterations: int
    converged: bool
    coefficients: Float | None = None


Contender = Callable[[Problem], Found]


def ours(problem: Problem) -> Solution:
    """Solve by blocks."""
    return StdaSolver().solve(problem)


def _svc(machine: Any, problem: Problem, Z: Any) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(Z, problem.y, sample_weight=problem.upper)
    alpha = np.zeros(len(problem.y))
    dual = machine.dual_coef_
    alpha[machine.support_] = np.abs(dual.toarray()[0] if hasattr(dual, "toarray") else dual[0])
    done = getattr(machine, "fit_status_", 0) == 0
    return Found(
        np.minimum(alpha, problem.upper),
        float(np.ravel(machine.intercept_)[0]),
        int(np.max(getattr(machine, "n_iter_", 0))),
        done,
    )


SVC_ITERATIONS: list[int] = [MOST_ITERATIONS]
"""Its bound, by `--svc-iterations`."""


def _options(problem: Problem) -> dict[str, Any]:
    kernel = problem.kernel
    return {
        "C": 1.0,
        "kernel": "rbf" if isinstance(kernel, RbfKernel) else "linear",
        "gamma": kernel.gamma if isinstance(kernel, RbfKernel) else "auto",
        "tol": problem.tolerance,
        "cache_size": CACHE_MB,
        "max_iter": min(problem.max_iterations, SVC_ITERATIONS[-1]),
    }


def _repeated(solve: Callable[[Problem], Solution]) -> Contender:
    def run(problem: Problem) -> Found:
        found = solve(problem)
        return Found(found.alpha, found.intercept, found.iterations, found.converged, found.coefficients)

    return run


def reaching(problem: Problem, relative: float) -> Contender | None:
    """Return the cheapest LinearSVC whose primal objective of our problem is near ours; None if none gets there."""
    ours_at = primal_of(problem, StdaSolver().solve(problem))
    passes = 1
    while passes <= MOST_PASSES:
        for scaling in SCALINGS:
            limited = replace(problem, tolerance=1e-12, max_iterations=passes * len(problem.y))
            machine = LiblinearSolver(intercept_scaling=scaling)
            if primal_of(problem, machine.solve(limited)) <= (1.0 + relative) * ours_at:
                return lambda _: _repeated(machine.solve)(limited)
        passes *= 2
    return None


def contenders(names: list[str], problem: Problem) -> tuple[dict[str, Contender], dict[str, str]]:
    """Return the peers that can run this problem, and why the others cannot."""
    made: dict[str, Contender] = {}
    absent: dict[str, str] = {}
    for name in names:
        if name == "svc":
            made[name] = lambda p: _svc(SVC(**_options(p)), p, p.Z)
        elif name == "svc-sparse":
            sparse = csr_matrix(problem.Z)
            made[name] = lambda p, sparse=sparse: _svc(SVC(**_options(p)), p, sparse)  # type: ignore[misc]
        elif name == "stda-paper":
            made[name] = _repeated(PaperStdaSolver(cache_bytes=CACHE_MB * 10**6).solve)
        elif name.startswith("liblinear") and not isinstance(problem.kernel, LinearKernel):
            absent[name] = "supports the linear kernel only"
        elif name == "liblinear":
            made[name] = _repeated(LiblinearSolver().solve)
        elif name.startswith(REACHING):
            if reached := reaching(problem, float(name.removeprefix(REACHING))):
                made[name] = reached
            else:
                absent[name] = f"not so near to our objective within {MOST_PASSES} passes on some set"
        else:
            try:
                from sklearnex import svm as intelex
            except ImportError:
                absent[name] = "scikit-learn-intelex is not installed"
            else:
                made[name] = lambda p, machine=intelex.SVC: _svc(machine(**_options(p)), p, p.Z)  # type: ignore[misc]
    return made, absent


# ------------------------------------------------------------------------------------------------------------ measuring


def load(file: Path, rows: int | None) -> tuple[Float, Any, bool]:
    """Return features, labels, and whether they were standardised."""
    with np.load(file) as arrays:
        X, y = arrays["X"], arrays["y"].astype(np.int8)
    if rows is not None and rows < len(y):
        chosen = np.random.default_rng(DRAW_SEED).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    X = X.astype(np.float64)
    raw = bool(np.abs(X).max() > SCALED)
    if raw:
        deviation = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return np.ascontiguousarray(X), y, raw


def problem_of(X: Float, y: Any, kernel: str, C: float, weighted: bool) -> Problem:
    """Return the problem of one case."""
    upper = np.full(len(y), C)
    if weighted:
        weight = 10.0 ** np.random.default_rng(WEIGHT_SEED).uniform(0.0, DECADES, len(y))
        upper = C * weight / weight.mean()
    made = LinearKernel() if kernel == "linear" else RbfKernel(1.0 / X.shape[1])
    return Problem(Z=X, y=y, upper=upper, kernel=made, tolerance=TOLERANCE, max_iterations=MOST_ITERATIONS)


def timed(contender: Callable[[Problem], Any], problem: Problem) -> tuple[Any, Lap]:
    """Run once under a stopwatch."""
    gc.collect()
    watch = Stopwatch()
    found = contender(problem)
    return found, watch.lap()


def measure(problem: Problem, peers: dict[str, Contender], trials: int) -> dict[str, tuple[Any, list[Lap]]]:
    """Run ourselves and every peer in turns; a long case gets fewer rounds."""
    everyone: dict[str, Callable[[Problem], Any]] = {"ours": ours, **peers}
    found = {name: timed(contender, problem) for name, contender in everyone.items()}
    laps = {name: [lap] for name, (_, lap) in found.items()}
    long = max(lap.cpu_s for _, lap in found.values()) > LONG_S
    names = list(everyone)
    for turn in range(1, min(trials, LONG_ROUNDS) if long else trials):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            laps[name].append(timed(everyone[name], problem)[1])
    return {name: (found[name][0], laps[name]) for name in names}


def primal_of(problem: Problem, found: Any) -> float:
    """Return our primal objective of a linear machine."""
    w = found.coefficients
    return primal_objective(problem.Z @ w + found.intercept, problem.y, problem.upper, float(w @ w))


def quality(problem: Problem, found: Any, primal: bool) -> tuple[float | None, float]:
    """Return KKT gap and objective, in float64 from scratch."""
    if not primal:
        measured = optimality(problem.Z, problem.y, problem.upper, found.alpha, found.intercept, problem.kernel)
        return measured.kkt_gap, -measured.dual
    return None, primal_of(problem, found)


def rows_of(case: dict[str, Any], problem: Problem, peers: dict[str, Contender], trials: int) -> list[dict[str, Any]]:
    """Return one row a peer."""
    measured = measure(problem, peers, trials)
    mine, laps = measured.pop("ours")
    phases = StdaSolver(clock=time.thread_time).solve(problem).seconds or {}
    support = int(np.count_nonzero(mine.alpha))
    median = statistics.median(lap.cpu_s for lap in laps)
    limit = limit_of(problem, support)
    return [
        case
        | {
            "peer": name,
            **ratios(laps, theirs),
            "rounds": len(theirs),
            "seconds": median,
            "peer_seconds": statistics.median(lap.cpu_s for lap in theirs),
            "gap": quality(problem, mine, False)[0],
            "peer_gap": quality(problem, found, name.startswith("liblinear"))[0],
            "objective": quality(problem, mine, name.startswith("liblinear"))[1],
            "peer_objective": quality(problem, found, name.startswith("liblinear"))[1],
            "support_vectors": support,
            "peer_support_vectors": None if np.isnan(found.alpha).any() else int(np.count_nonzero(found.alpha)),
            "iterations": mine.iterations,
            "peer_iterations": found.iterations,
            "converged": mine.converged,
            "peer_converged": found.converged,
            "columns": mine.columns,
            "limit": limit,
            "share_of_limit": None if limit is None else sum(limit.values()) / median,
            "profile": {phase: round(seconds, 5) for phase, seconds in phases.items()},
        }
        for name, (found, theirs) in measured.items()
    ]


def ratios(laps: list[Lap], theirs: list[Lap]) -> dict[str, Any]:
    """Return the peer's time over ours, round by round, by CPU and by wall."""
    cpu = Interval.of([b.cpu_s / a.cpu_s for a, b in zip(laps, theirs, strict=True)])
    wall = Interval.of([b.wall_s / a.wall_s for a, b in zip(laps, theirs, strict=True)])
    return {"ratio": cpu.median, "ratio_interval": [cpu.least, cpu.greatest], "ratio_wall": wall.median}


def limit_of(problem: Problem, support: int) -> dict[str, float] | None:
    """Return the least seconds of the kernel values that any method needs; None for the linear kernel."""
    if isinstance(problem.kernel, LinearKernel):
        return None
    values = support * len(problem.y)
    return {"products": values * 2 * problem.Z.shape[1] / RATES["flops"], "powers": values / RATES["powers"]}


RATES: dict[str, float] = {}
"""Of this core: float32 multiply-adds of a large matrix product (flops a second), and powers of two a second."""


def measure_rates() -> None:
    """Fill `RATES`."""
    A, B, x = np.ones((1024, 1024), np.float32), np.ones((1024, 4096), np.float32), np.full(4096, -1e-3, np.float32)
    powers_of_two(x)
    product = min(timed(lambda _: A @ B, None)[1].cpu_s for _ in range(5))  # type: ignore[arg-type]
    power = min(timed(lambda _: [powers_of_two(x) for _ in range(500)], None)[1].cpu_s for _ in range(5))  # type: ignore[arg-type]
    RATES.update(flops=2 * 1024 * 1024 * 4096 / product, powers=500 * 4096 / power)


def warm_up() -> None:
    """Compile, outside every measurement: both kernels, both layouts."""
    random = np.random.default_rng(0)
    for d in (2, 100):
        Z = random.normal(size=(1500, d)) * (random.uniform(size=(1500, d)) < 4 / d)
        y = np.where(Z[:, 0] + 0.1 > 0, 1, -1).astype(np.int8)
        for kernel in (LinearKernel(), RbfKernel(1.0 / d)):
            prepare(kernel)
            for solver in (StdaSolver(), PaperStdaSolver()):
                solver.solve(
                    Problem(Z=Z, y=y, upper=np.ones(1500), kernel=kernel, tolerance=TOLERANCE, max_iterations=1000)
                )
            StdaSolver().solve(
                Problem(Z=Z, y=y, upper=np.ones(1500), kernel=kernel, tolerance=1e-7, max_iterations=1000)
            )


def main(arguments: list[str] | None = None) -> None:
    """Measure every case and print a table, or one JSON object."""
    parser = argparse.ArgumentParser(description="The STDA solver beside others.")
    parser.add_argument("--data", type=Path, required=True, help="directory of NAME.npz files with X and y")
    parser.add_argument("--sets", default="", help="names, by commas; default: all")
    parser.add_argument("--kernel", choices=["rbf", "linear"], default="rbf")
    parser.add_argument("--C", default="1,10,20", help="mean boxes, by commas")
    parser.add_argument("--rows", type=int, default=None, help="most rows of a set; default: all")
    parser.add_argument("--weighted", action="store_true", help="weights over three orders of magnitude")
    parser.add_argument("--peers", default="svc,svc-sparse", help=f"by commas, of {', '.join(PEERS)}")
    parser.add_argument("--trials", type=int, default=ROUNDS_AT_LEAST, help="rounds of each case")
    parser.add_argument("--svc-iterations", type=int, default=MOST_ITERATIONS, help="most iterations of SVC")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--into", type=Path, default=None, help="JSON file to go on with and to write to")
    options = parser.parse_args(arguments)
    names = [name for name in options.peers.split(",") if name]
    if unknown := set(names) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    files = {file.stem: file for file in sorted(options.data.glob("*.npz"))}
    sets = [name for name in options.sets.split(",") if name] or list(files)
    if missing := [name for name in sets if name not in files]:
        parser.error(f"no {missing[0]}.npz in {options.data}")
    SVC_ITERATIONS.append(options.svc_iterations)
    report = Report(options.into)
    with threadpool_limits(1):
        measure_rates()
        warm_up()
        for name in sets:
            X, y, raw = load(files[name], options.rows)
            for C in map(float, options.C.split(",")):
                case = {
                    "case": f"{name} {options.kernel} C={C:g}",
                    "n": len(y),
                    "d": X.shape[1],
                    "C": C,
                    "kernel": options.kernel,
                    "weighted": options.weighted,
                    "standardised": raw,
                }
                wanted = [peer for peer in names if not report.has(case, peer)]
                problem = problem_of(X, y, options.kernel, C, options.weighted)
                peers, left_out = contenders(wanted, problem)
                made = rows_of(case, problem, peers, options.trials) if peers else []
                report.add(made, left_out)
                if not options.json:
                    for row in made:
                        print(line(row), flush=True)
    if options.json:
        print(report.text())
    else:
        for name, reason in report.absent.items():
            print(f"{name}: {reason}")


class Report:
    """What has been measured, in a file if there is one.

    Attributes
    ----------
    rows : list of dict
    absent : dict of str to str
        Peers that could not run, and why.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        earlier = json.loads(file.read_text()) if file and file.exists() else {}
        self.rows: list[dict[str, Any]] = earlier.get("rows", [])
        self.absent: dict[str, str] = earlier.get("absent", {})

    def has(self, case: dict[str, Any], peer: str) -> bool:
        """Whether a case has been measured beside a peer."""
        same = ("case", "n", "weighted")
        return any(row["peer"] == peer and all(row[key] == case[key] for key in same) for row in self.rows)

    def add(self, rows: list[dict[str, Any]], absent: dict[str, str]) -> None:
        """Add rows, and write everything."""
        self.rows += rows
        self.absent |= absent
        if self._file and rows:
            part = self._file.with_suffix(".part")
            part.write_text(self.text() + "\n")
            part.replace(self._file)
            self._file.with_suffix(".txt").write_text("\n".join(map(line, self.rows)) + "\n")

    def text(self) -> str:
        """Return everything as one JSON object."""
        return json.dumps({"rates": RATES, "absent": self.absent, "tolerance": TOLERANCE, "rows": self.rows}, indent=1)


def line(row: dict[str, Any]) -> str:
    """Return a row as one line of text."""
    low, high = row["ratio_interval"]
    worse = (row["objective"] - row["peer_objective"]) / abs(row["peer_objective"])
    gap, theirs = (f"{gap:.1e}" if gap is not None else "-" for gap in (row["gap"], row["peer_gap"]))
    share = f"{row['share_of_limit']:.0%}" if row["share_of_limit"] else "-"
    bound = "" if row["peer_converged"] or row["peer"].startswith("liblinear") else ">="
    ended = "" if row["converged"] else " NOT CONVERGED"
    theirs += "" if row["peer_converged"] else " (peer not converged)"
    case = row["case"] + (" weighted" if row["weighted"] else "")
    return (
        f"{case:34} n={row['n']:<6} {row['peer']:10} {bound}x{row['ratio']:<7.2f} [{low:.2f}, {high:.2f}] of "
        f"{row['rounds']}  {row['seconds']:.4f} s  gap {gap} / {theirs}  objective {worse:+.1e}  "
        f"limit {share}{ended}"
    )


if __name__ == "__main__":
    main()
