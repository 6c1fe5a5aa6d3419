r"""Pilots of an RBF machine that can screen every row: solved on some points, expressed by few.

1. The node's own problem is solved roughly with the configured kernel, on at most `POINTS` of its points, taken at even
   distances from each label, in the order of the log; the totals of each label are kept.
2. If more than `CROWDED` of the weight is active (margin < 1), points are *crowded*: with label noise, or where nothing
   was learned yet, nearly every point is as good as any other, a sample by margins is one of chance with unequal
   weights, and is worse than a plain one. The pilot says so, and nothing else.
3. Otherwise the machine is written down over `coreset.landmarks` of its support vectors, half of each label
   (`streamsvm.svm.fit_landmarks`).

Invariant: a pure function of the arguments.

Measured: on held-out rows of ijcnn1 and cod_rna, margins over 256 landmarks
correlate with those of the whole machine at 0.98; fitted to the labels without step 1 they do at 0.94 and 0.98.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from streamsvm.branches.landmarks.landmarks import Decided, Landmarks
from streamsvm.branches.landmarks.rough_descent import RoughDescent
from streamsvm.config import CoresetConfig, ModelConfig
from streamsvm.config.sizes import PILOT_POINTS
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Pilot
from streamsvm.coreset.screening import TARGET
from streamsvm.learning import training
from streamsvm.learning.pilots import MOST_ITERATIONS, TOLERANCE, NodePilots, NodeProblem
from streamsvm.linalg import Index
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.points import Points, Signs
from streamsvm.svm.fit_landmarks import fit_landmarks, spread_over

GROWTH_A_PILOT: Final = 1.5
"""By what a stream grows while the same landmarks are asked: its machine changes little meanwhile."""
POINTS: Final = PILOT_POINTS
"""Points on which a pilot is solved: 0.1 s. Four times as many take eight times as long."""
CROWDED: Final = 1.0 / 3.0
"""Share of active weight above which points are sampled by weight alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandmarkPilot(Pilot):
    """With the machine of its decision values, which can screen every row of a stream.

    Attributes
    ----------
    landmarks : Landmarks or None
        The machine; None where points are crowded.
    decided : Decided or None
        The node's points, with `decisions`.
    """

    landmarks: Landmarks | None = None
    decided: Decided | None = None

    @classmethod
    def under(
        cls, pilot: Pilot, landmarks: Landmarks | None, points: Points | None = None, known: Decided | None = None
    ) -> LandmarkPilot:
        """Return a pilot with landmarks, and their decision values at points; without any it is crowded."""
        own = {field.name: getattr(pilot, field.name) for field in fields(Pilot) if field.init}
        if landmarks is None or points is None:
            return cls(**{**own, "crowded": True})
        decision = landmarks.decisions(points.X, known)
        return cls(
            **{**own, "decisions": decision}, landmarks=landmarks, decided=Decided(landmarks, points.X, decision)
        )


def landmark_pilot(points: Points, weight: float, seen: Moments, config: ModelConfig) -> Pilot:
    """Solve a pilot; parameters and return are those of `streamsvm.learning.pilots.kernel_pilot`.

    Returns
    -------
    Pilot
        With `decisions` and `landmarks`, or `crowded`; with one label only, the constant of that label, bound 0.
    """
    node = NodeProblem.of(points, weight, seen, config.svm)
    if node.one_label:
        return node.constant()
    most = config.coreset.landmarks
    assert most is not None
    some = _some(points)
    part = NodeProblem.of(some, weight, seen, config.svm)
    Z, upper, y = np.ascontiguousarray(part.scaled()), part.penalty * part.weighted(), some.y
    kernel = training.kernel_of(node.scaler, seen, config.svm)
    assert isinstance(kernel, RbfKernel)
    run = RoughDescent(Z, y, upper, kernel, TOLERANCE)
    run.advance(MOST_ITERATIONS)
    decision = run.F + y + run.centred_intercept
    if float(upper[y * decision < 1.0].sum()) > CROWDED * float(upper.sum()):
        return LandmarkPilot.under(node.pilot(np.zeros(points.dimension), 0.0, 0.0), None)
    machine = _written_down(Z, y, decision, np.flatnonzero(run.b), kernel, most)
    factor = np.sqrt(2.0 * kernel.gamma * np.log2(np.e))
    landmarks = Landmarks(
        np.stack([node.scaler.mean, factor / node.scaler.scale]),
        np.ascontiguousarray((machine[0] * factor).T.astype(np.float32)),
        machine[1],
        machine[2],
    )
    return _under(landmarks, node, points)


def _under(landmarks: Landmarks, node: NodeProblem, points: Points, known: Decided | None = None) -> LandmarkPilot:
    """Return the pilot of a node under landmarks."""
    tiny = float(np.finfo(np.float64).tiny)
    own = node.pilot(np.zeros(points.dimension), landmarks.intercept, tiny)
    return LandmarkPilot.under(own, landmarks, points, known)


def again(
    landmarks: Landmarks | None,
    points: Points,
    weight: float,
    seen: Moments,
    config: ModelConfig,
    known: Decided | None = None,
) -> Pilot:
    """Return the pilot of a node under landmarks that were fitted before; None: points were crowded.

    Parameters other than `landmarks` and `known`, rows that need not be asked about again, are those of
    `landmark_pilot`.
    """
    node = NodeProblem.of(points, weight, seen, config.svm)
    if node.one_label:
        return node.constant()
    if landmarks is None:
        return LandmarkPilot.under(node.pilot(np.zeros(points.dimension), 0.0, 0.0), None)
    return _under(landmarks, node, points, known)


def _some(points: Points) -> Points:
    """Return at most about `POINTS` of some points; the weights of each label add up to those of all."""
    if len(points) <= POINTS:
        return points
    chosen, weights = [], []
    for sign in (-1, 1):
        own = np.flatnonzero(points.y == sign)
        few = spread_over(own, max(POINTS // 8, round(POINTS * len(own) / len(points))))
        chosen.append(few)
        weights.append(points.weight[few] * (points.weight[own].sum() / points.weight[few].sum()))
    order = np.argsort(np.concatenate(chosen), kind="stable")
    return points.take(np.concatenate(chosen)[order]).reweighted(np.concatenate(weights)[order])


def _written_down(
    Z: Float, y: Signs, decision: Float, support: Index, kernel: RbfKernel, most: int
) -> tuple[Float, Float, float]:
    """Return landmarks, coefficients and intercept of a machine like that of the decision values."""
    half = max(1, most // 2)
    places = np.concatenate([spread_over(support[y[support] == sign], half) for sign in (-1, 1)])
    if not len(places):
        places = spread_over(np.arange(len(y)), most)
    return Z[places], *fit_landmarks(Z, y, decision, np.ones(len(y)), Z[places], kernel)


def seals_a_pilot(coreset: CoresetConfig) -> int:
    """Return how many leaves are sealed and screened by the same landmarks."""
    share = min(coreset.SCREENING, TARGET * coreset.leaf_rows / coreset.bucket_points)
    return max(1, round(np.log(GROWTH_A_PILOT) / np.log1p(share))) if share > 0.0 else 1


def are_screened(config: ModelConfig) -> bool:
    """Return whether landmarks are configured."""
    return config.coreset.landmarks is not None


PILOTS: Final = NodePilots(wanted=are_screened, solve=landmark_pilot)
