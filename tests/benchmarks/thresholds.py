"""Whether thresholds reach what was asked for, and whether what is said of them holds.

    python -m tests.benchmarks.thresholds --help

    python -m tests.benchmarks.thresholds [--data FOLDER] [--seeds 100] [--sets credit_default,htru2,cod_rna] [--json]

For each seed a set is shuffled; one half passes the learner, the other half is held out. The threshold for each goal is
chosen and judged by the shipped code, on the audit sample of the pass. FOLDER has NAME.npz files with `X` and `y`; the
set `htru2` is at hand without. Of `cod_rna` so many positive points are dropped that 1 in 100 is left.
The audit sample has the default of 1,000 points, half of them drawn from each label.

A row says, for one set and one goal: in how many runs a threshold was chosen, and was called met; the means of what was
expected and of what held-out rows had; in how many of 100 runs the held-out value lay in the interval, its own 95 %
noise counted by joining both intervals' halves as independent (Zou and Donner 2008); the interval's mean width; and for
costs the mean cost on held-out rows over that of the threshold that is best for these rows.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.datasets import load_htru2
from streamsvm.estimators.stream import Stream
from streamsvm.learning.recipe import Made, make
from streamsvm.learning.tasks import TwoClasses
from streamsvm.learning.training import with_threshold
from streamsvm.model.threshold import Figure, Judged
from streamsvm.points import Points
from streamsvm.svm.fit_threshold import choose, judge

Arrays = tuple[NDArray[np.float32], NDArray[np.int8]]

GOALS: Final[tuple[tuple[Figure, float | tuple[float, float]], ...]] = (
    ("recall", 0.9),
    ("recall", 0.5),
    ("precision", 0.8),
    ("precision", 0.5),
    ("alarm_rate", 0.1),
    ("alarm_rate", 0.01),
    ("cost", (5.0, 1.0)),
    ("cost", (50.0, 1.0)),
)
AUDIT_POINTS: Final = 1_000
"""The default."""
RARE: Final = {"cod_rna": 0.01}
"""Share of positive points to which a set is thinned."""
MEMORY_POINTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one goal: what was expected, and what held-out rows had, each with its interval."""

    chosen: bool
    met: bool
    expected: Judged | None
    held_out: Judged | None
    cost_ratio: float | None

    @property
    def agrees(self) -> bool | None:
        """Whether the held-out value lies in the interval, its own noise counted; None without one of both."""
        if self.expected is None or self.held_out is None:
            return None
        one, other = self.expected, self.held_out
        below = math.hypot(one.value - one.low, other.high - other.value)
        above = math.hypot(one.high - one.value, other.value - other.low)
        return one.value - below <= other.value <= one.value + above


@dataclass(frozen=True, slots=True)
class Row:
    """What the runs of one set and one goal came to; shares are of the runs with a threshold that was chosen."""

    name: str
    figure: Figure
    asked: float | tuple[float, float]
    runs: int
    chosen: int
    met: float
    expected: float
    held_out: float
    agreed: float
    width: float
    cost_ratio: float | None


def load(name: str, data: Path | None) -> Arrays:
    """Return a set's points as float32, and its labels."""
    if name == "htru2" and data is None:
        X, y, _ = load_htru2()
        return np.asarray(X, np.float32), np.asarray(y, np.int8)
    assert data is not None, f"{name} needs --data"
    held = np.load(data / f"{name}.npz")
    return held["X"].astype(np.float32), held["y"].astype(np.int8)


def learned(X: NDArray[np.float32], y: NDArray[np.int8], audit_points: int, seed: int) -> tuple[Made, ModelConfig]:
    """Return what one pass makes."""
    sizes = {"points": MEMORY_POINTS, "structure": "chain"}
    config = ModelConfig(points=PointsConfig(dimension=X.shape[1]), coreset=CoresetConfig(**sizes), seed=seed)
    stream = Stream(config, TwoClasses())
    stream.learn(Points(X, y, np.ones(len(y))))
    return make(stream.learner.cut(), config), config


def outcomes(name: str, arrays: Arrays, seed: int) -> Iterator[Outcome]:
    """Yield the outcome of each goal, in their order."""
    (X, y), random = arrays, np.random.default_rng(seed)
    if share := RARE.get(name):
        negative = np.flatnonzero(y < 0)
        positive = random.permutation(np.flatnonzero(y > 0))[: round(len(negative) * share / (1.0 - share))]
        X, y = X[np.append(negative, positive)], y[np.append(negative, positive)]
    order = random.permutation(len(y))
    first, held = order[: len(y) // 2], order[len(y) // 2 :]
    made, config = learned(X[first], y[first], AUDIT_POINTS, seed)
    decision, truth, ones = made.trained.model.decision_function(X[held]), y[held], np.ones(len(held))
    for figure, asked in GOALS:
        given = {"cost": asked} if isinstance(asked, tuple) else {"target": {figure: asked}}
        found = with_threshold(made.trained, made.cut.audit, SvmConfig(**given), config.seed).model.threshold
        assert found is not None
        costs = asked if isinstance(asked, tuple) else None
        judged = judge(found.value, costs, decision, truth, ones)[figure]
        ratio = None
        if costs is not None and judged is not None:
            best = judge(choose(figure, asked, decision, truth, ones)[0], costs, decision, truth, ones)[figure]
            assert best is not None
            ratio = judged.value / best.value
        yield Outcome(found.chosen, found.met, found.judged, judged, ratio)


def row_of(name: str, figure: Figure, asked: float | tuple[float, float], runs: list[Outcome]) -> Row:
    """Sum up."""
    chosen = [one for one in runs if one.chosen]
    expected = [one.expected for one in chosen if one.expected is not None]
    agreed = [one.agrees for one in chosen if one.agrees is not None]
    ratios = [one.cost_ratio for one in chosen if one.cost_ratio is not None]
    return Row(
        name=name,
        figure=figure,
        asked=asked,
        runs=len(runs),
        chosen=len(chosen),
        met=_mean([float(one.met) for one in chosen]),
        expected=_mean([one.value for one in expected]),
        held_out=_mean([one.held_out.value for one in chosen if one.held_out is not None]),
        agreed=_mean([float(one) for one in agreed]),
        width=_mean([one.high - one.low for one in expected]),
        cost_ratio=_mean(ratios) if ratios else None,
    )


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def shown(row: Row) -> str:
    """Return a row as a line."""
    asked = "{:g}:{:g}".format(*row.asked) if isinstance(row.asked, tuple) else f"{row.asked:g}"
    ratio = "" if row.cost_ratio is None else f"  cost over the best {row.cost_ratio:.3f}"
    return (
        f"{row.name:<15}{row.figure:<11}{asked:>5}  runs {row.runs}, chosen {row.chosen}, met {row.met:.2f}  expected "
        f"{row.expected:.4f}  held out {row.held_out:.4f}  in the interval {100.0 * row.agreed:.0f} %  width "
        f"{row.width:.4f}{ratio}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each set and goal, or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--sets", default="htru2")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    rows = []
    for name in asked.sets.split(","):
        arrays = load(name, asked.data)
        runs = [list(outcomes(name, arrays, seed)) for seed in range(asked.seeds)]
        for goal, of_goal in zip(GOALS, zip(*runs, strict=True), strict=True):
            rows.append(row_of(name, *goal, list(of_goal)))
            if not asked.json:
                print(shown(rows[-1]), flush=True)
    if asked.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=2))


if __name__ == "__main__":
    main()
