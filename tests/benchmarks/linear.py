"""STDALinearSVC beside LinearSVC with the hinge loss, and STDASVC beside SVC on digits: CPU seconds of small fits.

    python -m tests.benchmarks.linear [--data DIR] [--rows 2000,20000] [--C 10,100] [--rounds 3]

Every `NAME.npz` in DIR with X and y (-1 or +1) is a set for the first; `excess` is our objective less LIBLINEAR's, as a
share of its: negative is better. LIBLINEAR makes its usual thousand passes. Digits are scikit-learn's, of which 300,
600 or all are learned, 45 pairs of classes. One thread, in turn; the least CPU time of the rounds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from streamsvm import STDASVC, STDALinearSVC
from streamsvm.model.kernels import Float
from tests.benchmarks.solver import load

DIGITS: Final[tuple[dict[str, Any], ...]] = (
    {"kernel": "linear"},
    {"kernel": "poly", "coef0": 1.0},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.001},
    {"kernel": "rbf", "gamma": 1.0},
    {"kernel": "rbf", "C": 100.0},
    {"kernel": "rbf", "C": 0.01},
)


def objective(machine: Any, X: Float, y: Any) -> float:
    """Return LIBLINEAR's objective of two classes."""
    w, b = machine.coef_.ravel(), float(machine.intercept_[0])
    hinge = np.maximum(0.0, 1.0 - y * (X @ w + b))
    return float(0.5 * (w @ w + b * b) + machine.C * hinge.sum())


def seconds(machines: tuple[Any, Any], X: Float, y: Any, rounds: int) -> list[float]:
    """Return the least CPU seconds of both, fitted in turn after one fit that does not count."""
    least = [np.inf, np.inf]
    for turn in range(rounds + 1):
        for at, machine in enumerate(machines):
            begun = time.process_time()
            machine.fit(X, y)
            least[at] = min(least[at], time.process_time() - begun) if turn else np.inf
    return least


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Small fits: LinearSVC, and pairs of digits.")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--rows", type=lambda said: [int(one) for one in said.split(",")], default=[2_000, 20_000])
    parser.add_argument("--C", type=lambda said: [float(one) for one in said.split(",")], default=[10.0, 100.0])
    parser.add_argument("--digits", type=lambda said: [int(one) for one in said.split(",")], default=[300, 600, 1_797])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for file in sorted(options.data.glob("*.npz")) if options.data else []:
            for rows in options.rows:
                X, y, _ = load(file, rows)
                for C in options.C:
                    both = STDALinearSVC(loss="hinge", C=C), LinearSVC(loss="hinge", C=C)
                    ours, theirs = seconds(both, X, y, options.rounds)
                    found, other = (objective(machine, X, y) for machine in both)
                    print(
                        f"{file.stem:<14} {len(y):>6} C {C:<6g} ours {ours:.4f} s, {both[0].n_iter_} passes and steps; "
                        f"LIBLINEAR {theirs:.4f} s, {both[1].n_iter_} passes; ratio {theirs / ours:.2f}, excess "
                        f"{(found - other) / other:+.1e}",
                        flush=True,
                    )
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        for rows in options.digits:
            A, b = X[order[:rows]] / 16.0, y[order[:rows]]
            for setting in DIGITS:
                ours, theirs = seconds((STDASVC(**setting), SVC(**setting)), A, b, options.rounds)
                said = ", ".join(f"{key} {value}" for key, value in setting.items())
                print(
                    f"digits {rows:>5} {said:<24} ours {1e3 * ours:7.2f} ms, SVC {1e3 * theirs:7.2f} ms, ratio "
                    f"{theirs / ours:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
