"""`CoresetSVC` that forgets: portions and copies change nothing, and a change of the world is followed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from streamsvm import CoresetSVC

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")


def turning(n: int, classes: int = 2) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 3))
    bounds = np.linspace(-0.8, 0.8, classes - 1) if classes > 2 else [0.0]
    y = np.digitize(X[:, 0] + 0.1 * random.normal(size=n), bounds)
    y[n // 2 :] = classes - 1 - y[n // 2 :]
    return X, y


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "adaptive"},
        {"memory": "window", "window": 2_000},
        {"memory": "decay", "half_life": 1_000},
        {"memory": "adaptive", "kernel": "rbf"},
    ],
)
def test_the_newest_rows_are_followed_whatever_the_portions(options: dict[str, Any]) -> None:
    """Better than what remembers, after the rule has turned; the same bytes after a pickle in between."""
    X, y = turning(6_000)
    whole, cut_up = (CoresetSVC(points=1_500, **options) for _ in range(2))
    whole.fit(X, y)
    for start in range(0, 6_000, 1_234):
        cut_up.partial_fit(X[start : start + 1_234], y[start : start + 1_234], classes=[0, 1])
        cut_up = pickle.loads(pickle.dumps(cut_up))
    assert cut_up.training_set_sha256_ == whole.training_set_sha256_
    fresh, rule = turning(1_000)
    assert whole.score(fresh[500:], rule[500:]) > 0.85
    assert CoresetSVC(points=1_500).fit(X, y).score(fresh[500:], rule[500:]) < 0.75
    assert sum(one.share for one in whole.horizons_) == pytest.approx(1.0)


def test_more_classes_share_the_horizons() -> None:
    """Errors are those of the answer, not of each machine."""
    X, y = turning(6_000, classes=3)
    machine = CoresetSVC(points=1_500, memory="adaptive").fit(X, y)
    fresh, rule = turning(1_000, classes=3)
    assert machine.score(fresh[500:], rule[500:]) > 0.75
