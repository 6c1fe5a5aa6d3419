"""A training set in two dimensions: its projection, and the border of its model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from consumers.page.boundary import GRID, MOST_NUMBERS, MOST_POINTS, border, contour, project
from streamsvm.model import KernelMachine, LinearMachine, Model, RbfKernel, Scaler
from streamsvm.points import Points
from tests.streams import gaussian


def linear(dimension: int, intercept: float = 0.3) -> Model:
    coefficients = np.random.default_rng(1).standard_normal(dimension)
    return Model(Scaler(np.full(dimension, 0.2), np.full(dimension, 1.5)), LinearMachine(coefficients, intercept))


def test_axes_are_the_principal_components() -> None:
    """Of integer weights, scikit-learn finds the same plane and shares in the points repeated as often."""
    points = gaussian(300, dimension=6)
    points = Points(points.X * np.arange(1, 7), points.y, np.random.default_rng(0).integers(1, 5, 300).astype(float))
    model = linear(6)
    projection = project(points, model)
    repeated = np.repeat(model.scaler.transform(points.X), points.weight.astype(int), axis=0)
    reference = PCA(2).fit(repeated)
    np.testing.assert_allclose(np.abs(projection.axes), np.abs(reference.components_), atol=1e-9)
    np.testing.assert_allclose(projection.share, reference.explained_variance_ratio_, atol=1e-9)
    assert all(axis[np.argmax(np.abs(axis))] > 0 for axis in projection.axes)


@pytest.mark.parametrize("dimension", [1, 3, 5_000])
def test_the_work_is_bounded(dimension: int) -> None:
    """However many points and features there are, so many are drawn at most, and the frame holds nearly all of them."""
    projection = project(gaussian(4_000 if dimension < 9 else 200, dimension=dimension), linear(dimension))
    assert len(projection.xy) <= MOST_POINTS
    assert len(projection.xy) <= 50 or projection.xy.shape[0] * dimension <= MOST_NUMBERS
    assert np.isfinite(projection.xy).all()
    assert projection.inside.mean() > 0.9


@pytest.mark.parametrize("level", [-0.2, 0.0, 0.5])
def test_a_linear_border_is_where_the_decision_value_is_the_level(level: float) -> None:
    """Both ends of the line lie on the plane, in the frame, at exactly that decision value."""
    model = linear(4, intercept=0.1)
    projection = project(gaussian(200, dimension=4), model)
    segments = border(projection, model.machine, level)
    assert len(segments) == 1
    values = model.machine.decide(projection.centre + segments[0] @ projection.axes)
    np.testing.assert_allclose(values, level, atol=1e-9)


def test_a_kernel_border_is_where_the_decision_value_is_zero() -> None:
    """Every end of the contour is close to the surface: its value is small against the values around."""
    points = gaussian(150, seed=3, dimension=2)
    machine = KernelMachine(RbfKernel(0.5), points.X[:40].astype(float), np.where(points.y[:40] > 0, 1.0, -0.6), 0.05)
    projection = project(points, Model(Scaler.identity(2), machine))
    segments = border(projection, machine)
    assert len(segments) > GRID // 4
    ends = projection.centre + segments.reshape(-1, 2) @ projection.axes
    assert np.abs(machine.decide(ends)).max() < 0.1 * np.abs(machine.decide(points.X.astype(float))).max()


def test_a_circle_is_found_whole() -> None:
    """Marching squares meet every point of a circle, each at its radius, and the pieces close."""
    x, y = np.linspace(-2, 2, 41), np.linspace(-2, 2, 51)
    segments = contour(x, y, np.hypot(x[None, :], y[:, None]) - 1.2345)
    ends = segments.reshape(-1, 2)
    assert np.abs(np.hypot(*ends.T) - 1.2345).max() < 0.01
    length = np.hypot(*(segments[:, 0] - segments[:, 1]).T).sum()
    assert abs(length - 2 * np.pi * 1.2345) < 0.02
    places, counts = np.unique(ends.round(9), axis=0, return_counts=True)
    assert (counts == 2).all(), places[counts != 2]


def test_a_saddle_keeps_what_belongs_together() -> None:
    """In a cell of two opposite positive corners the mean decides which corners are cut off."""
    x = y = np.array([0.0, 1.0])
    joined = contour(x, y, np.array([[2.0, -1.0], [-1.0, 2.0]]))
    apart = contour(x, y, np.array([[1.0, -2.0], [-2.0, 1.0]]))
    assert len(joined) == len(apart) == 2
    assert {tuple(sorted(map(tuple, piece.round(6)))) for piece in joined} == {
        ((0.666667, 0.0), (1.0, 0.333333)),
        ((0.0, 0.666667), (0.333333, 1.0)),
    }
    assert {tuple(sorted(map(tuple, piece.round(6)))) for piece in apart} == {
        ((0.0, 0.333333), (0.333333, 0.0)),
        ((0.666667, 1.0), (1.0, 0.666667)),
    }


def test_absurd_numbers_have_a_picture() -> None:
    """Features and weights at the end of what a float64 holds: finite coordinates, no error, no warning."""
    X = np.array([[1e300, -1e300], [1e-300, 1e308], [0.0, -1e308], [5.0, 1.0]])
    points = Points(X, np.array([1, -1, 1, -1], np.int8), np.array([1e308, 1e308, 1e-300, 1.0]))
    projection = project(points, Model(Scaler.identity(2), LinearMachine(np.ones(2), 0.0)))
    assert np.isfinite(projection.xy).all()
    assert np.isfinite(projection.frame).all()
    assert len(border(projection, LinearMachine(np.ones(2), 0.0))) <= 1
