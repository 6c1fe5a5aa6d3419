"""SVC, LinearSVC, SGDClassifier, CoresetSVC and STDASVC on the same rows: seconds, accuracy, and rows held in memory.

    python -m tests.benchmarks.which [--rounds 5] [--json]

Data: HTRU2 (two classes, 8 features) and scikit-learn's digits (ten classes, 64 features), standardised; a fifth is
held out. Settings are the defaults, but for the penalty: C = 1, for SGD alpha = 1 / n, which is the same objective. One
thread; medians of rounds, contenders in turn. Balanced accuracy, because nine in ten of HTRU2's rows are no pulsars.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from streamsvm import STDASVC, CoresetSVC
from streamsvm.datasets import load_htru2
from tests.benchmarks.timing import ROUNDS_AT_LEAST

MEMORY: Final = 1_000
"""Points that `CoresetSVC` holds."""
CONTENDERS: Final[dict[str, Callable[[int], Any]]] = {
    "SVC, rbf": lambda n: SVC(),
    "STDASVC, rbf": lambda n: STDASVC(),
    "SVC, linear": lambda n: SVC(kernel="linear"),
    "STDASVC, linear": lambda n: STDASVC(kernel="linear"),
    "LinearSVC, hinge": lambda n: LinearSVC(loss="hinge", max_iter=100_000),
    "SGDClassifier": lambda n: SGDClassifier(alpha=1.0 / n, random_state=0),
    "CoresetSVC, linear": lambda n: CoresetSVC(C=1.0, memory_points=MEMORY),
    "CoresetSVC, rbf": lambda n: CoresetSVC(C=1.0, kernel="rbf", memory_points=MEMORY),
}
"""By name, what makes each for so many rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one contender came to on one set.

    Attributes
    ----------
    data, contender : str
    fit_s, predict_s : float
        Medians; of predicting the held-out rows.
    accuracy : float
        Balanced, of the held-out rows.
    held : int
        Rows in memory while it learns.
    """

    data: str
    contender: str
    fit_s: float
    predict_s: float
    accuracy: float
    held: int


def sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the sets by name."""
    X, y, _ = load_htru2()
    return {"htru2": (X.astype(np.float64), y), "digits": load_digits(return_X_y=True)}


def measured(data: str, X: np.ndarray, y: np.ndarray, rounds: int) -> list[Row]:
    """Return a row for each contender."""
    train, test, label, truth = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTENDERS}
    accuracy = dict.fromkeys(CONTENDERS, 0.0)
    for _ in range(rounds):
        for name, make in CONTENDERS.items():
            begun = time.perf_counter()
            machine = make(len(train)).fit(train, label)
            fitted = time.perf_counter()
            answers = machine.predict(test)
            seconds[name].append((fitted - begun, time.perf_counter() - fitted))
            accuracy[name] = float(balanced_accuracy_score(truth, answers))
    return [
        Row(
            data,
            name,
            *(statistics.median(one) for one in zip(*seconds[name], strict=True)),
            accuracy[name],
            MEMORY if name.startswith("CoresetSVC") else len(train),
        )
        for name in CONTENDERS
    ]


def table(rows: list[Row]) -> str:
    """Return the rows for people."""
    lines = [f"{'data':8}{'contender':20}{'fit, s':>9}{'predict, s':>12}{'accuracy':>10}{'rows held':>11}"]
    lines += [
        f"{row.data:8}{row.contender:20}{row.fit_s:9.3f}{row.predict_s:12.4f}{row.accuracy:10.4f}{row.held:11,}"
        for row in rows
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="Five classifiers of the same kind, on the same rows.")
    parser.add_argument("--rounds", type=int, default=ROUNDS_AT_LEAST)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.rounds < ROUNDS_AT_LEAST:
        parser.error(f"--rounds {options.rounds}: at least {ROUNDS_AT_LEAST}")
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kernel in ("linear", "rbf"):
            STDASVC(kernel=kernel).fit(np.arange(1_000.0).reshape(500, 2) % 7, np.arange(500) % 2)  # compiles
        rows = [row for data, (X, y) in sets().items() for row in measured(data, X, y, options.rounds)]
    if options.json:
        print(json.dumps({"scikit_learn": sklearn.__version__, "rows": [asdict(row) for row in rows]}))
    else:
        print(f"scikit-learn {sklearn.__version__}, one thread, medians of {options.rounds} rounds\n\n{table(rows)}")


if __name__ == "__main__":
    sys.exit(main())
