"""Rows that several tests of estimators learn from."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.datasets import load_htru2


@pytest.fixture(scope="session")
def htru2() -> tuple[np.ndarray, np.ndarray]:
    """The pulsar survey in a random order."""
    X, y, _ = load_htru2()
    order = np.random.default_rng(5).permutation(len(y))
    return X[order], y[order].astype(int)
