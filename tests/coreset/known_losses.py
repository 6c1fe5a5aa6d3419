"""Streams of known losses that pass the shipped reservoir: how often the audit's interval covers the truth.

HTRU2 with the losses of a model of 500 of its points, and made streams, each unweighted and with weights log-uniform
over four orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import SvmConfig
from streamsvm.coreset.audit_sample import LABELS, Reservoir, Sampled, shares
from streamsvm.coreset.estimate import TotalEstimate, estimate
from streamsvm.coreset.moments import Moments
from streamsvm.datasets import load_htru2
from streamsvm.learning import train
from streamsvm.points import Points, Rows
from tests.streams import rows_of

Float = NDArray[np.float64]

N: Final = 20_000
POSITIVE: Final = {"fraud": 0.02, "few losses": 0.01}
"""Share of the label +1; a third where nothing is said."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Points whose only feature is their loss.

    `truth`: Sum of u h. `class_weight`: ndarray of shape (2,).
    """

    rows: Rows
    truth: float
    class_weight: Float


def stream_of(loss: Float, y: NDArray[np.int8], weight: Float, partition: int = 0) -> Stream:
    """Lay out a stream; the reservoir keeps what it is given, so the loss may stand for the point."""
    points = Points(loss[:, None], y, weight)
    totals = np.array([weight[y < 0].sum(), weight[y > 0].sum()])
    return Stream(rows_of(points, partition), float(weight @ loss), totals)


def sampled(stream: Stream, points: int, seed: int) -> Sampled:
    """Pass the stream once."""
    reservoir = Reservoir(points, stream.rows.partition, seed, 1, np.dtype(np.float64))
    reservoir.add(stream.rows)
    return reservoir.sampled(stream.class_weight)


def sampled_by_label(stream: Stream, points: int, seed: int) -> list[Sampled]:
    """Pass the stream once for each label, half of the points each."""
    parts = []
    for label, share in shares(points, by_label=True).items():
        reservoir = Reservoir(share, stream.rows.partition, seed, 1, np.dtype(np.float64), label)
        reservoir.add(stream.rows)
        parts.append(reservoir.sampled(np.where(np.equal(LABELS, label), stream.class_weight, 0.0)))
    return parts


def losses(name: str) -> tuple[Float, NDArray[np.int8]]:
    """Return losses and labels: those of a model of 500 points at every point of HTRU2, or made ones."""
    if name == "htru2":
        X, y, _ = load_htru2()
        all_points = Points(X, y, np.ones(len(y)))
        few = all_points.take(np.random.default_rng(3).permutation(len(y))[:500])
        model = train(few, Moments.zero(X.shape[1]).add(all_points), SvmConfig(alpha=1e-4)).model
        return np.maximum(0.0, 1.0 - y * model.decision_function(X)), y
    random = np.random.default_rng(5)
    y = np.where(random.random(N) < POSITIVE.get(name, 1 / 3), 1, -1).astype(np.int8)
    exponential, chance = random.exponential(1.0, N), random.random(N)
    loss = {
        "gaussian": lambda: np.maximum(0.0, 1.0 - random.normal(1.5, 1.0, N)),
        "fraud": lambda: np.where(y > 0, exponential, np.where(chance < 0.01, exponential / 2, 0.0)),
        "few losses": lambda: np.where(chance < 0.005, exponential, 0.0),
        "heavy": lambda: np.where(chance < 0.02, random.lognormal(0.0, 1.0, N), 0.0),
        "every point": lambda: np.abs(1.0 + 0.3 * random.normal(size=N)),
    }[name]()
    return loss, y


def known_stream(name: str, weighted: bool) -> Stream:
    """Return the stream of a case, of weight 1 or of weights over four orders."""
    loss, y = losses(name)
    n = len(y)
    return stream_of(loss, y, 10.0 ** np.random.default_rng(4).uniform(-2.0, 2.0, n) if weighted else np.ones(n))


def estimated(sample: Sequence[Sampled]) -> TotalEstimate:
    """Return the estimate of the truth by the losses of a sample."""
    return estimate(sample, np.concatenate([part.points.X[:, 0] for part in sample]))


def covered(stream: Stream, points: int, seeds: int, by_label: bool) -> float:
    """Return the share of the seeds whose interval holds the truth."""
    held = 0
    for seed in range(seeds):
        sample = sampled_by_label(stream, points, seed) if by_label else [sampled(stream, points, seed)]
        _, low, high = estimated(sample)
        held += low <= stream.truth <= high
    return held / seeds
