"""The STDA solver beside others on the same problem, at the same tolerance, one thread, compilation excluded.

    python -m tests.benchmarks.solver --data DIR [--sets a9a,...] [--kernel rbf|linear] [--C 1,10,20] [--rows N]
        [--weighted] [--peers svc,svc-sparse,onedal,liblinear,liblinear-1e-4,stda-paper] [--rounds 5]
        [--svc-iterations N] [--json FILE]

`--rows` draws so many rows of a set once. A set with any value beyond `SCALED` is standardised. gamma = 1 / d.
`--weighted` draws weights log-uniformly over three orders of magnitude, of mean 1; C times a weight is a point's box.

Peers: `svc` is scikit-learn's SVC (LIBSVM) on a dense array, `svc-sparse` the same on a CSR matrix, both with a
cache of 2000 MB; `onedal` is scikit-learn-intelex; `liblinear` is LinearSVC, whose problem is another one (it
regularises the bias), so that its objective is the primal one of *our* problem with the best bias for its w;
`liblinear-1e-3` and its like are LinearSVC with the scaling of the bias and the least number of passes, among powers of
two, that bring that objective to within so much of ours, relatively: what a tolerance that knew the optimum would cost;
`stda-paper` is the method to its paper's letter, `svmlight` the same code with SVMLight's selection rule.
`--svc-iterations` ends SVC earlier than usual: where it has not converged by then, the ratio is a lower bound. A peer
that cannot run is named with its reason.

A case in which any contender needs more than `LONG_S` gets `LONG_ROUNDS` rounds. `ratio` is of CPU seconds, peer's over
ours: a busy machine counts less; `ratio_wall` is of wall seconds. `objective` is f, minus the dual objective, of which
less is better (for `liblinear` the primal one), `gap` the KKT gap; all in float64 from scratch.
"""

from __future__ import annotations

import gc
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from streamsvm.model import Float, LinearKernel, RbfKernel
from streamsvm.papers import PaperStdaSolver
from streamsvm.svm import Problem, Solution, optimality, primal_objective, solve, warm_up as prepare
from tests.benchmarks.runner import Interval, Kept, Lap, Stopwatch, in_turns, known, load, parser_of, sets_in, words
from tests.svm.foreign import liblinear

SCALED: Final = 10.0
TOLERANCE: Final = 1e-3
CACHE_MB: Final = 2000
MOST_ITERATIONS: Final = 10_000_000
DRAW_SEED: Final = 7
WEIGHT_SEED: Final = 5
DECADES: Final = 3.0
LONG_S: Final = 20.0
LONG_ROUNDS: Final = 2
PEERS: Final = (
    "svc",
    "svc-sparse",
    "onedal",
    "liblinear",
    "liblinear-1e-2",
    "liblinear-1e-3",
    "liblinear-1e-4",
    "stda-paper",
    "svmlight",
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


def _options(problem: Problem, iterations: int) -> dict[str, Any]:
    kernel = problem.kernel
    return {
        "C": 1.0,
        "kernel": "rbf" if isinstance(kernel, RbfKernel) else "linear",
        "gamma": kernel.gamma if isinstance(kernel, RbfKernel) else "auto",
        "tol": problem.tolerance,
        "cache_size": CACHE_MB,
        "max_iter": min(problem.max_iterations, iterations),
    }


def _repeated(solve: Callable[[Problem], Solution]) -> Contender:
    def run(problem: Problem) -> Found:
        found = solve(problem)
        return Found(found.alpha, found.intercept, found.iterations, found.converged, found.coefficients)

    return run


def reaching(problem: Problem, relative: float) -> Contender | None:
    """Return the cheapest LinearSVC whose primal objective of our problem is near ours; None if none gets there."""
    ours_at = primal_of(problem, solve(problem))
    passes = 1
    while passes <= MOST_PASSES:
        for scaling in SCALINGS:
            limited = replace(problem, tolerance=1e-12, max_iterations=passes * len(problem.y))
            machine = partial(liblinear, intercept_scaling=scaling)
            if primal_of(problem, machine(limited)) <= (1.0 + relative) * ours_at:
                return lambda _: _repeated(machine)(limited)
        passes *= 2
    return None


def contender_of(name: str, problem: Problem, iterations: int) -> Contender | str:
    """Return a peer, or why it cannot run this problem."""
    options = _options(problem, iterations)
    if name == "svc":
        return lambda p: _svc(SVC(**options), p, p.Z)
    if name == "svc-sparse":
        sparse = csr_matrix(problem.Z)
        return lambda p: _svc(SVC(**options), p, sparse)
    if name == "stda-paper":
        return _repeated(PaperStdaSolver(cache_bytes=CACHE_MB * 10**6).solve)
    if name == "svmlight":
        return _repeated(PaperStdaSolver("svmlight", cache_bytes=CACHE_MB * 10**6).solve)
    if name == "onedal":
        try:
            from sklearnex import svm as intelex
        except ImportError:
            return "scikit-learn-intelex is not installed"
        return lambda p: _svc(intelex.SVC(**options), p, p.Z)
    if not isinstance(problem.kernel, LinearKernel):
        return "supports the linear kernel only"
    if name == "liblinear":
        return _repeated(liblinear)
    reached = reaching(problem, float(name.removeprefix("liblinear-")))
    return reached or f"not so near to our objective within {MOST_PASSES} passes"


# ------------------------------------------------------------------------------------------------------------ measuring


def prepared(name: str, data: Any, rows: int | None) -> tuple[Float, Any]:
    """Return features, standardised if they are raw, and labels."""
    points = load(name, data)
    X, y = points.X.astype(np.float64), points.y
    if rows is not None and rows < len(y):
        chosen = np.random.default_rng(DRAW_SEED).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    if np.abs(X).max() > SCALED:
        deviation = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return np.ascontiguousarray(X), y


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


def measure(problem: Problem, peers: Mapping[str, Contender], rounds: int) -> dict[str, tuple[Any, list[Lap]]]:
    """Run ourselves and every peer in turns; a long case gets fewer rounds."""
    everyone: dict[str, Callable[[Problem], Any]] = {"ours": solve, **peers}
    first = {name: timed(contender, problem) for name, contender in everyone.items()}
    long = max(lap.cpu_s for _, lap in first.values()) > LONG_S
    more = in_turns(
        {name: lambda _, run=run: timed(run, problem)[1] for name, run in everyone.items()},
        (min(rounds, LONG_ROUNDS) if long else rounds) - 1,
    )
    return {name: (found, [lap, *more[name]]) for name, (found, lap) in first.items()}


def primal_of(problem: Problem, found: Any) -> float:
    """Return our primal objective of a linear machine."""
    w = found.coefficients
    return primal_objective(problem.Z @ w + found.intercept, problem.y, problem.upper, float(w @ w))


def quality(problem: Problem, found: Any, primal: bool) -> tuple[float | None, float]:
    """Return KKT gap and objective, in float64 from scratch."""
    if not primal:
        _, dual, gap = optimality(problem.Z, problem.y, problem.upper, found.alpha, found.intercept, problem.kernel)
        return gap, -dual
    return None, primal_of(problem, found)


def rows_of(problem: Problem, peers: Mapping[str, Contender], rounds: int) -> dict[str, dict[str, Any]]:
    """Return one row a peer."""
    measured = measure(problem, peers, rounds)
    mine, laps = measured.pop("ours")
    rows = {}
    for name, (found, theirs) in measured.items():
        primal = name.startswith("liblinear")
        (gap, objective), (peer_gap, peer_objective) = quality(problem, mine, False), quality(problem, found, primal)
        rows[name] = {
            **ratios(laps, theirs),
            "rounds": len(theirs),
            "seconds": statistics.median(lap.cpu_s for lap in laps),
            "peer_seconds": statistics.median(lap.cpu_s for lap in theirs),
            "gap": gap,
            "peer_gap": peer_gap,
            "objective": primal_of(problem, mine) if primal else objective,
            "peer_objective": peer_objective,
            "support_vectors": int(np.count_nonzero(mine.alpha)),
            "iterations": mine.iterations,
            "peer_iterations": found.iterations,
            "converged": mine.converged,
            "peer_converged": found.converged,
            "columns": mine.columns,
        }
    return rows


def ratios(laps: list[Lap], theirs: list[Lap]) -> dict[str, Any]:
    """Return the peer's time over ours, round by round, by CPU and by wall."""
    cpu = Interval.of([b.cpu_s / a.cpu_s for a, b in zip(laps, theirs, strict=True)])
    wall = Interval.of([b.wall_s / a.wall_s for a, b in zip(laps, theirs, strict=True)])
    return {"ratio": cpu.median, "ratio_interval": [cpu.least, cpu.greatest], "ratio_wall": wall.median}


def warm_up() -> None:
    """Compile, outside every measurement: both kernels, both layouts."""
    random = np.random.default_rng(0)
    for d in (2, 100):
        Z = random.normal(size=(1500, d)) * (random.uniform(size=(1500, d)) < 4 / d)
        y = np.where(Z[:, 0] + 0.1 > 0, 1, -1).astype(np.int8)
        for kernel in (LinearKernel(), RbfKernel(1.0 / d)):
            prepare(kernel)
            for solver in (solve, PaperStdaSolver().solve):
                solver(Problem(Z=Z, y=y, upper=np.ones(1500), kernel=kernel, tolerance=TOLERANCE, max_iterations=1000))
            solve(Problem(Z=Z, y=y, upper=np.ones(1500), kernel=kernel, tolerance=1e-7, max_iterations=1000))


def line(case: str, peer: str, row: Mapping[str, Any]) -> str:
    """Return a row as one line of text."""
    low, high = row["ratio_interval"]
    worse = (row["objective"] - row["peer_objective"]) / abs(row["peer_objective"])
    gap, theirs = (f"{gap:.1e}" if gap is not None else "-" for gap in (row["gap"], row["peer_gap"]))
    bound = "" if row["peer_converged"] or peer.startswith("liblinear") else ">="
    ended = "" if row["converged"] else " NOT CONVERGED"
    theirs += "" if row["peer_converged"] else " (peer not converged)"
    return (
        f"{case:44} {peer:10} {bound}x{row['ratio']:<7.2f} [{low:.2f}, {high:.2f}] of {row['rounds']}  "
        f"{row['seconds']:.4f} s  gap {gap} / {theirs}  objective {worse:+.1e}{ended}"
    )


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure every case that is not kept yet, and print a table."""
    parser = parser_of("solver", __doc__, data=True)
    parser.add_argument("--kernel", choices=["rbf", "linear"], default="rbf")
    parser.add_argument("--C", type=words, default=["1", "10", "20"], help="mean boxes, with commas")
    parser.add_argument("--rows", type=int, help="most rows of a set; all without")
    parser.add_argument("--weighted", action="store_true", help="weights over three orders of magnitude")
    parser.add_argument("--peers", type=words, default=["svc", "svc-sparse"], help=", ".join(PEERS))
    parser.add_argument("--svc-iterations", type=int, default=MOST_ITERATIONS, help="most iterations of SVC")
    asked = parser.parse_args(arguments)
    known(parser, "--peers", asked.peers, PEERS)
    kept, rows = Kept(asked.json), dict[str, Any]()
    with threadpool_limits(1):
        warm_up()
        for name in sets_in(asked.data, asked.sets):
            X, y = prepared(name, asked.data, asked.rows)
            for C in map(float, asked.C):
                problem = problem_of(X, y, asked.kernel, C, asked.weighted)
                case = f"{name} {asked.kernel} C={C:g} n={len(y)}{' weighted' if asked.weighted else ''}"
                made = {peer: contender_of(peer, problem, asked.svc_iterations) for peer in asked.peers}
                peers = {peer: one for peer, one in made.items() if not isinstance(one, str)}
                missing = {peer: one for peer, one in peers.items() if f"{case} {peer}" not in kept.cells}
                fresh = rows_of(problem, missing, asked.rounds) if missing else {}
                for peer in peers:
                    row = kept.get(f"{case} {peer}", lambda peer=peer, fresh=fresh: fresh[peer])
                    rows[f"{case} {peer}"] = row
                    print(line(case, peer, row), flush=True)
                for peer, reason in made.items():
                    if isinstance(reason, str):
                        print(f"{case} {peer}: not measured, {reason}")
    return rows


if __name__ == "__main__":
    main()
