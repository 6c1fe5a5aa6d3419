"""The machine that the scorer sums: by compiled code, within the probes' tolerance of what a reader computes."""

from __future__ import annotations

import numpy as np
import pytest

from streamsvm.model import KernelMachine, LinearMachine, Model, RbfKernel, Scaler, probes_of
from streamsvm.model.probes import check
from streamsvm.svm.landmarks import CompiledMachine, compiled


def model_of(support: np.ndarray, gamma: float = 0.1) -> Model:
    dual = np.random.default_rng(1).normal(size=len(support))
    return Model(Scaler.identity(support.shape[1]), KernelMachine(RbfKernel(gamma), support, dual, 0.3))


@pytest.mark.parametrize("terms", [1, 37, 1_000])
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_scores_are_those_of_the_readers_machine(terms: int, share: float) -> None:
    """Dense and sparse, in any batch; the probes hold."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(terms + 3_000, 20)) * (random.random((terms + 3_000, 20)) < share)
    model = model_of(rows[:terms])
    served = compiled(model)
    assert isinstance(served, Model)
    assert isinstance(served.machine, CompiledMachine)
    X = rows[terms:]
    bound = 1e-12 * np.abs(served.machine.dual).sum()
    np.testing.assert_allclose(served.decision_function(X), model.decision_function(X), rtol=0.0, atol=bound)
    parts = [served.decision_function(X[at : at + 700]) for at in range(0, len(X), 700)]
    np.testing.assert_allclose(np.concatenate(parts), model.decision_function(X), rtol=0.0, atol=bound)
    check(served, probes_of(model))


def test_rows_from_afar_get_the_intercept() -> None:
    """No power of an overflow counts as 1."""
    served = compiled(model_of(np.random.default_rng(0).normal(size=(50, 3))))
    far = np.array([[1e200, -1e200, 0.0], [1e308, 1e308, 1e308], [1e9, 0.0, 0.0]])
    np.testing.assert_array_equal(served.machine.decide(far), [0.3] * 3)  # type: ignore[union-attr]


def test_nothing_else_is_changed() -> None:
    """A linear machine, and a kernel machine without a term, are as they are."""
    for machine in (LinearMachine(np.ones(2), 0.0), KernelMachine(RbfKernel(1.0), np.empty((0, 2)), np.empty(0), 1.0)):
        model = Model(Scaler.identity(2), machine)
        assert compiled(model) is model
