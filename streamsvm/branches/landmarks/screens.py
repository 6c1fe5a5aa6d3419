"""Screens of leaves by landmarks: the margin is that of a rough kernel machine, `Landmarks`.

Importance has no part for sensitivity, and influence is activity alone, as in a reduction under a kernel pilot. Where a
pilot is crowded, the screen has no landmarks, importance is 1, and a leaf is a plain sample of its rows.

Of such a `streamsvm.coreset.screening.Screen`, `label_mean` has no rows; `scaling`, `coefficients` (of shape (k,)),
`intercept` and `projection` (the places, of shape (d, k)) are those of `Landmarks`; and s is (first + second *
activity) * sixth of `terms`. Where points are crowded, k is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final
from weakref import ref

import numpy as np

from streamsvm.branches.landmarks.landmark_pilots import LandmarkPilot, again, are_screened, seals_a_pilot
from streamsvm.branches.landmarks.landmarks import Decided, Landmarks, evaluate_landmarks, places_among
from streamsvm.config import ModelConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Pilot
from streamsvm.coreset.reducers.calibrated import KERNEL_SHARES
from streamsvm.coreset.row_kernels import DELTA
from streamsvm.coreset.screen_making_kernels import rate_of
from streamsvm.coreset.screening import LEAST_CAPACITY, TARGET, KernelMargins, Rows, Screen, Screener
from streamsvm.coreset.screens import LeafRule
from streamsvm.learning.leaf_screens import LeafScreens, NodePilot, Sealed
from streamsvm.learning.tasks import Task
from streamsvm.linalg import Float
from streamsvm.points import Features, Points, Signs

MOST_RATED: Final = 8_192
"""Most points by which the rate of a screen is set."""


class LandmarkMargins(KernelMargins):
    """Evaluates screens of landmarks."""

    def evaluate(self, rows: Rows, screen: Screen, margin: Float, share: Float, totals: Float) -> None:
        """See `KernelMargins`."""
        machine = screen.scaling, screen.projection, screen.coefficients, screen.intercept
        evaluate_landmarks(*rows, *machine, screen.terms, margin, share, totals)


MARGINS: Final = LandmarkMargins()


class LandmarkScreens(LeafScreens):
    """By the margin of a few landmarks of an RBF machine; parameters as of `LeafScreens`."""

    least_leaves: ClassVar[int] = 1
    _decided: tuple[Landmarks, ref[Features], Float] | None = None
    """Of the bucket's points. It saves time and decides nothing, and keeps no points in memory."""

    @classmethod
    def wanted(cls, config: ModelConfig, task: Task) -> bool:  # noqa: ARG003
        """Return whether landmarks are configured."""
        return are_screened(config) and config.coreset.leaf_rows >= LEAST_CAPACITY

    @classmethod
    def warm_up(cls, config: ModelConfig, say: Callable[[str], None]) -> None:  # noqa: ARG003
        """See `LeafScreens`; the rest is what `LinearScreens` compiles."""
        if config.coreset.screens:
            warm_up(config.points.numpy_dtype)

    def share(self, points: int) -> float:
        """Return no more than until a leaf's points stand for as many rows as those of the bucket do."""
        coreset = self._config.coreset
        if points + coreset.leaf_rows <= coreset.bucket_points:
            return 0.0  # there is room for a whole leaf
        return min(coreset.SCREENING, TARGET * coreset.leaf_rows / max(1, points))

    def begun(self, sealed: Sealed) -> Screener | None:
        """See `LeafScreens`."""
        points, moments, pilot = sealed.points, sealed.extent.moments, sealed.pilot
        if pilot is None:
            pilot = self._task.pilot(points, moments.weight, moments, self._config)
        if not isinstance(pilot, LandmarkPilot):
            return None
        capacity, machine = self._config.coreset.leaf_rows, pilot.landmarks
        decision = None if machine is None else machine.decisions(points.X, pilot.decided)
        self._decided = None if machine is None or decision is None else (machine, ref(points.X), decision)
        screen = make_landmark_screen(points, pilot, moments, sealed.span, sealed.accepted, capacity, decision)
        return Screener.begin(screen, *sealed.leaf)

    def kept_pilot(self, rule: LeafRule | None, sealed: int) -> NodePilot | None:
        """Let the landmarks of a leaf's own screen serve `seals_a_pilot` seals."""
        if not isinstance(rule, Screen) or not rule.of_kernel or not sealed % seals_a_pilot(self._config.coreset):
            return None
        landmarks, known = landmarks_of(rule), None
        if self._decided is not None:
            machine, rows, decision = self._decided
            X = rows()  # gone where the points of several buckets were put together
            known = None if X is None else Decided(machine, X, decision)
        return lambda points, weight, seen: again(landmarks, points, weight, seen, self._config, known)


def landmarks_of(screen: Screen) -> Landmarks | None:
    """Return the landmarks' machine; None where points are crowded."""
    if not len(screen.coefficients):
        return None
    return Landmarks(screen.scaling, screen.projection, screen.coefficients, screen.intercept)


def make_landmark_screen(
    points: Points,
    pilot: LandmarkPilot,
    seen: Moments,
    rows: int,
    accepted: float,
    capacity: int,
    decision: Float | None = None,
) -> Screen:
    """Make the screen of a leaf by a pilot's landmarks.

    Parameters are those of `streamsvm.coreset.screening`, and the landmarks' values at the points, if they are known.
    """
    d = points.dimension
    machine = pilot.landmarks
    if machine is None:
        scaling = np.stack([seen.mean, 1.0 / pilot.scale])
        machine = Landmarks(scaling, np.zeros((d, 0), np.float32), np.zeros(0), 0.0)
    # Every k-th point says as much of how large shares are as all of them.
    every = slice(None, None, -(-len(points) // MOST_RATED))
    some = points.take(every)
    blank = Screen(
        rows=rows,
        rate=0.0,
        scaling=machine.scaling,
        coefficients=machine.coefficients,
        intercept=machine.intercept,
        label_mean=np.zeros((0, d)),
        terms=np.tile([0.0, 1.0, 0.0, 0.0, 0.0, 1.0], (2, 1)),
        projection=machine.places,
    )
    weighed = some.class_weighted(pilot.class_weight).weight
    activity = blank.evaluated(some)[2] if decision is None else activities(some.y, decision[every])
    near = 0.0 if pilot.crowded else float(np.einsum("i,i->", activity, weighed) / weighed.sum())
    terms = np.zeros((2, 6))
    terms[:, 0] = KERNEL_SHARES[0] if near > 0.0 else 1.0
    terms[:, 1] = KERNEL_SHARES[1] / near if near > 0.0 else 0.0
    terms[:, 5] = 1.0 if pilot.crowded else pilot.class_weight
    label = (some.y > 0).astype(np.intp)
    share = (terms[label, 0] + terms[label, 1] * activity) * terms[label, 5]
    expected = some.weight * (accepted / float(some.weight.sum()))
    return replace(blank, terms=terms, rate=rate_of(share * (seen.weight / seen.count), expected, TARGET * capacity))


def activities(y: Signs, decision: Float) -> Float:
    """Return the activity of rows, as `evaluate_landmarks` has it."""
    margin = np.where(y > 0, decision, -decision)
    return np.sqrt(np.minimum(1.0, np.maximum(0.0, (1.0 + DELTA - margin) / (2.0 * DELTA))))


def warm_up(dtype: np.dtype[np.floating]) -> None:
    """Compile, or load from numba's file cache, what screens of landmarks run."""
    n = 2 * LEAST_CAPACITY
    points = Points(np.ones((n, 1), dtype), np.tile(np.array([-1, 1], np.int8), n // 2), np.ones(n))
    one = np.ones(1)
    places_among(points.X, points.X, np.empty(n, np.int64))
    crowded = Pilot(
        penalty=1.0, mean=0.0 * one, scale=one, coefficients=0.0 * one, intercept=0.0, lower_bound=0.0, crowded=True
    )
    seen = Moments.zero(1).add(points)
    screen = make_landmark_screen(points, LandmarkPilot.under(crowded, None), seen, n, n, 2 * n)
    Screener.begin(screen, 0, 0, 0).screen(points, np.ones(n, np.bool_), points.take(np.arange(LEAST_CAPACITY)), 0)
