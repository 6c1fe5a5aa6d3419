"""Compiles what the trainers of the tests run, before the first of them starts.

In a bare clone that is a minute of work. Left to the tests, each of those that begin at the same time would do all of
it, and take longer over it than a trainer is waited for.
"""

from __future__ import annotations

from pathlib import Path

from streamsvm.config import ModelConfig
from streamsvm.ingest import json_scan
from streamsvm.learning import tuning
from streamsvm.learning.learner import warm_up
from streamsvm.quality import prequential
from tests.consumers.trainers import settings_for


def compile_kernels() -> None:
    """Fill numba's cache; where it is filled already, this takes a second or two."""
    settings = settings_for("compiled", Path())
    assert settings.points is not None
    config = ModelConfig(points=settings.points, coreset=settings.coreset, svm=settings.svm)
    warm_up(config)
    tuning.warm_up(config)
    prequential.warm_up(settings.points.numpy_dtype)
    json_scan.warm_up(settings.points.numpy_dtype)
