"""C and gamma chosen on a summary, beside a grid search over all of the data.

    python -m tests.benchmarks.tuning --data DIR [--cases htru2/linear ...] [--rows 20000] [--memory 5000] [--seeds 3]
        [--into FILE] [--json]

Any .npz file with X and y (-1, +1) is a set. One row in five, drawn with a fixed seed, is set aside for accuracy; of
the rest `--rows` are trained on at most, so that the grid search ends. Both contenders choose among the same values:

- *full data*: scikit-learn's GridSearchCV over StandardScaler and SVC, five stratified folds, accuracy, refit. Once a
  case, because it takes minutes to an hour.
- *coreset*: `CoresetSVC(tune="auto")` of `--memory` points, one pass, tuning and final training included. Once a seed,
  each an order of the rows of its own; figures are medians with least and greatest.

C is 1 / (alpha n), gamma a multiple of 1 / d. Times are CPU seconds of one thread: wall times on a machine that is busy
with other things say little. `share` is ours over theirs. `lost` is theirs less ours, in points of test accuracy;
`untuned` is what the default settings give on the same summary. With `--into`, what the file holds is not measured
again, so that a stopped run goes on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

CASES: Final = ("htru2/linear", "credit_default/linear", "htru2/rbf", "cod_rna/rbf", "ijcnn1/rbf", "credit_default/rbf")
ALPHAS: Final = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
GAMMAS: Final = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
"""Multiples of 1 / d."""
TEST_SHARE: Final = 0.2
MOST_TEST_ROWS: Final = 20_000
SPLIT_SEED: Final = 7

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


def full_data(case: str, directory: Path, rows: int) -> Cell:
    """Search the grid over all training rows."""
    name, kernel = case.split("/")
    X, y, X_test, y_test = read(name, directory, rows)
    grid: dict[str, list[float]] = {"svc__C": [1.0 / (alpha * len(y)) for alpha in ALPHAS]}
    if kernel == "rbf":
        grid["svc__gamma"] = [factor / X.shape[1] for factor in GAMMAS]
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
