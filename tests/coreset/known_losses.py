"""Streams of known losses that pass the shipped reservoir: how often the audit's interval covers the truth.

HTRU2 with the losses of a model of 500 of its points, at a light and at a heavy regulariser, and made streams, each
unweighted and with weights log-uniform over four orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import SvmConfig
from streamsvm.coreset.audit_sample import LABELS, Reservoir, Sampled, shares
from streamsvm.coreset.estimate import estimate
from streamsvm.coreset.moments import Moments
from streamsvm.datasets import load_htru2
from streamsvm.learning import train
from streamsvm.points import Points, Rows
from tests.streams import rows_of

Float = NDArray[np.float64]

N: Final = 20_000
POSITIVE: Final = {"fraud": 0.02, "rarer fraud": 0.002, "one label": 1.0, "few losses": 0.01}
"""Share of the label +1; a third where nothing is said."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Points whose only feature is their loss.

    Attributes
    ----------
    rows : Rows
    truth : float
        Sum of u h.
    class_weight : ndarray of shape (2,)
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


def htru2(alpha: float) -> tuple[Float, NDArray[np.int8]]:
    """Return the losses of a model of 500 points at every point of HTRU2."""
    X, y, _ = load_htru2()
    all_points = Points(X, y, np.ones(len(y)))
    few = all_points.take(np.random.default_rng(3).permutation(len(y))[:500])
    model = train(few, Moments.zero(X.shape[1]).add(all_points), SvmConfig(alpha=alpha)).model
    return np.maximum(0.0, 1.0 - y * model.decision_function(X)), y


def made(name: str) -> tuple[Float, NDArray[np.int8]]:
    """Return losses and labels of a made stream."""
    random = np.random.default_rng(5)
    y = np.where(random.random(N) < POSITIVE.get(name, 1 / 3), 1, -1).astype(np.int8)
    exponential, chance = random.exponential(1.0, N), random.random(N)
    loss = {
        "gaussian": lambda: np.maximum(0.0, 1.0 - random.normal(1.5, 1.0, N)),
        "nearly separable": lambda: np.maximum(0.0, 1.0 - random.normal(3.6, 1.0, N)),
        "fraud": lambda: np.where(y > 0, exponential, np.where(chance < 0.01, exponential / 2, 0.0)),
        "rarer fraud": lambda: np.where(y > 0, exponential, np.where(chance < 0.01, exponential / 2, 0.0)),
        "few losses": lambda: np.where(chance < 0.005, exponential, 0.0),
        "heavy": lambda: np.where(chance < 0.02, random.lognormal(0.0, 1.0, N), 0.0),
        "heavier": lambda: np.where(chance < 0.1, random.pareto(2.5, N), 0.0),
        "one label": lambda: np.where(chance < 0.1, exponential, 0.0),
        "every point": lambda: np.abs(1.0 + 0.3 * random.normal(size=N)),
    }[name]()
    return loss, y


CASES: Final[dict[str, Callable[[], tuple[Float, NDArray[np.int8]]]]] = {
    "htru2": lambda: htru2(1e-4),
    "htru2, heavy regulariser": lambda: htru2(1e-1),
    **{
        name: lambda name=name: made(name)  # type: ignore[misc]
        for name in (
            "gaussian",
            "nearly separable",
            "fraud",
            "rarer fraud",
            "few losses",
            "heavy",
            "heavier",
            "one label",
            "every point",
        )
    },
}


def log_uniform(n: int) -> Float:
    """Return weights over four orders."""
    return 10.0 ** np.random.default_rng(4).uniform(-2.0, 2.0, n)


def streams(names: list[str]) -> dict[tuple[str, str], Stream]:
    """Return the streams of the cases, unweighted and weighted."""
    found = {}
    for name in names:
        loss, y = CASES[name]()
        for weights, weight in (("1", np.ones(len(y))), ("log-uniform", log_uniform(len(y)))):
            found[name, weights] = stream_of(loss, y, weight)
    return found


def covered(stream: Stream, points: int, seeds: int, by_label: bool) -> Float:
    """Return low, high and the number of sampled points with a loss for each seed, shape (seeds, 3)."""
    found = np.empty((seeds, 3))
    for seed in range(seeds):
        sample = sampled_by_label(stream, points, seed) if by_label else [sampled(stream, points, seed)]
        loss = np.concatenate([part.points.X[:, 0] for part in sample])
        _, low, high = estimate(sample, loss)
        found[seed] = low, high, np.count_nonzero(loss)
    return found
