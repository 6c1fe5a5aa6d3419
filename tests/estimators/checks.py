"""scikit-learn's own checks of a `CoresetSVC` with so little memory that their sets are reduced."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Final

from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from streamsvm import CoresetSVC

LEAST: Final = 16
"""Least `points` of a chain and of a tree: that of the option."""

REASONS: Final = {
    "check_sample_weight_equivalence_on_dense_data": "A point of weight 2 and a point given twice fill leaves at "
    "different rows and meet different random numbers, so other points stand for the stream; seven digits are left "
    "only where what was drawn has no part in the solution. On average both come near the same optimum.",
    "check_classifiers_train": "It asks an accuracy above 0.83 of one set of three classes and of one of two. A tree "
    "so small has buckets of three points, and a chain of 16 points a bucket of 11, for three classes few: they "
    "hold the planes by chance only. A chain of 30 points holds them.",
    "check_class_weight_classifiers": "It asks that nearly all points go to the class that weighs 10^7 times as much, "
    "and a bucket of a single point has a single label. A chain of 16 points holds it.",
    "check_dtype_object": "It has four classes, of each of which a bucket has to hold a point: the least tree, whose "
    "buckets have three, refuses them by name.",
}
"""Why a check cannot hold for every seed once `CoresetSVC` reduces."""


def failed_seeds(estimator: CoresetSVC, seeds: Iterable[int]) -> dict[str, int]:
    """Return with how many seeds each of scikit-learn's checks failed, of those that failed at all."""
    failed: Counter[str] = Counter()
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(clone(estimator).set_params(seed=seed), on_skip=None, on_fail=None)
        failed.update({one["check_name"] for one in results if one["status"] == "failed"})
    return dict(failed)
