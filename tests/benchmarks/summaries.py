"""Ways to hold a stream in little memory, and to learn from what is held: the shipped learner, and its peers.

Each takes a stream and returns what it kept, how much that was at its most, and the CPU time of keeping it. SGD, river
and Vowpal Wabbit keep a model, not points; their time includes their training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from sklearn.linear_model import SGDClassifier

from streamsvm.checkpoint import format as checkpoint
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments, Observed, Purpose, generator, measured
from streamsvm.coreset.reduce import reduce
from streamsvm.estimators import SGD_SETTINGS
from streamsvm.learning import Learner
from streamsvm.linalg import Float
from streamsvm.papers import importance_sample, sensitivities
from streamsvm.points import Points, Position
from tests.benchmarks.optimum import Model
from tests.streams import rows_of, snapshot_of

BATCH: Final = 1_000
"""Points that SGD takes at once."""
RIVER_RATES: Final = (0.1, 0.01, 0.001)
"""Step sizes of river's plain SGD; 0.01 is its default."""
VW_SETTINGS: Final = ("", "--sgd --decay_learning_rate 1 --power_t 0.5")
"""Vowpal Wabbit's default (adaptive, normalised, invariant updates), and its plain SGD."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What one method kept of a stream.

    `kept`: Raw weighted points, or a model at once. `held`: The most points held at once, open leaf and buckets
    together. The arrays of one reduction, freed when it ends, are not among them. `state_bytes`: What a checkpoint of
    it takes at the end (for a peer: its arrays). `seconds`: CPU time of this thread. `observed`: What our reductions
    met.
    """

    kept: Points | Model
    held: int
    state_bytes: int
    seconds: float
    observed: Observed = field(default_factory=Observed)


Method = Callable[[Points, int], Summary]
"""(stream, trial) -> summary."""
NO_REDUCTION: Final = 1 << 24
"""Training points: the union of all partitions is trained on as it is."""


def shipped(structure: str, points: int, **shape: Any) -> CoresetConfig:
    """Return what a user gets who gives points and a structure."""
    given = {"reducer": "calibrated", "structure": structure, "points": points, "train_points": NO_REDUCTION}
    return CoresetConfig.model_validate(given | shape)


def offline(m: int, svm: SvmConfig) -> Method:
    """Reduce the whole set at once, under a pilot that is solved on all of it."""

    def run(points: Points, trial: int) -> Summary:
        begun, observed = time.thread_time(), Observed()
        seen = Moments.zero(points.dimension).add(points)
        random = generator(trial, Purpose.NODE, (0, 0, 0))
        kept = reduce(points, m, measured(points, seen.weight, seen, svm, random), random, 2, observed)
        return Summary(kept, len(points), kept.nbytes, time.thread_time() - begun, observed)

    return run


def algorithm_1(m: int, penalty: float, mean: Float, scale: Float, optimum: float) -> Method:
    """Reduce the whole set at once, as published, under the optimum itself."""

    def run(points: Points, trial: int) -> Summary:
        begun, random = time.thread_time(), generator(trial, Purpose.NODE, (0, 0, 0))
        Z = (points.X - mean) / scale
        gamma = sensitivities(Z, points.y, points.weight, penalty, optimum, random)
        kept = importance_sample(points, gamma, m, random)
        return Summary(kept, len(points), kept.nbytes, time.thread_time() - begun)

    return run


def learned(coreset: CoresetConfig, svm: SvmConfig, partitions: int = 1) -> Method:
    """Pass the stream through the shipped learner; what it holds at the end is what it kept.

    The stream is dealt to so many partitions in turn.
    """

    def run(points: Points, trial: int) -> Summary:
        config = ModelConfig(points=PointsConfig(dimension=points.dimension), coreset=coreset, svm=svm, seed=trial)
        base = dict.fromkeys(range(partitions), Position(0))
        leaf = config.coreset.leaf_rows
        learner = Learner(config, base, every_leaves=1 << 40)
        dealt = {part: rows_of(points.take(slice(part, None, len(base))), part) for part in base}
        held, seconds = 0, 0.0
        for start in range(0, max(map(len, dealt.values())), leaf):
            ends = {part: min(start + leaf, len(rows)) - 1 for part, rows in dealt.items()}
            begun = time.thread_time()
            for part, rows in dealt.items():
                learner.learn(rows.slice(start, ends[part]))
            seconds += time.thread_time() - begun
            held = max(held, learner.points_held + len(base))
            begun = time.thread_time()
            for part, rows in dealt.items():
                learner.learn(rows.slice(ends[part], ends[part] + 1))
            seconds += time.thread_time() - begun
        return Summary(learner.cut().points, held, state_bytes(learner), seconds, learner.observed())

    return run


def state_bytes(learner: Learner) -> int:
    """Return what a checkpoint of a learner takes."""
    return len(checkpoint.encode(snapshot_of(learner.state())))


def reservoir(memory: int) -> Method:
    """Keep a uniform sample of fixed size.

    Drawn at once, where a reservoir of a stream draws as it goes: the same distribution, and no time at all, which
    favours it.
    """

    def run(points: Points, trial: int) -> Summary:
        begun = time.thread_time()
        random = generator(trial, Purpose.CUT, (1, 1, 1))
        chosen = np.sort(random.choice(len(points), min(memory, len(points)), replace=False))
        weight = points.weight[chosen] * (points.weight.sum() / points.weight[chosen].sum())
        kept = points.take(chosen).reweighted(weight)
        return Summary(kept, len(kept), kept.nbytes, time.thread_time() - begun)

    return run


def uniform(m: int) -> Method:
    """Keep a uniform sample of fixed size in which each label has its share."""

    def run(points: Points, trial: int) -> Summary:
        begun = time.thread_time()
        kept = reduce(points, m, None, generator(trial, Purpose.NODE, (0, 0, 1)), 2, Observed())
        return Summary(kept, len(points), kept.nbytes, time.thread_time() - begun)

    return run


def sgd(setting: int, penalty: float, mean: Float, scale: Float) -> Method:
    """Take one pass of stochastic gradient descent, features scaled by the whole set's moments, which favours it."""

    def run(points: Points, trial: int) -> Summary:
        alpha = 1.0 / (penalty * len(points))
        model = SGDClassifier(loss="hinge", alpha=alpha, random_state=trial, shuffle=False, **SGD_SETTINGS[setting])
        Z = (points.X - mean) / scale
        begun = time.thread_time()
        for start in range(0, len(points), BATCH):
            part = slice(start, start + BATCH)
            model.partial_fit(Z[part], points.y[part], classes=[-1, 1])
        seconds = time.thread_time() - begun
        kept = Model(model.coef_[0], float(model.intercept_[0]))
        return Summary(kept, 0, kept.w.nbytes + 8, seconds)

    return run


def river(setting: int, penalty: float, mean: Float, scale: Float) -> Method:
    """Take one pass of river's online SVM, point by point; features as `sgd`'s."""

    def run(points: Points, trial: int) -> Summary:
        from river import linear_model, optim

        alpha = 1.0 / (penalty * len(points))
        model = linear_model.LogisticRegression(
            optimizer=optim.SGD(RIVER_RATES[setting]), loss=optim.losses.Hinge(), l2=alpha
        )
        Z = ((points.X - mean) / scale).tolist()
        labels = (points.y > 0).tolist()
        begun = time.thread_time()
        for row, label in zip(Z, labels, strict=True):
            model.learn_one(dict(enumerate(row)), label)
        seconds = time.thread_time() - begun
        w = np.array([model.weights.get(feature, 0.0) for feature in range(points.dimension)])
        return Summary(Model(w, float(model.intercept)), 0, w.nbytes + 8, seconds)

    return run


def vw(setting: int, penalty: float, mean: Float, scale: Float) -> Method:
    """Take one pass of Vowpal Wabbit, lines of its text format ready made; features as `sgd`'s."""

    def run(points: Points, trial: int) -> Summary:
        from vowpalwabbit import Workspace

        alpha = 1.0 / (penalty * len(points))
        unclipped = "--min_prediction -1e9 --max_prediction 1e9"
        model = Workspace(f"--loss_function hinge --l2 {alpha!r} --quiet {unclipped} {VW_SETTINGS[setting]}")
        Z = (points.X - mean) / scale
        lines = [_line(label, row) for label, row in zip(points.y.tolist(), Z.tolist(), strict=True)]
        begun = time.thread_time()
        for line in lines:
            model.learn(line)
        seconds = time.thread_time() - begun
        b = model.predict("| ")  # the weights themselves are stored without the shrinkage of l2
        w = np.array([model.predict(f"| f{feature}:1") - b for feature in range(points.dimension)])
        model.finish()
        return Summary(Model(w, b), 0, w.nbytes + 8, seconds)

    return run


def _line(label: int, row: list[float]) -> str:
    return f"{label} | " + " ".join(f"f{feature}:{value:.9g}" for feature, value in enumerate(row))


Online = Callable[[int, float, Float, Float], Method]
"""(number of the setting, C of all data, mean, scale) -> method."""
ONLINE: Final[dict[str, tuple[Sequence[object], Online]]] = {
    "sgd": (SGD_SETTINGS, sgd),
    "river": (RIVER_RATES, river),
    "vw": (VW_SETTINGS, vw),
}
