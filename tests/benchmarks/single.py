"""STDASVR and STDAOneClassSVM beside SVR and OneClassSVM on the same rows: CPU seconds and objectives.

    python -m tests.benchmarks.single [--rounds 3] [--most 5000] [--only htru2 ...] [--json]

Data: scikit-learn's Friedman #1 (10 features, noise 1) at any size; HTRU2, whose last feature is predicted from the
seven others, or which is one class; scikit-learn's diabetes. Features and targets are standardised. Settings are
scikit-learn's defaults, but for what the table names; epsilon is 0.1. One thread, contenders in turn; the least CPU
time of the rounds, of which the first loads compiled code: two at least. The objective is the dual one, from scratch in
float64: how much ours is above (+, worse) or below theirs, as a share of theirs.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, OneClassSVM
from threadpoolctl import threadpool_limits

from streamsvm import STDASVR, STDAOneClassSVM
from streamsvm.datasets import load_htru2
from streamsvm.model.kernels import Float

SETS: Final = ("friedman1", "htru2", "diabetes")
EPSILON: Final = 0.1
SIZES: Final = (300, 1_000, 5_000, 20_000)
REGRESSIONS: Final[tuple[dict[str, Any], ...]] = (
    {"kernel": "rbf", "C": 1.0},
    {"kernel": "rbf", "C": 100.0},
    {"kernel": "rbf", "C": 1.0, "gamma": 1.0},
    {"kernel": "linear", "C": 1.0},
    {"kernel": "poly", "C": 1.0, "coef0": 1.0},
)
ONE_CLASSES: Final[tuple[dict[str, Any], ...]] = (
    {"kernel": "rbf", "nu": 0.01},
    {"kernel": "rbf", "nu": 0.1},
    {"kernel": "rbf", "nu": 0.5},
    {"kernel": "rbf", "nu": 0.1, "gamma": 1.0},
)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting on one set.

    Attributes
    ----------
    data, setting : str
    rows : int
    ours_s, theirs_s : float
        CPU seconds of `fit`.
    excess : float
        Our dual objective less theirs, by the size of theirs.
    """

    data: str
    rows: int
    setting: str
    ours_s: float
    theirs_s: float
    excess: float


def sets(most: int) -> Iterator[tuple[str, Float, Float]]:
    """Yield name, features and targets of each set of at most so many rows."""
    for n in SIZES:
        if n <= most:
            yield "friedman1", *make_friedman1(n, noise=1.0, random_state=n)
    pulsars, _, _ = load_htru2()
    order = np.random.default_rng(0).permutation(len(pulsars))
    for n in (*SIZES[:3], len(pulsars)):
        if n <= most:
            yield "htru2", pulsars[order[:n], :-1], pulsars[order[:n], -1]
    yield "diabetes", *load_diabetes(return_X_y=True)


def measured(rounds: int, most: int, only: Collection[str]) -> Iterator[Row]:
    """Measure every setting on each of these sets."""
    for name, X, y in sets(most):
        if name not in only:
            continue
        X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
        for options in REGRESSIONS:
            yield compared(name, options, (STDASVR, SVR), X, y, rounds)
        for options in ONE_CLASSES:
            yield compared(name, options, (STDAOneClassSVM, OneClassSVM), X, y, rounds)


def compared(name: str, options: dict[str, Any], kinds: tuple[type, type], X: Float, y: Float, rounds: int) -> Row:
    """Fit both by turns."""
    least, machines = [np.inf, np.inf], [kind(**options) for kind in kinds]
    for _ in range(rounds):
        for at, machine in enumerate(machines):
            begun = time.process_time()
            machine.fit(X, y)
            least[at] = min(least[at], time.process_time() - begun)
    gram = kernel_of(machines[0])
    ours, theirs = (objective(machine, gram, X, y) for machine in machines)
    setting = ", ".join(f"{key} {value}" for key, value in options.items())
    kind = "one class" if "nu" in options else "regression"
    return Row(name, len(X), f"{kind}: {setting}", *least, (ours - theirs) / abs(theirs))


def kernel_of(machine: Any) -> Callable[[Float, Float], Float]:
    """Return the kernel of a trained machine."""
    if machine.kernel == "linear":
        return linear_kernel  # type: ignore[no-any-return]
    if machine.kernel == "rbf":
        return lambda A, B: rbf_kernel(A, B, gamma=machine._gamma)
    return lambda A, B: polynomial_kernel(A, B, gamma=machine._gamma, coef0=machine.coef0)


def objective(machine: Any, gram: Callable[[Float, Float], Float], X: Float, y: Float) -> float:
    """Return the dual objective to be minimised."""
    dual, support = machine.dual_coef_[0], X[machine.support_]
    parts = np.array_split(support, 1 + len(support) // 1_000)
    products = np.concatenate([gram(part, support) @ dual for part in parts])
    quadratic = 0.5 * float(dual @ products)
    if isinstance(machine, OneClassSVM):
        return quadratic
    return quadratic - float(y[machine.support_] @ dual) + EPSILON * float(np.abs(dual).sum())


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Regression and one class: ours beside scikit-learn's.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=5_000, help="rows of the largest set")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if not options.json:
        print(f"{'data':<10} {'rows':>6} {'setting':<42} {'ours, s':>9} {'theirs, s':>9} {'ratio':>7} objective")
    with threadpool_limits(1):
        for row in measured(options.rounds, options.most, options.only):
            if options.json:
                print(json.dumps(asdict(row)), flush=True)
                continue
            ratio = row.theirs_s / row.ours_s
            times = f"{row.ours_s:9.4f} {row.theirs_s:9.4f} {ratio:7.2f}"
            print(f"{row.data:<10} {row.rows:>6} {row.setting:<42} {times} {row.excess:+10.1e}", flush=True)


if __name__ == "__main__":
    main()
