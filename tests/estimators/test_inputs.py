"""Rows and values that count for nothing, or that a stream cannot hold, in `CoresetSVC`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from streamsvm import CoresetSVC


def numbers(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.integers(-8, 8, (n, 6)).astype(float)
    X[random.random((n, 6)) < 0.5] = 0.0
    X[::17] = 0.0
    return X, (X[:, 0] + 0.3 * X[:, 1] + random.standard_normal(n) > 0).astype(int)


MEMORIES: list[dict[str, Any]] = [
    {},
    {"points": 16},
    {"memory": "window", "window": 60, "points": 600},
    {"memory": "decay", "half_life": 30},
    {"memory": "adaptive"},
    {"kernel": "rbf", "gamma": 0.5},
    {"class_weight": "balanced"},
    {"probability": "sigmoid"},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", MEMORIES, ids=str)
@pytest.mark.parametrize(("size", "begin"), [(1, 0), (10, 20)])
def test_portions_of_weight_0_are_ignored(options, size, begin) -> None:
    """Portions in which no row counts, the first included, change nothing: the model is that of the other rows."""
    random = np.random.default_rng(0)
    X = random.standard_normal((120, 3))
    y = (X[:, 0] > 0).astype(int)
    weight = np.where((np.arange(120) % 5 == 0) | (np.arange(120) < begin), 0.0, 1.0)
    kept = weight > 0.0
    whole = CoresetSVC(**options).partial_fit(X[kept], y[kept], classes=[0, 1])
    ours = CoresetSVC(**options)
    for at in range(0, 120, size):
        part = slice(at, at + size)
        ours.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=weight[part])
    np.testing.assert_array_equal(ours.decision_function(X), whole.decision_function(X))
    assert ours.training_set_sha256_ == whole.training_set_sha256_


def test_a_first_portion_of_weight_0_without_classes_is_ignored() -> None:
    """The first row that counts begins the stream; until then nothing is learned. A later one changes no state."""
    X, y = numbers(40)
    ours = CoresetSVC().partial_fit(X[:5] + 1.0, np.full(5, 9), sample_weight=np.zeros(5))
    assert not hasattr(ours, "classes_")
    ours.partial_fit(X, y)
    whole = CoresetSVC().partial_fit(X, y)
    before = pickle.dumps(ours)
    ours.partial_fit(X, y, sample_weight=np.zeros(40))
    assert pickle.dumps(ours) == before
    np.testing.assert_array_equal(ours.coef_, whole.coef_)


def test_rows_of_weight_0_alone_are_no_model() -> None:
    """Where all classes are known and no row counted yet, a prediction is refused as before the first call."""
    X, y = numbers(40)
    ours = CoresetSVC().partial_fit(X, y, classes=[0, 1], sample_weight=np.zeros(40))
    for machine in (ours, pickle.loads(pickle.dumps(ours))):
        with pytest.raises(NotFittedError):
            machine.predict(X)
        np.testing.assert_array_equal(machine.partial_fit(X, y).coef_, CoresetSVC().fit(X, y).coef_)


def test_a_value_is_refused_by_the_type_that_is_stored() -> None:
    """A row of float64 that a stream of float32 cannot hold is refused as float32, by its row as given."""
    X, y = numbers(40)
    ours = CoresetSVC().partial_fit(X.astype(np.float32), y)
    X[3, 1] = 1e300
    for weight in (np.ones(40), (np.arange(40) > 1).astype(float)):
        with pytest.raises(ValueError, match=r"X\[3, 1\] is 1e\+300; .*3\.40282e\+38 .*kept as float32"):
            ours.partial_fit(X, y, sample_weight=weight)
