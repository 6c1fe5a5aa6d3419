"""What `tests.compiled` compiles: `python -m tests.kernels PART`. Hardly a function is in both parts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from consumers.trainer import kernels
from streamsvm.config import ModelConfig, SvmConfig
from streamsvm.learning import training
from tests.consumers.trainers import settings_for


def linear() -> None:
    """Compile what the tests' trainers of a linear machine run."""
    settings = settings_for("compiled", Path())
    assert settings.points is not None
    config = ModelConfig(points=settings.points, coreset=settings.coreset, svm=settings.svm)
    kernels.prepare(config, registry=True)


def rbf() -> None:
    """Compile what an RBF machine needs besides."""
    training.warm_up(SvmConfig(C=1.0, kernel="rbf", gamma=0.5))


PARTS: Final[Mapping[str, Callable[[], None]]] = {"linear": linear, "rbf": rbf}

if __name__ == "__main__":
    PARTS[sys.argv[1]]()
