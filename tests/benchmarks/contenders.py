"""The contenders of shuffled rows: ours, the same objective on all rows, and SGD.

- `streamsvm`, `rbf`, `additive`: the learner as the trainer runs it, with all defaults but one partition, the kernel,
  and `svm.probability = sigmoid`. One pass, one training at its end. `squared`, `rbf_hinge`: with the other `svm.loss`.
- `additive@2000`: with so many `coreset.points`, and no fewer `coreset.train_points`. `additive@all`: all rows are
  kept, none is reduced, and the machine is trained on all of them; of a set of more than `MOST_ROWS` rows, so many
  points. `streamsvm` and `squared` can be measured so, too.
- `rbf_tuned`: `svm.kernel = rbf`, `svm.tune = auto` and a memory of 64 MB.
- `svm_all`: the same objective and C on all rows, at its optimum (`STDASVC`, certified to 1e-5). The features are
  scaled by all rows' moments, and scikit-learn's sigmoid is fitted over the same rows.
- `sgd`: SGDClassifier with log loss in one pass of batches. Features are scaled by all rows' moments, which favours it.
  The setting (alpha and learning rate, of 25) is the one of the least log loss on a fifth of at most 20,000 training
  rows, after the other four fifths were learned; then all rows are learned. The time includes choosing the setting.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.config.sizes import BUCKETS, LARGEST_AUDIT
from streamsvm.estimators import OPTIMUM_TOLERANCE, SGD_SETTINGS, STDASVC, EmpiricalObjective, Stream
from streamsvm.learning import make
from streamsvm.points import Points

Float = NDArray[np.float64]

TUNED_BYTES: Final = 64_000_000
"""Memory of `rbf_tuned`."""
PORTION: Final = 1_000
"""Rows that are learned at once."""
TUNING_ROWS: Final = 20_000
VALIDATION_SHARE: Final = 0.2
MOST_ROWS: Final = 300_000
"""Rows up to which `all` keeps every one: more than any training part has here."""
ALPHAS: Final = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
OVERFLOWN: Final = 1e100
"""Decision values beyond this are of a setting that diverged."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a contender made of one split.

    `decision` (ndarray of shape (n,)): Of the held-out rows; those above 0 are answered +1. `positive` (ndarray of
    shape (n,)): Their probabilities of +1. `cpu_s`: CPU seconds of training, and of choosing a setting. `bytes`: Of the
    rows held at once, at 4 a feature and 33 more, or of a model of fixed size.
    """

    decision: Float
    positive: Float
    cpu_s: float
    bytes: int


Contender = Callable[..., Answer]
"""(training rows, held-out rows, seed) -> answer; those of `SIZED` take a `coreset`, too."""


# ---------------------------------------------------------------------------------------------------------------- ours


def bytes_of(points: int, dimension: int) -> int:
    """Return what so many points take, or a linear model."""
    return points * PointsConfig(dimension=dimension).point_bytes if points else 8 * (dimension + 1)


def coreset_of(size: str, rows: int) -> CoresetConfig:
    """Return the section that keeps so many points of a training part, or `all` of its rows."""
    most = MOST_ROWS if size == "all" else int(size)
    points = most
    if size == "all" and rows <= most:
        points = (BUCKETS + 1) * (rows + 1) + LARGEST_AUDIT  # the first leaf of a tree is then never full
    return CoresetConfig(points=points, train_points=max(most, CoresetConfig().train_points))


def streamsvm(train: Points, test: Points, seed: int, coreset: CoresetConfig | None = None, **svm: Any) -> Answer:
    """Learn all rows in one pass, and train once."""
    config = ModelConfig(
        points=PointsConfig(dimension=train.dimension),
        coreset=coreset or CoresetConfig(),
        svm=SvmConfig(probability="sigmoid", **svm),
        seed=seed,
    )
    begun, held = time.process_time(), 0
    stream = Stream(config)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* are outliers")  # a few rows of real sets are
        # Rows of a first leaf are bounded anew after each portion: where it has room for all rows, they come at once.
        portion = len(train) if config.coreset.leaf_rows > len(train) else PORTION
        for start in range(0, len(train), portion):
            stream.learn(train.take(slice(start, start + portion)))
            held = max(held, stream.learner.points_held)
    made = make(stream.learner.cut(), config)
    seconds = time.process_time() - begun
    model = made.trained.model
    decision = model.decision_function(test.X)
    # Without a probability, where the audit sample has too few points of a label: the plainest sigmoid.
    positive = expit(decision) if model.probability is None else model.probability.of(decision)
    return Answer(decision, positive, seconds, bytes_of(held, train.dimension))


def rbf_tuned(train: Points, test: Points, seed: int) -> Answer:
    """Learn a tuned kernel machine."""
    most = TUNED_BYTES // bytes_of(1, train.dimension)
    return streamsvm(train, test, seed, CoresetConfig(points=most), kernel="rbf", tune="auto")


# ------------------------------------------------------------------------------------------------ all points, linear


def svm_all(train: Points, test: Points, seed: int) -> Answer:
    """Solve on all rows what `streamsvm` solves on some."""
    begun = time.process_time()
    objective = EmpiricalObjective.over(train, SvmConfig())
    Z = objective.scaler.transform(train.X)
    machine = STDASVC(C=objective.penalty, kernel="linear", tol=OPTIMUM_TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(Z, train.y, sample_weight=objective.weight)
    linear = LinearSVC()  # the same machine: SVC's decision function adds up support vectors, which takes minutes
    linear.coef_, linear.intercept_, linear.classes_ = machine.coef_, machine.intercept_, machine.classes_
    judge = CalibratedClassifierCV(FrozenEstimator(linear), method="sigmoid").fit(Z, train.y)
    seconds = time.process_time() - begun
    aside = objective.scaler.transform(test.X)
    return Answer(linear.decision_function(aside), judge.predict_proba(aside)[:, 1], seconds, bytes_of(*train.X.shape))


def sgd(train: Points, test: Points, seed: int) -> Answer:
    """Choose a setting on some of the rows, then learn all of them in one pass."""
    scaler = StandardScaler().fit(train.X.astype(np.float64))
    Z, y = scaler.transform(train.X.astype(np.float64)), train.y
    begun = time.process_time()
    some = min(len(y), TUNING_ROWS)
    aside = round(some * VALIDATION_SHARE)
    first, second = slice(aside, some), slice(aside)  # split() has shuffled the rows
    best, chosen = math.inf, None
    for alpha, setting in product(ALPHAS, SGD_SETTINGS):
        machine = _passed(Z[first], y[first], {"alpha": alpha, **setting}, seed)
        if machine is not None and (judged := log_loss(y[second], machine.predict_proba(Z[second])[:, 1])) < best:
            best, chosen = judged, {"alpha": alpha, **setting}
    assert chosen is not None, "every setting overflows"
    machine = _passed(Z, y, chosen, seed)
    assert machine is not None, f"{chosen} overflows on all rows"
    seconds = time.process_time() - begun
    held_out = scaler.transform(test.X.astype(np.float64))
    positive = machine.predict_proba(held_out)[:, 1]
    return Answer(machine.decision_function(held_out), positive, seconds, bytes_of(0, train.dimension))


def _passed(Z: Float, y: NDArray[np.int8], setting: Mapping[str, Any], seed: int) -> Any:
    """Return the machine of one pass; None if the setting overflows."""
    machine = SGDClassifier(loss="log_loss", random_state=seed, **setting)
    try:
        for start in range(0, len(y), PORTION):
            rows = slice(start, start + PORTION)
            machine.partial_fit(Z[rows], y[rows], classes=[-1, 1])
    except ValueError:
        return None
    sizes = np.abs(machine.coef_).max(), abs(float(machine.intercept_[0]))
    return machine if max(sizes) < OVERFLOWN else None


OURS: Final[Mapping[str, Contender]] = {
    "streamsvm": streamsvm,
    "additive": partial(streamsvm, kernel="additive"),
    "rbf": partial(streamsvm, kernel="rbf"),
    "squared": partial(streamsvm, loss="squared_hinge"),
    "rbf_hinge": partial(streamsvm, kernel="rbf", loss="hinge"),
    "rbf_tuned": rbf_tuned,
    "svm_all": svm_all,
    "sgd": sgd,
}
SIZED: Final = ("streamsvm", "squared", "additive")
"""Those that are measured with several numbers of kept points, too."""
