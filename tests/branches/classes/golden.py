"""The golden checkpoint of a screen for more than two labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from streamsvm.branches.classes.class_screening import ClassScreen, ClassScreened
from streamsvm.checkpoint import Snapshot
from streamsvm.coreset import BINS
from tests.golden.checkpoint import handmade


def handmade_classes() -> Snapshot:
    """Return the same with a screen for three labels, of which two have a problem."""
    made = handmade()
    d, classes, problems = 2, 3, 2
    screen = ClassScreen(
        rows=16,
        rate=0.1,
        scaling=np.array([[0.1, -2.5], [1e-3, 7.0]]),
        class_weight=np.array([1.0, 2.0, 1e-9]),
        labels=np.array([0, 2]),
        coefficients=np.arange(4.0).reshape(problems, d),
        intercepts=np.array([0.5, -0.0]),
        label_mean=np.arange(8.0).reshape(problems, 2, d),
        terms=np.arange(24.0).reshape(problems, 2, 6),
        projection=np.arange(24, dtype=np.float32).reshape(problems, 4, 3),
    )
    screened = ClassScreened(
        screen=screen,
        thinnings=1,
        counts=np.array([4, 0, 5]),
        sums=np.linspace(0.0, 0.99, classes * BINS).reshape(classes, BINS),
        weight=np.array([1.5, 0.0, 1e9]),
        active=np.array([[1.0, 2.0], [3.0, 4.0]]),
        moments_sums=np.array([[1.0, 2.0], [3.0, 4.0]]),
        gradient=np.array([[-1.0, 0.25], [1e-300, 8.0]]),
    )
    first = replace(made.learner.partitions[0], screened=screened)
    return replace(made, learner=replace(made.learner, partitions={**made.learner.partitions, 0: first}))


CHECKPOINTS: Final[Mapping[str, Callable[[], Snapshot]]] = {"checkpoint-1-classes": handmade_classes}
PARTS: Final = (("screen", "checkpoint-1-classes", "classes"),)
