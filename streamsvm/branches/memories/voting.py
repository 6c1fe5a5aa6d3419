"""Experts of a partition's horizons, and the shares that they win for them.

One expert a border of buckets: a rough linear machine of everything from there on, solved anew when its horizon has
grown by an eighth. It is judged on each leaf before that is learned; no version is made of it. Shares weigh *buckets*:
each horizon gives its share to all that it holds, in proportion to their weight, and one machine is trained on all of
it. So a bucket's factor is U times the sum of share / U_horizon over the horizons that hold it, and the weight of
everything stays U.

Invariant: a pure function of the partition's rows in log order, the configuration and the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.branches.memories.shares import Shares
from streamsvm.config import ModelConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.reducers.base import Purpose, UniformReducer, generator
from streamsvm.coreset.structure import Bucket, Extent
from streamsvm.learning.memories import Horizon
from streamsvm.learning.pilots import linear_pilot
from streamsvm.learning.tasks import OneVsOne, OneVsRest, Task
from streamsvm.points import Points

Float = NDArray[np.float64]

GROWN: Final = 8
"""An expert is solved again when its horizon has grown by one part in so many."""
EXPERT_POINTS: Final = 1_000
"""Most points that an expert is solved on; a sample by weight of more. An expert must rank horizons, no more."""
USUAL_LEAF: Final = 200
"""Rows for which the rates of `streamsvm.branches.memories.shares` were chosen."""


@dataclass(frozen=True, slots=True)
class Expert:
    """What was learned of one horizon.

    Attributes
    ----------
    border : int
        Rows learned where it begins.
    trained_at : int
        Rows learned where it ended when this was solved.
    coefficients : ndarray of shape (machines, d)
        Over raw features.
    intercepts : ndarray of shape (machines,)
    """

    border: int
    trained_at: int
    coefficients: Float
    intercepts: Float

    def decisions(self, X: Float) -> Float:
        """Return decision values of raw features, shape (n, machines); no BLAS, whose bits depend on its threads."""
        return np.asarray(np.einsum("ij,kj->ik", X, self.coefficients) + self.intercepts, np.float64)


@dataclass(frozen=True, slots=True)
class Voting:
    """Experts, the oldest border first, and shares of the same borders.

    Attributes
    ----------
    span : int
        Rows of a span.
    experts : tuple of Expert
    shares : Shares
    end : int
        Rows learned when they were moved last.
    """

    span: int
    experts: tuple[Expert, ...] = ()
    shares: Shares = field(default_factory=Shares)
    end: int = 0

    def judged(self, points: Points, moments: Moments, config: ModelConfig) -> Voting:
        """Return the same after a leaf that nobody has learned.

        Parameters
        ----------
        points : Points
            Of the leaf, all or a weighted sample.
        moments : Moments
            Of the leaf.
        config : ModelConfig
        """
        if not self.experts or not len(points):
            return self
        X = points.X.astype(np.float64)
        two = self.experts[0].intercepts.size == 1
        weight = points.class_weighted(config.svm.class_weights(moments.class_weight)).weight if two else points.weight
        by_slots, by_starts = self.shares.by_slots(self.end, self.span), self.shares.starts
        first, second = np.zeros((len(X), 1)), np.zeros((len(X), 1))
        errors = []
        for expert, slot, start in zip(self.experts, by_slots, by_starts, strict=True):
            decision = expert.decisions(X)
            errors.append(_wrong(decision, points.y))
            first, second = first + slot * decision, second + start * decision
        # A longer leaf has as many more errors, and is better evidence, but not in proportion.
        rate = min(1.0, math.sqrt(USUAL_LEAF / moments.count))
        scale = moments.count * rate / float(weight.sum())
        errors += [_wrong(first, points.y), _wrong(second, points.y)]
        counted = [scale * float(weight[wrong].sum()) for wrong in errors]
        shares = self.shares.judged(counted[:-2], (counted[-2], counted[-1]), self.end, self.span)
        return replace(self, shares=shares)

    def moved(self, buckets: Sequence[Bucket], partition: int, config: ModelConfig, task: Task) -> Voting:
        """Return experts and shares over the borders of these buckets, the oldest first; there must be one."""
        known = {expert.border: expert for expert in self.experts}
        borders = [_border(bucket) for bucket in buckets]
        end = borders[-1] + buckets[-1].extent.rows
        experts = []
        for at, border in enumerate(borders):
            expert = known.get(border)
            if expert is None or GROWN * (end - expert.trained_at) >= end - border:
                expert = _expert(buckets[at:], (partition, border, end), config, task)
            experts.append(expert)
        return Voting(self.span, tuple(experts), self.shares.moved(borders, end, self.span), end)

    def factors(self, buckets: Sequence[Bucket], leaf: Moments) -> list[float]:
        """Return by what the weights of each bucket, and of the open leaf, count."""
        own = [bucket.extent.moments.weight for bucket in buckets]
        suffix = [sum(own[at:]) + leaf.weight for at in range(len(own))]
        shares = [share if weight > 0.0 else 0.0 for share, weight in zip(self._shares(), suffix, strict=True)]
        dealt = sum(shares)
        if not own or dealt <= 0.0:
            return [1.0] * (len(own) + 1)
        total, found = 0.0, []
        for share, weight in zip(shares, suffix, strict=True):
            total += share / (dealt * weight) if share else 0.0
            found.append(suffix[0] * total)
        return [*found, found[-1]]

    def horizons(self, leaf: Extent) -> tuple[Horizon, ...]:
        """Return the rows and the share of each horizon, the longest first."""
        pairs = zip(self.shares.borders, self._shares(), strict=True)
        return tuple(Horizon(self.end - border + leaf.rows, share) for border, share in pairs)

    def _shares(self) -> list[float]:
        return self.shares.by_border(self.end, self.span)


def _border(bucket: Bucket) -> int:
    assert bucket.before is not None
    return bucket.before.rows


def _wrong(decision: Float, y: NDArray[np.int8]) -> NDArray[np.bool_]:
    said = np.where(decision[:, 0] > 0.0, 1, -1) if decision.shape[1] == 1 else decision.argmax(axis=1)
    return np.asarray(said != y)


def _expert(buckets: Sequence[Bucket], name: tuple[int, int, int], config: ModelConfig, task: Task) -> Expert:
    points = Points.union([bucket.points for bucket in buckets])
    moments = Moments.zero(points.dimension, task.classes)
    for bucket in buckets:
        moments = moments.merge(bucket.extent.moments)
    # Pairs of labels would take a vote to say what an expert answers, which has to rank horizons, no more.
    each = OneVsRest(task.classes, task.class_weight) if isinstance(task, OneVsOne) else task
    svm, coefficients, intercepts = task.machine_config(config.svm), [], []
    if len(points):
        points = UniformReducer().reduce(points, EXPERT_POINTS, generator(config.seed, Purpose.EXPERT, name), None)
        for own, seen in each.problems(points, moments):
            pilot = linear_pilot(own, seen.weight, seen, svm)
            coefficients.append(pilot.coefficients / pilot.scale)
            intercepts.append(pilot.intercept - float(np.einsum("j,j->", coefficients[-1], pilot.mean)))
    else:
        machines = 1 if task.classes == 2 else task.classes
        coefficients, intercepts = [np.zeros(points.dimension)] * machines, [0.0] * machines
    return Expert(name[1], name[2], np.array(coefficients), np.array(intercepts))
