"""C and gamma chosen on a summary, beside a grid search over all of the data.

    python -m tests.benchmarks.tuning --data DIR [--cases htru2/linear ...] [--rows 20000] [--memory 5000] [--seeds 5]
        [--into FILE] [--json]

Any .npz file with X and y (-1, +1) is a set. One row in five, drawn with a fixed seed, is set aside for accuracy
(20,000 at most); of the rest `--rows` are trained on, so that the grid search ends. Both contenders choose among the
same values by the same measure, accuracy over five stratified folds:

- *full data*: scikit-learn's GridSearchCV over StandardScaler and SVC, refit. Once a case: it takes up to an hour.
- *coreset*: `CoresetSVC(tune="auto")` of `--memory` points: one pass, tuning, final training. Once a seed, each with an
  order of the rows of its own; a figure is the median, with least and greatest. `audited` is what the same grid would
  have given if 1,000 rows, drawn uniformly, had chosen instead of the folds.

C is 1 / (alpha n), gamma a multiple of 1 / d. Times are CPU seconds of one thread: wall times on a machine that is busy
with other things say little. `share` is ours over theirs; `lost` is theirs less ours, in points of test accuracy;
`untuned` is the default C and gamma on the same summary. With `--into`, what the file holds is not measured again, so
that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from streamsvm import CoresetSVC

CASES: Final = ("htru2/linear", "htru2/rbf", "credit_default/rbf", "cod_rna/rbf", "ijcnn1/rbf", "skin/rbf")
ALPHAS: Final = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
GAMMAS: Final = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
"""Multiples of 1 / d."""
TEST_SHARE: Final = 0.2
MOST_TEST_ROWS: Final = 20_000
SPLIT_SEED: Final = 7
AUDIT_ROWS: Final = 1_000
LEAST_SEEDS: Final = 3

Cell = dict[str, Any]
Float = NDArray[np.float64]


def read(name: str, directory: Path, rows: int) -> tuple[Float, NDArray[Any], Float, NDArray[Any]]:
    """Return training and test rows of a set, in an order drawn once."""
    with np.load(directory / f"{name}.npz") as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(int)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
    aside = int(TEST_SHARE * len(y))
    test, train = order[:aside][:MOST_TEST_ROWS], order[aside:][:rows]
    return X[train], y[train], X[test], y[test]


def _grid(kernel: str, X: Float) -> tuple[list[float], list[float] | None]:
    """Return the values of C, and of gamma if the kernel has one."""
    n, d = X.shape
    return [1.0 / (alpha * n) for alpha in ALPHAS], [factor / d for factor in GAMMAS] if kernel == "rbf" else None


def full_data(case: str, directory: Path, rows: int) -> Cell:
    """Search the grid over all training rows."""
    name, kernel = case.split("/")
    X, y, X_test, y_test = read(name, directory, rows)
    C, gammas = _grid(kernel, X)
    grid: dict[str, list[float]] = {"svc__C": C}
    if gammas is not None:
        grid["svc__gamma"] = gammas
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC(kernel=kernel)),
        grid,
        scoring="accuracy",
        cv=StratifiedKFold(5, shuffle=True, random_state=0),
    )
    begun = time.process_time()
    search.fit(X, y)
    seconds = time.process_time() - begun
    return {
        "rows": len(y),
        "test_rows": len(y_test),
        "seconds": seconds,
        "accuracy": float(np.mean(search.predict(X_test) == y_test)),
        "alpha": 1.0 / (search.best_params_["svc__C"] * len(y)),
        "gamma": search.best_params_.get("svc__gamma"),
        "score": float(search.best_score_),
        "scores": [float(score) for score in search.cv_results_["mean_test_score"]],
    }


def coreset(case: str, directory: Path, rows: int, memory: int, seed: int) -> Cell:
    """Tune on a summary of the training rows, in an order of the seed."""
    name, kernel = case.split("/")
    X, y, X_test, y_test = read(name, directory, rows)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    settings: dict[str, Any] = {"memory_points": memory, "kernel": kernel, "seed": seed}
    untuned = CoresetSVC(**settings).fit(X, y)
    begun = time.process_time()
    tuned = CoresetSVC(**settings, tune="auto", alphas=ALPHAS, gammas=_grid(kernel, X)[1]).fit(X, y)
    seconds = time.process_time() - begun
    audited = _audited(tuned, settings, X, y, seed)
    return {
        "points": tuned.fit_.points,
        "seconds": seconds,
        "accuracy": _accuracy(tuned, X_test, y_test),
        "alpha": tuned.alpha_,
        "gamma": tuned.gamma_,
        "score": max(score.mean for score in tuned.tuning_),
        "untuned": _accuracy(untuned, X_test, y_test),
        "audited": _accuracy(audited, X_test, y_test),
    }


def _audited(tuned: CoresetSVC, settings: dict[str, Any], X: Float, y: NDArray[Any], seed: int) -> CoresetSVC:
    """Return the machine that 1,000 rows would have chosen, of those of the same summary."""
    sample = np.random.default_rng([seed, 1]).choice(len(y), AUDIT_ROWS, replace=False)
    best, machine = -1.0, tuned
    for score in tuned.tuning_:
        width = {} if score.gamma is None else {"gamma": score.gamma}
        one = CoresetSVC(**settings, alpha=score.alpha, **width)
        one.fit(X, y)
        right = _accuracy(one, X[sample], y[sample])
        if right > best:
            best, machine = right, one
    return machine


def _accuracy(machine: CoresetSVC, X: Float, y: NDArray[Any]) -> float:
    return float(np.mean(machine.predict(X) == y))


class Kept:
    """Cells that were measured, in a file if there is one.

    Parameters
    ----------
    file : Path or None
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._cells: dict[str, Cell] = json.loads(file.read_text()) if file and file.exists() else {}

    def cell(self, name: str, measure: Any, *arguments: Any) -> Cell:
        """Return what was measured under a name; measure it if it was not."""
        if name not in self._cells:
            self._cells[name] = measure(*arguments)
            if self._file:
                self._file.write_text(json.dumps(self._cells, indent=1) + "\n")
        return self._cells[name]


def rows_of(options: argparse.Namespace) -> Iterator[Cell]:
    """Yield a row a case: both contenders, side by side."""
    kept = Kept(options.into)
    for case in options.cases:
        where = case, options.data, options.rows
        prefix = f"{case}/{options.rows}"
        _warm_up(case.split("/")[1])
        ours = [
            kept.cell(f"{prefix}/coreset {options.memory}/{seed}", coreset, *where, options.memory, seed)
            for seed in range(options.seeds)
        ]
        yield row_of(case, kept.cell(f"{prefix}/full data", full_data, *where), ours)


def row_of(case: str, full: Cell, ours: list[Cell]) -> Cell:
    """Compare; intervals are median, least and greatest over seeds."""
    seconds = _interval([one["seconds"] for one in ours])
    return {
        "case": case,
        "full": full,
        "ours": ours,
        "accuracy": _interval([one["accuracy"] for one in ours]),
        "lost": _interval([100.0 * (full["accuracy"] - one["accuracy"]) for one in ours]),
        "lost_untuned": _interval([100.0 * (full["accuracy"] - one["untuned"]) for one in ours]),
        "lost_audited": _interval([100.0 * (full["accuracy"] - one["audited"]) for one in ours]),
        "seconds": seconds,
        "share": seconds[0] / full["seconds"],
    }


def _interval(figures: list[float]) -> tuple[float, float, float]:
    return statistics.median(figures), min(figures), max(figures)


def _warm_up(kernel: str) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(2_000, 2))
    CoresetSVC(memory_points=500, kernel=kernel, tune="auto").fit(X, X[:, 0] + random.normal(size=2_000) > 0)


def lines(row: Cell) -> str:
    """Return a row for people."""
    full, ours = row["full"], row["ours"]
    chosen = sorted({(f"{one['alpha']:.0e}", f"{one['gamma'] or 0:.3g}") for one in ours})
    names = {"lost": "tuned", "lost_untuned": "untuned", "lost_audited": "chosen by 1,000 uniform rows"}
    return "\n".join(
        [
            f"{row['case']}: {full['rows']:,} rows, {full['test_rows']:,} test rows; {ours[0]['points']:,} points",
            f"    full data  {full['accuracy']:.4f} in {full['seconds']:,.1f} s, alpha {full['alpha']:.0e}, gamma "
            f"{full['gamma'] or 0:.3g}; accuracy over folds {full['score']:.4f}",
            f"    coreset    {_said(row['accuracy'], '.4f')} in {_said(row['seconds'], '.2f')} s, share "
            f"{row['share']:.4f}; (alpha, gamma) {', '.join(f'({alpha}, {gamma})' for alpha, gamma in chosen)}; "
            f"over folds {_said(_interval([one['score'] for one in ours]), '.4f')}",
            *(f"    lost, {name:<30} {_said(row[field], '+.2f')}" for field, name in names.items()),
        ]
    )


def _said(interval: tuple[float, float, float], form: str) -> str:
    median, least, greatest = (format(figure, form) for figure in interval)
    return f"{median} ({least} to {greatest})"


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="C and gamma chosen on a summary, beside a search over all the data.")
    parser.add_argument("--data", type=Path, required=True, help="directory of the .npz files")
    parser.add_argument("--cases", nargs="+", default=list(CASES), help="a set and a kernel each")
    parser.add_argument("--rows", type=int, default=20_000, help="most training rows")
    parser.add_argument("--memory", type=int, default=5_000, help="points that the summary holds")
    parser.add_argument("--seeds", type=int, default=5, help="orders of the rows")
    parser.add_argument("--into", type=Path, help="results, which a stopped run goes on from")
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of text")
    options = parser.parse_args(arguments)
    if options.seeds < LEAST_SEEDS:
        parser.error(f"--seeds {options.seeds}: fewer than {LEAST_SEEDS} give no interval worth reporting")
    if not options.json:
        print(f"scikit-learn {sklearn.__version__}, numpy {np.__version__}; one thread, CPU seconds", flush=True)
        print(
            "lost: points of test accuracy, full data's less ours; median (least to greatest) over orders", flush=True
        )
    rows = []
    with threadpool_limits(1):
        for row in rows_of(options):
            rows.append(row)
            if not options.json:
                print(f"\n{lines(row)}", flush=True)
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
