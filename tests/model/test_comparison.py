"""What changed between two versions, by versions made by hand whose differences are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from streamsvm.model.comparison import (
    ANSWERS_COMPARED,
    CHANGES_SHOWN,
    Change,
    Comparison,
    Hashed,
    compare,
    relative_gap,
)
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Model, Scaler
from streamsvm.model.version import PartitionCut, Version
from tests.golden.model import handmade

OLD, NEW = "aa" * 32, "bb" * 32


def with_machine(machine: Machine, scaler: Scaler, names: tuple[str, ...] = ()) -> Version:
    return replace(handmade("linear"), model=Model(scaler, machine, None), feature_names=names)


def linear(coefficients: list[float], intercept: float = 0.0, **scaler: Float) -> Version:
    d = len(coefficients)
    units = Scaler(scaler.get("mean", np.zeros(d)), scaler.get("scale", np.ones(d)))
    return with_machine(LinearMachine(np.array(coefficients), intercept), units)


def kernel(support: Float, dual: Float, intercept: float = 0.0) -> Version:
    d = support.shape[1]
    return with_machine(KernelMachine(RbfKernel(0.5), support, dual, intercept), Scaler(np.zeros(d), np.ones(d)))


def with_lineage(version: Version, **changes: Any) -> Version:
    return replace(version, lineage=msgspec.structs.replace(version.lineage, **changes))


def compared(old: Version, new: Version) -> Comparison:
    return compare(Hashed(old, OLD), Hashed(new, NEW))


@pytest.mark.parametrize("shape", ["linear", "rbf", "additive", "additive-classes", "linear-classes"])
def test_a_version_does_not_differ_from_itself(shape: str) -> None:
    """No figure changes, no option, no coefficient, and no answer."""
    version = handmade(shape)
    found = compared(version, version)
    assert (found.before, found.after) == ("pulsar@42", "pulsar@42")
    assert all(change.before == change.after for change in found.figures.values())
    assert found.configuration == []
    assert set(found.lineage["offsets between"].values()) == {0}
    if shape == "linear":
        assert found.answers is None
        assert found.coefficients is not None
        assert found.coefficients.cosine == pytest.approx(1.0)
        assert found.coefficients.norm_ratio == 1.0
    else:
        assert found.coefficients is None
        assert found.answers is not None
        assert (found.answers.points, found.answers.same_label, found.answers.largest) == (
            4 if shape == "rbf" else 16,
            1.0,
            0.0,
        )


def test_the_same_machine_in_other_units_is_the_same() -> None:
    """Two scalers, two sets of coefficients, one function of raw features: nothing has changed."""
    mean, scale = np.array([3.0, -40.0]), np.array([0.25, 8.0])
    raw = linear([2.0, -0.5], 1.0)
    scaled = linear([2.0 * 0.25, -0.5 * 8.0], 1.0 + 2.0 * 3.0 + -0.5 * -40.0, mean=mean, scale=scale)
    found = compared(raw, scaled).coefficients
    assert found is not None
    assert found.cosine == pytest.approx(1.0)
    assert found.norm_ratio == pytest.approx(1.0)
    assert all(change.after == pytest.approx(change.before) for change in found.largest.values())
    assert found.intercept.after == pytest.approx(1.0)


def test_the_features_that_changed_most_come_first_by_their_names() -> None:
    """At most ten, ordered by how much they changed and not by how large they are; without names by their places."""
    d = CHANGES_SHOWN + 2
    before = linear([100.0] + [0.0] * (d - 1))
    after = linear([100.0, *(float(index) for index in range(1, d))])
    found = compared(before, replace(after, feature_names=tuple(f"f{index}" for index in range(d)))).coefficients
    assert found is not None
    assert list(found.largest) == [f"f{index}" for index in range(d - 1, 1, -1)]
    assert found.largest["f11"] == Change(0.0, 11.0)
    unnamed = compared(before, after).coefficients
    assert unnamed is not None
    assert next(iter(unnamed.largest)) == "x[11]"


def test_a_turned_and_a_shrunk_machine_are_told_apart() -> None:
    """The cosine sees the direction alone, the ratio of norms the length alone; a zero has neither."""
    east = linear([2.0, 0.0])
    for other, cosine, ratio in (([0.0, 2.0], 0.0, 1.0), ([-1.0, 0.0], -1.0, 0.5), ([0.0, 0.0], None, 0.0)):
        found = compared(east, linear(other)).coefficients
        assert found is not None
        assert (found.cosine, found.norm_ratio) == (cosine, ratio)
    from_nothing = compared(linear([0.0, 0.0]), east).coefficients
    assert from_nothing is not None
    assert (from_nothing.cosine, from_nothing.norm_ratio) == (None, None)


def test_kernel_machines_are_compared_by_their_answers() -> None:
    """At the support vectors of both: a shift of the intercept is the largest difference, and turns some labels."""
    support = np.array([[0.0], [100.0]])
    old = kernel(support, np.array([1.0, -1.0]))
    found = compared(old, kernel(support, np.array([1.0, -1.0]), intercept=1.5)).answers
    assert found is not None
    assert found.points == 4
    assert found.largest == pytest.approx(1.5)
    assert found.same_label == 0.5  # 1 and -1 become 2.5 and 0.5
    assert compared(old, kernel(support, np.array([1.0, -1.0]), intercept=1.5)).coefficients is None


def test_a_kernel_machine_beside_a_linear_one_is_asked_at_its_own_points() -> None:
    """A linear machine has no support vectors; its answers count all the same, whichever came first."""
    curved, straight = kernel(np.array([[2.0], [-1.0]]), np.array([1.0, -1.0])), linear([1.0])
    for pair in ((curved, straight), (straight, curved)):
        found = compared(*pair)
        assert found.coefficients is None
        assert found.answers is not None
        assert found.answers.points == 2
        assert found.answers.same_label == 1.0


def test_of_many_support_vectors_some_are_asked() -> None:
    """Spread over all of them, so that no part of the machine is left out, and bounded."""
    X = np.arange(2.5 * ANSWERS_COMPARED)[:, None]
    old = kernel(X, np.ones(len(X)))
    new = kernel(X, np.where(X[:, 0] < 2_400, 1.0, -1.0))
    found = compared(old, new).answers
    assert found is not None
    assert ANSWERS_COMPARED < found.points <= 2 * ANSWERS_COMPARED
    assert found.same_label < 1.0


def test_machines_without_a_support_vector_or_of_other_features_are_not_compared() -> None:
    """There is nowhere to ask, or nothing to compare; figures and lineage still are."""
    empty = kernel(np.empty((0, 2)), np.empty(0))
    assert compared(empty, empty).answers is None
    found = compared(linear([1.0]), linear([1.0, 2.0]))
    assert found.coefficients is None
    assert found.answers is None
    assert "points covered" in found.figures


def test_a_figure_that_neither_has_is_left_out() -> None:
    """And one that only one of them has stays, with nothing on the other side."""
    old, new = handmade("linear"), handmade("rbf")
    assert "gamma" not in compared(old, old).figures
    assert compared(old, new).figures["gamma"] == Change(None, 0.25)
    assert compared(new, replace(new, audit=None)).figures["objective over the stream"] == Change(3.625, None)


def test_the_duality_gap_is_a_share_of_the_objective() -> None:
    """None where the solver gives no bound, and no division by an objective of zero."""
    version = handmade("linear")
    assert relative_gap(version) == pytest.approx(0.25 / 3.75)
    assert relative_gap(replace(version, fit=replace(version.fit, dual_objective=None))) is None
    assert relative_gap(replace(version, fit=replace(version.fit, objective=0.0, dual_objective=0.0))) == 0.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parent": OLD}, {"follows directly": True}),
        ({"parent": None}, {"follows directly": False}),
        ({"topic_id": "B" * 22}, {"same input": False}),
        ({"base": ()}, {"same base": False}),
        ({"build": {"numpy": "2.1"}}, {"same build": False}),
        ({"cut": (PartitionCut(0, 1_500, 0, 8), PartitionCut(3, 50, 0, -1))}, {"offsets between": {"0": 300, "3": 0}}),
        ({"cut": (PartitionCut(0, 1_200, 3, 7), PartitionCut(9, 70, 0, -1))}, {"offsets between": {"0": 0, "9": 70}}),
    ],
    ids=["child", "orphan", "topic made anew", "another base", "another build", "further on", "a new partition"],
)
def test_the_lineage_says_how_two_versions_are_related(changes: dict[str, Any], said: Mapping[str, Any]) -> None:
    """Whether one follows the other, from the same input and by the same build, and what was learned between."""
    version = with_lineage(handmade("linear"), parent=NEW)
    unchanged = {"follows directly": False, "same input": True, "same base": True, "same build": True}
    found = compared(version, with_lineage(version, **changes)).lineage
    assert {name: found[name] for name in unchanged} == unchanged | {n: v for n, v in said.items() if n in unchanged}
    if "offsets between" in said:
        assert found["offsets between"] == said["offsets between"]


def test_options_are_written_as_a_person_would_set_them() -> None:
    """As TOML: true, double quotes, tables, under the section's own name; what has no value is not set."""
    before = {
        "svm": {"probability": None},
        "features": {"features": [{"name": "a", "log1p": False}], "label": {"b": 1}},
    }
    now = {"svm": {"probability": "sigmoid"}, "features": {"features": [{"name": "a", "log1p": True, "clip": [0, 1]}]}}
    old, new = (with_lineage(handmade("linear"), configuration=one) for one in (before, now))
    assert compared(old, new).configuration == [
        "features.a.clip was not set, is now [0, 1]",
        "features.a.log1p was false, is now true",
        "features.label was {b = 1}, is now not set",
        'svm.probability was not set, is now "sigmoid"',
    ]
