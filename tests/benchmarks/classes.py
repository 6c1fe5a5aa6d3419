"""More than two classes: what a trainer makes of them beside others, and what one shared structure is worth.

    python -m tests.benchmarks.classes [--part peers,memory] [--seeds 3] [--sets ...] [--points 4000] [--json]

The part *peers* is described in `tests.benchmarks.class_peers`; `--json` is of that part. The part *memory*:

*shared* is `CoresetSVC` itself: one structure whose points all machines share. *divided* are K binary `CoresetSVC` of
m / K points each, *reservoir* is a uniform sample of m points for all machines. The gap is (F - F*) / F* on the
training part, F and F* summed over the K problems of one class against the rest; alpha is 1e-4. Times contain training.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.multiclass import OneVsRestClassifier

from streamsvm import CoresetSVC
from streamsvm.estimators.evaluation import Objectives, Optima, ReservoirBaseline, decisions, optimum, scores, split
from streamsvm.learning.tasks import OneVsRest
from streamsvm.model.classes import ClassModel
from streamsvm.model.machine import Model
from streamsvm.points import Points
from tests.benchmarks import class_peers

LEAST_MEMORY: Final = 16
"""Of a chain."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """A set, and the memories to learn it with."""

    name: str
    points: Points
    memories: tuple[int, ...]

    @property
    def classes(self) -> int:
        """Classes."""
        return int(self.points.y.max()) + 1


def data_sets() -> Iterator[DataSet]:
    """Yield a small set of many classes, one that no plane tells apart, and one of unequal classes."""
    X, y = load_digits(return_X_y=True)
    yield DataSet("digits", _points(X, y), (300, 600, 1_000))
    X, y = make_classification(
        20_000, 20, n_informative=8, n_redundant=4, n_classes=5, n_clusters_per_class=2, flip_y=0.02, random_state=1
    )
    yield DataSet("overlapping", _points(X, y), (200, 400, 1_000, 2_000))
    random = np.random.default_rng(0)
    y = random.choice(7, 20_000, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.03, 0.01])
    X = random.normal(size=(7, 10))[y] * 1.6 + random.normal(size=(20_000, 10)) * (1.0 + 0.5 * (y[:, None] % 3))
    yield DataSet("unequal", _points(X, y), (200, 400, 1_000, 2_000))


def _points(X: np.ndarray, y: np.ndarray) -> Points:
    return Points(np.ascontiguousarray(X, np.float64), y.astype(np.int8), np.ones(len(y)))


def shared(train: Points, objectives: Objectives, memory: int, seed: int) -> tuple[Model, ...]:
    """Return the machines of one structure."""
    found = CoresetSVC(points=memory, multiclass="one_vs_rest", seed=seed).fit(train.X, train.y).model_
    assert isinstance(found, ClassModel)
    return tuple(map(found.model, range(found.machines)))


def divided(train: Points, objectives: Objectives, memory: int, seed: int) -> tuple[Model, ...]:
    """Return the machines of K structures."""
    own = CoresetSVC(points=memory // len(objectives.each), seed=seed)
    found = OneVsRestClassifier(own).fit(train.X, train.y).estimators_
    return tuple(machine.model_ for machine in found)


def reservoir(train: Points, objectives: Objectives, memory: int, seed: int) -> tuple[Model, ...]:
    """Return the machines of a uniform sample."""
    sample = ReservoirBaseline(memory, seed)
    sample.learn(train)
    return objectives.of_few(sample.points)


METHODS: Final[tuple[Callable[[Points, Objectives, int, int], tuple[Model, ...]], ...]] = (shared, divided, reservoir)


def rows(one: DataSet, seeds: int) -> Iterator[str]:
    """Yield what each method makes of a set, for people."""
    train, test = split(one.points, 0.2, 0)
    task = OneVsRest(one.classes)
    svm = CoresetSVC().fit(train.X[:100], train.y[:100]).model_config.svm
    objectives = Objectives.over(train, svm, task)
    best = Optima(tuple(optimum(own) for own in objectives.each))
    accuracy = scores(test, decisions(task, best.models, test.X)).accuracy
    yield (
        f"{one.name}: {len(train):,} points, {train.dimension} features, {one.classes} classes; optimum: accuracy "
        f"{accuracy:.4f}, certified to {best.uncertainty:.0e}"
    )
    for memory in one.memories:
        for method in METHODS:
            if method is divided and memory // one.classes < LEAST_MEMORY:
                continue
            gaps, accuracies, seconds = [], [], []
            for seed in range(seeds):
                begun = time.perf_counter()
                models = method(train, objectives, memory, seed)
                seconds.append(time.perf_counter() - begun)
                gaps.append(best.gap(objectives.value(models)))
                accuracies.append(scores(test, decisions(task, models, test.X)).accuracy)
            yield (
                f"  m = {memory:5,d}  {method.__name__:<9}  gap {np.median(gaps):8.4f} (most {max(gaps):8.4f})  "
                f"accuracy {np.mean(accuracies):.4f}  {np.mean(seconds):5.1f} s"
            )


def _at_once(line: str) -> None:
    print(line, flush=True)


def _nowhere(line: str) -> None:
    del line


def main(arguments: list[str] | None = None) -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description="More than two classes in a bounded memory.")
    parser.add_argument("--part", default="peers,memory", help="which parts: peers, memory")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", default=",".join(class_peers.SETS), help="of the peers")
    parser.add_argument("--methods", default=",".join(class_peers.METHODS), help="of the peers")
    parser.add_argument("--rows", type=int, default=class_peers.ROWS, help="of the peers' sets that are drawn")
    parser.add_argument("--points", type=int, default=4_000, help="most points that a trainer beside its peers holds")
    parser.add_argument("--json", action="store_true", help="print the peers' rows as JSON, and nothing else")
    asked = parser.parse_args(arguments)
    parts, seeds = asked.part.split(","), asked.seeds
    warnings.simplefilter("ignore")
    if "peers" in parts or asked.json:
        say = _nowhere if asked.json else _at_once
        found = class_peers.compare(
            asked.sets.split(","), asked.methods.split(","), seeds, asked.points, say, asked.rows
        )
        if asked.json:
            print(class_peers.as_json(found))
    if "memory" not in parts or asked.json:
        return
    print(f"Median (and most) over {seeds} seeds of the gap of the sum over the problems; mean accuracy and time\n")
    for one in data_sets():
        print("\n".join(rows(one, seeds)), flush=True)


if __name__ == "__main__":
    main()
