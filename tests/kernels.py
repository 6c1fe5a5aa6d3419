"""What `tests.compiled` compiles: `python -m tests.kernels PART`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from consumers.trainer import kernels
from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.estimators import CoresetSVC
from streamsvm.learning.learner import warm_up
from tests.consumers.trainers import settings_for

X: Final = np.random.default_rng(0).standard_normal((700, 2))
Y: Final = (X[:, 0] + X[:, 1] > 0).astype(int)


def linear() -> None:
    """Compile what a trainer of a linear machine runs."""
    kernels.prepare(trainers(), registry=True)


def rbf() -> None:
    """Compile what a trainer of an RBF machine runs."""
    warm_up(trainers().model_copy(update={"svm": SvmConfig(C=1.0, kernel="rbf", gamma=0.5)}))


def paper() -> None:
    """Compile what `STDASVC` runs."""
    from streamsvm import STDASVC

    for kernel in ("linear", "rbf"):
        STDASVC(kernel=kernel).fit(X, Y)
    STDASVC().fit(X, np.digitize(X[:, 0], [-1.0, -0.5, 0.0, 0.5, 1.0]))


def tight() -> None:
    """Compile what trainers do not use by default: the solver in float64 throughout."""
    for kernel in ("linear", "rbf"):
        CoresetSVC(C=1.0, kernel=kernel, tol=1e-10).fit(X, Y)


def trainers() -> ModelConfig:
    """Return the configuration of the tests' trainers."""
    settings = settings_for("compiled", Path())
    assert settings.points is not None
    return ModelConfig(points=settings.points, coreset=settings.coreset, svm=settings.svm)


PARTS: Final[Mapping[str, Callable[[], None]]] = {"linear": linear, "rbf": rbf, "paper": paper, "tight": tight}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
