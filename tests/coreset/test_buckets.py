"""Buckets: exact totals of rows, however these come, and what ranges of a log become when they are joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamsvm.coreset.buckets import Bucket, Extent, Moments, joined, label_index, label_weights
from streamsvm.points import Points, Position
from tests.coreset.streams import mixture


def check_moments(moments: Moments, points: Points, labels: int, tolerance: float = 1e-10) -> None:
    """Assert that moments are those that numpy computes of all points at once."""
    X, u = points.X.astype(np.float64), points.weight
    mean = np.average(X, axis=0, weights=u)
    codes = (-1, 1) if labels == 2 else range(labels)
    assert moments.count == len(points)
    np.testing.assert_allclose(moments.class_weight, [u[points.y == code].sum() for code in codes], rtol=1e-12)
    np.testing.assert_allclose(moments.weight, u.sum(), rtol=1e-12)
    np.testing.assert_allclose(moments.mean, mean, rtol=tolerance)
    np.testing.assert_allclose(moments.square, u @ np.square(X - mean), rtol=tolerance)


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("decades", [0.0, 6.0])
def test_moments_are_those_of_numpy(labels: int, decades: float) -> None:
    points = mixture(3_000, labels=labels, decades=decades)
    check_moments(Moments.zero(3, labels).add(points), points, labels)


def test_moments_of_features_far_from_zero_keep_their_digits() -> None:
    """A sum of squares minus a square of the sum would have lost all of them."""
    points = mixture(3_000, dtype="float64")
    far = replace(points, X=points.X + 1e9)
    found = Moments.zero(3).add(far).scale
    np.testing.assert_allclose(found, np.std(points.X, axis=0), rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 7, 999])
def test_adding_in_batches_changes_no_bit(size: int) -> None:
    points, moments = mixture(1_000, decades=6.0), Moments.zero(3)
    for start in range(0, 1_000, size):
        moments = moments.add(points.take(slice(start, start + size)))
    whole = Moments.zero(3).add(points)
    for name in ("count", "class_weight", "mean", "square"):
        np.testing.assert_array_equal(getattr(moments, name), getattr(whole, name))


@pytest.mark.parametrize("labels", [2, 4])
def test_merged_moments_are_those_of_all_points(labels: int) -> None:
    points, merged = mixture(3_000, labels=labels, decades=6.0), Moments.zero(3, labels)
    for part in (slice(0, 1), slice(1, 700), slice(700, 700), slice(700, 3_000)):
        merged = merged.merge(Moments.zero(3, labels).add(points.take(part)))
    check_moments(merged, points, labels)


def test_the_scale_of_a_constant_feature_is_one() -> None:
    """Also where rounding makes it vary, and where there are no points."""
    points = mixture(500, decades=6.0)
    points.X[:, 1] = 0.1
    first, second = (Moments.zero(3).add(points.take(part)) for part in (slice(0, 200), slice(200, 500)))
    X, u = points.X.astype(np.float64), points.weight
    std = np.sqrt(np.average(np.square(X - np.average(X, axis=0, weights=u)), axis=0, weights=u))
    np.testing.assert_allclose(first.merge(second).scale, [std[0], 1.0, std[2]], rtol=1e-9)
    assert Moments.zero(3).scale.tolist() == [1.0, 1.0, 1.0]


def extent(start: int, rows: int, times: tuple[int, int], points: Points) -> Extent:
    return Extent(
        start=Position(start),
        end=Position(start + rows),
        rows=rows,
        first_time_ms=times[0],
        last_time_ms=times[1],
        moments=Moments.zero(3).add(points),
    )


def test_joined_extents_span_from_the_first_to_the_last() -> None:
    """A range without times adds none, and a gap between ranges is an error."""
    points = mixture(60)
    spans, times = (slice(0, 10), slice(10, 30), slice(30, 60)), ((-1, -1), (70, 90), (50, 80))
    parts = [points.take(span) for span in spans]
    extents = [
        extent(span.start, span.stop - span.start, own, part)
        for span, own, part in zip(spans, times, parts, strict=True)
    ]
    whole = joined([Bucket(part, own) for part, own in zip(parts, extents, strict=True)])
    assert (whole.start, whole.end, whole.rows) == (Position(0), Position(60), 60)
    assert (whole.first_time_ms, whole.last_time_ms) == (50, 90)
    check_moments(whole.moments, points, 2)
    with pytest.raises(AssertionError):
        extents[0].join(extents[2])


def test_labels_have_indexes_in_their_order() -> None:
    """Two labels are signs, more are indexes already."""
    assert label_index(np.array([1, -1, -1], np.int8), 2).tolist() == [1, 0, 0]
    assert label_index(np.array([2, 0, 1], np.int8), 3).tolist() == [2, 0, 1]
    points = Points(np.zeros((3, 1)), np.array([2, 0, 2], np.int8), np.array([1.0, 2.0, 4.0]))
    assert label_weights(points, 4).tolist() == [2.0, 0.0, 5.0, 0.0]
