"""What a linear model looks at: the sizes of its coefficients over standardised features."""

from __future__ import annotations

import numpy as np

from streamsvm.model import ClassModel, KernelMachine, LinearMachine, LinearMachines, Model, RbfKernel, Scaler
from streamsvm.quality.importance import importance


def test_a_linear_machine_says_it_itself() -> None:
    """Its coefficients over standardised features, their signs, and their sizes as shares."""
    model = Model(Scaler(np.zeros(3), np.array([1.0, 100.0, 0.01])), LinearMachine(np.array([3.0, -1.0, 0.0]), 0.5))
    found = importance(model)
    assert found is not None
    assert found.value.tolist() == [3.0, -1.0, 0.0]
    assert found.share.tolist() == [0.75, 0.25, 0.0]


def test_several_machines_count_alike() -> None:
    """A share is of the mean size of a feature's coefficients; it has no side."""
    machines = LinearMachines(np.array([[3.0, -1.0], [-1.0, 1.0], [2.0, 0.0]]), np.zeros(3))
    found = importance(ClassModel(Scaler.identity(2), machines, 3, "one_vs_rest"))
    assert found is not None
    assert found.share.tolist() == [0.75, 0.25]
    assert (found.value > 0.0).all()


def test_what_says_nothing_has_no_shares() -> None:
    """A machine of zeros: shares of nothing are 0, not NaN."""
    found = importance(Model(Scaler.identity(2), LinearMachine(np.zeros(2), -1.0)))
    assert found is not None
    assert found.share.tolist() == [0.0, 0.0]


def test_a_kernel_machine_has_none() -> None:
    machine = KernelMachine(RbfKernel(0.5), np.zeros((1, 2)), np.ones(1), 0.0)
    assert importance(Model(Scaler.identity(2), machine)) is None
