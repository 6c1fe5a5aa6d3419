"""A linear machine of many rows: STDASVC beside LIBLINEAR and SGD until they are as good; seconds and memory.

    python -m tests.benchmarks.large_linear [--rows 1610000] [--C 1] [--sparse] [--shares 1e-2,1e-3,1e-4]
        [--most-s 1800] [--only stda,stda-linear,liblinear,sgd,sgd-averaged] [--json]

Rows are made from a seed: 19 features of a normal distribution and ten groups of ten, of each of which one is 1; a
plane, of which 12 % of the labels are noise near it and 3 % far from it. Every contender is a process of its own, with
one thread, in turn; its figures are CPU seconds of training and by how much memory rose above what the rows take.

`stda` is `STDASVC(kernel="linear")`, `stda-linear` `STDALinearSVC(loss="hinge")`; `liblinear` is LinearSVC with the
hinge loss, trained anew with tolerances ten times smaller each time (`max_iter` 100,000), `sgd` and `sgd-averaged`
SGDClassifier with the hinge loss and `alpha = 1 / (C n)`, pass after pass. An objective is C times the hinge losses and
half the squared norm, the intercept free but for `liblinear` and `stda-linear`, which penalise it (with C n this large
that moves the objective by less than 1e-6). `best` is the least found by anyone; a row says when somebody was within a
share of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from threadpoolctl import threadpool_limits

from streamsvm.model.kernels import Float

NORMAL, GROUPS, SIZE = 19, 10, 10
CONTENDERS: Final = ("stda", "stda-linear", "liblinear", "sgd", "sgd-averaged")
LIBLINEAR_TOLERANCES: Final = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
MOST_PASSES: Final = 2_000


def made(rows: int, seed: int = 0) -> tuple[Float, Float]:
    """Return points of shape (rows, 119) and labels -1 and +1."""
    random = np.random.default_rng(seed)
    X = np.zeros((rows, NORMAL + GROUPS * SIZE))
    X[:, :NORMAL] = random.standard_normal((rows, NORMAL))
    for group in range(GROUPS):
        X[np.arange(rows), NORMAL + group * SIZE + random.integers(SIZE, size=rows)] = 1.0
    margin = X @ random.standard_normal(X.shape[1]) + random.standard_normal(rows)
    y = np.where(margin > np.median(margin), 1.0, -1.0)
    flipped = random.uniform(size=rows) < 0.03
    return X, np.where(flipped, -y, y)


def objective(X: Any, y: Float, w: Float, b: float, C: float) -> float:
    """Return the primal objective."""
    return float(0.5 * (w @ w) + C * np.maximum(0.0, 1.0 - y * (X @ w + b)).sum())


def stda(X: Any, y: Float, C: float) -> Iterator[tuple[float, Float, float]]:
    """Yield the answer of `STDASVC`."""
    from streamsvm import STDASVC

    begun = time.process_time()
    machine = STDASVC(kernel="linear", C=C).fit(X, y)
    coef = machine.coef_.toarray() if hasattr(machine.coef_, "toarray") else machine.coef_
    yield time.process_time() - begun, np.ravel(coef), float(machine.intercept_[0])


def stda_linear(X: Any, y: Float, C: float) -> Iterator[tuple[float, Float, float]]:
    """Yield the answer of `STDALinearSVC`."""
    from streamsvm import STDALinearSVC

    begun = time.process_time()
    machine = STDALinearSVC(loss="hinge", C=C).fit(X, y)
    yield time.process_time() - begun, machine.coef_.ravel(), float(machine.intercept_[0])


def liblinear(X: Any, y: Float, C: float) -> Iterator[tuple[float, Float, float]]:
    """Yield LIBLINEAR's answers, from rough to fine; each took its seconds alone."""
    from sklearn.svm import LinearSVC

    for tolerance in LIBLINEAR_TOLERANCES:
        begun = time.process_time()
        machine = LinearSVC(loss="hinge", C=C, tol=tolerance, max_iter=100_000, random_state=0).fit(X, y)
        yield time.process_time() - begun, machine.coef_.ravel(), float(machine.intercept_[0])


def sgd(X: Any, y: Float, C: float, average: bool = False) -> Iterator[tuple[float, Float, float]]:
    """Yield what SGD has after each pass, and after how many seconds."""
    from sklearn.linear_model import SGDClassifier

    machine = SGDClassifier(loss="hinge", alpha=1.0 / (C * len(y)), random_state=0, average=average)
    spent, random = 0.0, np.random.default_rng(1)
    for _ in range(MOST_PASSES):
        order = random.permutation(len(y))
        rows, labels = X[order], y[order]
        begun = time.process_time()
        machine.partial_fit(rows, labels, classes=[-1.0, 1.0])
        spent += time.process_time() - begun
        yield spent, machine.coef_.ravel(), float(machine.intercept_[0])


def status(field: str) -> int:
    """Return a number of bytes from the kernel's account of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def child(name: str, rows: int, C: float, sparse: bool, most_s: float) -> None:
    """Print a line of JSON for each answer: seconds, objective, bytes."""
    warnings.simplefilter("ignore")
    contenders: dict[str, Callable[[Any, Float, float], Iterator[tuple[float, Float, float]]]] = {
        "stda": stda,
        "stda-linear": stda_linear,
        "liblinear": liblinear,
        "sgd": sgd,
        "sgd-averaged": partial(sgd, average=True),
    }
    X: Any
    X, y = made(rows)
    if sparse:
        from scipy.sparse import csr_array

        X = csr_array(X)
    with threadpool_limits(1):
        for _ in contenders[name](X[:5_000], y[:5_000], C):  # compiles
            break
        Path("/proc/self/clear_refs").write_text("5")
        before, begun = status("VmRSS"), time.monotonic()
        for seconds, w, b in contenders[name](X, y, C):
            risen = status("VmHWM") - before
            print(json.dumps({"seconds": seconds, "objective": objective(X, y, w, b, C), "bytes": risen}), flush=True)
            if time.monotonic() - begun > most_s:
                break


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="A linear machine of many rows.")
    numbers = lambda said: [float(one) for one in said.split(",")]  # noqa: E731
    parser.add_argument("--rows", type=int, default=1_610_000)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--shares", type=numbers, default=[1e-2, 1e-3, 1e-4], help="of the best objective")
    parser.add_argument("--most-s", type=float, default=1_800.0, help="seconds by the clock after which one ends")
    parser.add_argument("--only", type=lambda said: said.split(","), default=list(CONTENDERS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(CONTENDERS):
        parser.error(f"--only {','.join(sorted(unknown))}: give of {', '.join(CONTENDERS)}")
    if options.child:
        child(options.child, options.rows, options.C, options.sparse, options.most_s)
        return
    told: dict[str, list[dict[str, float]]] = {}
    for name in options.only:
        command = [sys.executable, "-m", "tests.benchmarks.large_linear", "--child", name, "--rows", str(options.rows)]
        command += ["--C", str(options.C), "--most-s", str(options.most_s)] + ["--sparse"] * options.sparse
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        told[name] = [json.loads(line) for line in done.stdout.splitlines()]
    best = min(answer["objective"] for answers in told.values() for answer in answers)
    for name, answers in told.items():
        for share in options.shares:
            near = [answer for answer in answers if answer["objective"] <= (1.0 + share) * best]
            row: dict[str, Any] = {"contender": name, "rows": options.rows, "sparse": options.sparse, "share": share}
            row["seconds"] = near[0]["seconds"] if near else None
            row["excess"] = min(answer["objective"] for answer in answers) / best - 1.0
            row["bytes"] = (near or answers)[0]["bytes"]
            if options.json:
                print(json.dumps(row), flush=True)
                continue
            when = f"{row['seconds']:9.2f} s" if near else f"never in {answers[-1]['seconds']:.0f} s"
            print(
                f"{name:<12} {options.rows:>9} rows  within {share:g} of the best: {when}   at best "
                f"{row['excess']:.1e} above it   {row['bytes'] / 2**20:,.0f} MB more than the rows",
                flush=True,
            )


if __name__ == "__main__":
    main()
