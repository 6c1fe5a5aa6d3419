"""Shapes of additive machines: exact in raw units, compared where they differ, and drawn where matplotlib is there."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from streamsvm.errors import ConfigurationError
from streamsvm.model import AdditiveMachine, Hashed, Model, Scaler, Version, compare
from streamsvm.model.additive import Surface
from streamsvm.model.shapes import Shape, changes_of, plot, shapes_of
from streamsvm.points import Points
from tests.golden.model import handmade


def golden() -> tuple[Version, tuple[Shape, ...]]:
    version = handmade("additive")
    found = shapes_of(version.model, version.feature_names)
    assert found is not None
    return version, found


def curve(values: list[float], knots: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0, 4.0)) -> Shape:
    return Shape("", ("a",), (knots,), tuple(values), max(values) - min(values))


def test_a_score_is_the_sum_of_its_shapes_and_the_intercept() -> None:
    """Read at raw features, beyond the knots, too; the strongest comes first, and what is not read has no curve."""
    version, shapes = golden()
    assert [one.names for one in shapes] == [("mean",), ("dm",), ("mean", "kurtosis µ")]
    assert [one.range for one in shapes] == pytest.approx([2.0, 5 / 6, 0.825])
    units = np.random.default_rng(0).normal(size=(100, 3)) * 3.0
    X = version.model.scaler.mean + version.model.scaler.scale * units
    added = np.full(len(X), version.model.machine.intercept)
    for one in shapes:
        columns = [version.feature_names.index(name) for name in one.names]
        added += [float(one.on([row[[column]] for column in columns]).squeeze()) for row in X]
    np.testing.assert_allclose(added, version.model.decision_function(X), rtol=1e-9, atol=1e-12)


def test_a_change_is_named_with_its_place() -> None:
    """The range ends where half of the peak is left; a level alone, and the knots, are no change."""
    (found,) = changes_of([curve([0.0] * 5)], [curve([0.0, 0.0, 1.0, 0.0, 0.0])])
    assert (found.title, found.change) == ("a", pytest.approx(0.8))
    assert found.where == (pytest.approx((1.6, 2.4)),)
    assert changes_of([curve([0.0, 1.0, 2.0, 3.0, 4.0])], [curve([7.0, 11.0], (0.0, 4.0))]) == ()
    (ends,) = changes_of([curve([0.0, 0.0], (0.0, 4.0))], [curve([0.0, 4.0], (0.0, 4.0))])
    assert ends.change == pytest.approx(-2.0)
    assert ends.where == (pytest.approx((0.0, 1.0)),)


def test_pairs_come_and_go() -> None:
    """They are named, whatever they add; what is in neither machine is not."""
    version, _ = golden()
    machine = version.model.machine
    (surface,) = machine.surfaces
    other = Surface(1, 2, surface.rows, surface.columns, np.zeros((3, 2)))
    later = replace(version, model=replace(version.model, machine=replace(machine, surfaces=(other,))))
    found = compare(Hashed(version, "a"), Hashed(later, "b")).shapes
    assert found is not None
    assert [(one.title, one.before is None, one.after is None) for one in found] == [
        ("mean & kurtosis µ", False, True),
        ("kurtosis µ & dm", True, False),
    ]
    assert abs(found[0].change) > 0.3
    assert found[1].change == 0.0
    assert compare(Hashed(version, "a"), Hashed(handmade("linear"), "b")).shapes is None


def test_the_same_machine_in_other_units_has_not_changed() -> None:
    """Another scaler, the same function of raw features."""
    version, before = golden()
    machine, scaler = version.model.machine, version.model.scaler
    moved = AdditiveMachine(
        tuple(2.0 * knots for knots in machine.knots),
        machine.values,
        tuple(one._replace(rows=2.0 * one.rows, columns=2.0 * one.columns) for one in machine.surfaces),
        machine.intercept,
    )
    model = Model(Scaler(scaler.mean, scaler.scale / 2.0), moved)
    assert changes_of(before, shapes_of(model, version.feature_names)) == ()
    assert shapes_of(version.model)[0].names == ("x[0]",)


@pytest.mark.parametrize("kind", ["additive-classes", "additive-rest"])
def test_each_machine_of_more_labels_has_shapes_of_its_own(kind: str) -> None:
    """Named after what it tells apart, so that a comparison sees which one changed."""
    version = handmade(kind)
    shapes = shapes_of(version.model, version.feature_names, version.labels)
    labels = {str(label) for label in version.labels}
    said = [tuple(one.machine.split(" or ")) for one in shapes]
    assert {len(of) for of in said} == {2 if kind == "additive-classes" else 1}
    assert {label for of in said for label in of} <= labels
    machines = [version.model.model(place).machine for place in range(version.model.machines)]
    assert len(shapes) == sum(len(values) > 0 for one in machines for values in (*one.values, *one.surfaces))
    own = next(one for one in shapes if len(one.names) == 1)
    later = [doubled(one) if one is own else one for one in shapes]
    assert [one.title for one in changes_of(shapes, later)] == [own.title]


def doubled(one: Shape) -> Shape:
    """Return a curve that is twice as strong."""
    return Shape(one.machine, one.names, one.knots, tuple(2.0 * value for value in one.values), 2.0 * one.range)


def test_shapes_are_plotted() -> None:
    """An axes object for each; a name with dollars is no formula, and a machine without shapes is an empty figure."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[plot]'")
    _, shapes = golden()
    figure, axes = plot([renamed(one) for one in shapes], shown=False)
    figure.canvas.draw()
    assert [one.get_xlabel() for one in axes] == [r"$\x$"] * 3
    assert len(plot([], shown=False)[1]) == 0


def renamed(one: Shape) -> Shape:
    return Shape("", (r"$\x$",) * len(one.names), one.knots, one.values, one.range)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with what to install."""
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=r"matplotlib cannot be imported.*\[plot\]"):
        plot([curve([0.0] * 5)], shown=False)


def test_the_points_between_knots_are_counted_by_weight() -> None:
    """Also where they are float32, and most of them at the outer knots: of two values all are between the two."""
    random = np.random.default_rng(1)
    X = np.column_stack([random.normal(size=500), random.random(500) < 0.1]).astype(np.float32)
    points, scaler = Points(X, np.ones(500, np.int8), random.random(500)), Scaler(X.mean(axis=0), X.std(axis=0))
    z = scaler.transform(X)
    knots = np.quantile(z[:, 0], [0.0, 0.3, 0.6, 1.0], method="lower"), np.unique(z[:, 1])
    values = np.array([3.0, 0.0, 0.0, 0.0]), np.array([0.0, 1.0])
    found = shapes_of(Model(scaler, AdditiveMachine(knots, values, (), 0.0)), ("a", "a"), (), points)
    assert found is not None
    low, middle, _ = (knots[0][1:] <= z[:, :1]).T
    places = ~low, low & ~middle, middle
    shares = [points.weight[place].sum() / points.weight.sum() for place in places]
    assert [one.shares for one in found] == [pytest.approx(shares), (1.0,)]
