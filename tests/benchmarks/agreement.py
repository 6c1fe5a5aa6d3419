"""Our solvers against LIBSVM, by where they end: objectives, optimality, and the signs of fresh points.

    python -m tests.benchmarks.agreement --data DIR [--sets htru2 ...] [--rows 2000] [--solvers stda ...] [--json FILE]

Every set is drawn once with a fixed seed and scaled by its own mean and deviation; every kernel, weights equal or
log-uniform over three orders, and mean boxes of 1, 100 and 10^4. All stop at a KKT gap of 1e-4; a contender that meets
its bound on iterations says so. Measured from scratch in float64: `primal` is F of the solution's (w, b), `dual` the
dual objective of its a, which is what a dual solver maximises and what LIBSVM reports; both relative to LIBSVM's, and
signed so that a positive number says that ours is worse. `sign` is the share of points outside the training set on
which both agree. RBF: gamma = 1 / d.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from streamsvm.model.kernels import Float, Kernel, LinearKernel, RbfKernel
from streamsvm.points import Signs
from streamsvm.svm.objective import Optimality, optimality
from streamsvm.svm.problem import Problem, Solution
from streamsvm.svm.solvers import SOLVERS
from tests.svm.problems import weights

SETS: Final = ("htru2", "credit_default", "cod_rna", "ijcnn1", "a9a", "w8a")
BOXES: Final = (1.0, 100.0, 1e4)
DECADES: Final = (0.0, 3.0)
TOLERANCE: Final = 1e-4
MOST_ITERATIONS: Final = 1_000_000
FRESH: Final = 5_000
DRAW_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class Row:
    """One solver on one problem, beside LIBSVM.

    Attributes
    ----------
    case, solver : str
    n, d : int
    box : float
        Mean upper bound of a dual variable.
    weighted : bool
    primal, dual : float
        Relative difference from LIBSVM's; positive: ours is worse.
    kkt_gap, peer_kkt_gap : float
        True gaps.
    converged, peer_converged : bool
    sign : float
        Share of fresh points with the same sign.
    """

    case: str
    solver: str
    n: int
    d: int
    box: float
    weighted: bool
    primal: float
    dual: float
    kkt_gap: float
    peer_kkt_gap: float
    converged: bool
    peer_converged: bool
    sign: float


def read(path: Path, rows: int) -> tuple[Float, Signs, Float]:
    """Return scaled features and labels of a problem's points, and the features of fresh ones."""
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int8)
    chosen = np.random.default_rng(DRAW_SEED).permutation(len(y))[: rows + FRESH]
    scale = X.std(axis=0)
    Z = (X[chosen] - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return Z[:rows], y[chosen[:rows]], Z[rows:]


def problems(Z: Float, y: Signs) -> Iterator[tuple[str, float, bool, Problem]]:
    """Yield every problem of a set: its name, mean box, whether it is weighted, and itself."""
    kernels: tuple[Kernel, ...] = (LinearKernel(), RbfKernel(1.0 / Z.shape[1]))
    for kernel in kernels:
        for decades in DECADES:
            for box in BOXES:
                name = f"{'linear' if isinstance(kernel, LinearKernel) else 'rbf'}{', weighted' if decades else ''}"
                upper = weights(len(y), decades, box)
                yield (
                    name,
                    box,
                    decades > 0,
                    Problem(Z=Z, y=y, upper=upper, kernel=kernel, tolerance=TOLERANCE, max_iterations=MOST_ITERATIONS),
                )


def decide(problem: Problem, found: Solution, points: Float) -> Float:
    """Return decision values."""
    assert found.alpha is not None
    support = np.flatnonzero(found.alpha)
    signed = problem.y[support] * found.alpha[support]
    return problem.kernel.gram(points, problem.Z[support]) @ signed + found.intercept


def measured(problem: Problem, found: Solution) -> Optimality:
    """Measure a solution from scratch."""
    assert found.alpha is not None
    return optimality(problem.Z, problem.y, problem.upper, found.alpha, found.intercept, problem.kernel)


def compare(name: str, path: Path, rows: int, solvers: list[str]) -> Iterator[Row]:
    """Solve every problem of a set by LIBSVM and by ours."""
    Z, y, fresh = read(path, rows)
    for kind, box, weighted, problem in problems(Z, y):
        theirs = SOLVERS["libsvm"]().solve(problem)
        peer, values = measured(problem, theirs), decide(problem, theirs, fresh)
        for solver in solvers:
            found = SOLVERS[solver]().solve(problem)
            ours = measured(problem, found)
            yield Row(
                f"{name}, {kind}",
                solver,
                len(y),
                Z.shape[1],
                box,
                weighted,
                ours.primal / peer.primal - 1,
                1 - ours.dual / peer.dual,
                ours.kkt_gap,
                peer.kkt_gap,
                found.converged,
                theirs.converged,
                float(((decide(problem, found, fresh) > 0) == (values > 0)).mean()),
            )


def line(row: Row) -> str:
    """Return a row for people."""
    stopped = {(True, True): "", (False, True): "ours", (True, False): "LIBSVM", (False, False): "both"}
    return (
        f"{row.case:<32} {row.solver:<11} box {row.box:<6g} primal {row.primal:+.1e}  dual {row.dual:+.1e}  "
        f"gap {row.kkt_gap:.1e} / {row.peer_kkt_gap:.1e}  sign {row.sign:.4f}  "
        f"{stopped[row.converged, row.peer_converged]}"
    )


def summary(rows: list[Row]) -> str:
    """Say how many problems hold what."""
    lines = []
    for solver in dict.fromkeys(row.solver for row in rows):
        own = [row for row in rows if row.solver == solver]
        dual, primal = [row.dual for row in own], [row.primal for row in own]
        ended = [row for row in own if row.peer_converged]
        lines.append(
            f"{solver}: {len(own)} problems; dual objective at most 1e-5 worse on {sum(d <= 1e-5 for d in dual)} "
            f"(worst {max(dual):+.1e}), primal on {sum(p <= 1e-5 for p in primal)} (worst {max(primal):+.1e}, best "
            f"{min(primal):+.1e}); true gap within 1.01 tolerances on "
            f"{sum(row.kkt_gap <= 1.01 * TOLERANCE for row in own)} (LIBSVM: "
            f"{sum(row.peer_kkt_gap <= 1.01 * TOLERANCE for row in own)}); stopped at the bound on iterations: "
            f"{sum(not row.converged for row in own)} (LIBSVM: {len(own) - len(ended)}); same sign on more than 99.9 % "
            f"of fresh points, of the {len(ended)} that LIBSVM ended: {sum(row.sign > 0.999 for row in ended)} "
            f"(least {min(row.sign for row in ended):.4f})"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="Where our solvers and LIBSVM end.")
    parser.add_argument("--data", type=Path, required=True, help="directory of the .npz files")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="sets to draw problems from")
    parser.add_argument("--rows", type=int, default=2_000, help="points of a problem")
    ours = [name for name in SOLVERS if name.startswith("stda")]
    parser.add_argument("--solvers", nargs="+", choices=ours, default=ours, help="which of ours")
    parser.add_argument("--json", type=Path, default=None, help="where to write the rows")
    options = parser.parse_args(arguments)
    rows = []
    with threadpool_limits(1):
        for name in options.sets:
            for row in compare(name, options.data / f"{name}.npz", options.rows, options.solvers):
                rows.append(row)
                print(line(row), flush=True)
    print(summary(rows))
    if options.json:
        text = json.dumps({"tolerance": TOLERANCE, "rows": [asdict(row) for row in rows]}, indent=1)
        options.json.write_text(text + "\n")
        options.json.with_suffix(".txt").write_text("\n".join([*map(line, rows), "", summary(rows)]) + "\n")


if __name__ == "__main__":
    sys.exit(main())
