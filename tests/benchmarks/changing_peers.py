"""River and LightGBM over streams that change: `python changing_peers.py`, then lines on stdin.

Needs none of this project, so that it runs in an environment of its own (numpy; river and lightgbm where they are to be
measured). A line is one of

- `make STREAM FILE ROWS SEED`: write a stream of River's own generator, an npz file with `X`, `y` (-1 or +1) and
  `changes`, the rows at which the rule changes at once;
- `run CONTENDER FILE ANSWER LAG LEAF SEED`: predict each row of an npz file before its label is learned, in portions of
  LAG rows; write which were right as an npy file.

The answer is one line of JSON: `seconds` of CPU, or what is `missing`.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import deque
from typing import Any

import numpy as np

TREE_ROWS = 10_000
"""Window of the boosted trees, which are grown anew after each leaf."""
RULES = 10
"""Of AGRAWAL: each of them for a tenth of the stream, in the order of their numbers."""


def agrawal(rows: int, seed: int) -> tuple[list[Any], list[int]]:
    """Return River's applicants for a loan, whose bank goes by its ten rules one after the other."""
    from river.datasets import synth

    found, changes = [], [rows * rule // RULES for rule in range(1, RULES)]
    for rule, (begin, end) in enumerate(itertools.pairwise([0, *changes, rows])):
        one = synth.Agrawal(classification_function=rule, seed=seed + rule, perturbation=0.05)
        found += itertools.islice(one, end - begin)
    return found, changes


def hyperplane(rows: int, seed: int) -> tuple[list[Any], list[int]]:
    """Return River's turning hyperplane, of which two weights move."""
    from river.datasets import synth

    one = synth.Hyperplane(seed=seed, n_features=10, n_drift_features=2, mag_change=0.001)
    return list(itertools.islice(one, rows)), []


RIVERS = {"forest": "ARFClassifier", "tree": "HoeffdingAdaptiveTreeClassifier"}
"""Classes of River, by the module that they stand in."""
STREAMS = {"AGRAWAL": agrawal, "Hyperplane": hyperplane}


class River:
    """A tree or forest of River that follows changes, at its defaults."""

    def __init__(self, module: str, kind: str, seed: int) -> None:
        import importlib

        self._model = getattr(importlib.import_module(f"river.{module}"), kind)(seed=seed)

    def predict(self, X: Any) -> Any:
        said = [self._model.predict_one(dict(enumerate(x))) for x in X.tolist()]
        return np.array([1 if one is None else one for one in said], np.int8)

    def learn(self, X: Any, y: Any) -> None:
        for x, label in zip(X.tolist(), y.tolist(), strict=True):
            self._model.learn_one(dict(enumerate(x)), label)


class Boosted:
    """LightGBM at its defaults, in one thread, of the newest rows, grown after each leaf."""

    def __init__(self, leaf: int, seed: int) -> None:
        import lightgbm

        self._library, self._leaf, self._seed, self._at = lightgbm, leaf, seed, 0
        self._X: deque[Any] = deque(maxlen=TREE_ROWS)
        self._y: deque[Any] = deque(maxlen=TREE_ROWS)
        self._trees: Any = None

    def predict(self, X: Any) -> Any:
        if self._trees is None:
            return np.ones(len(X), np.int8)
        return np.where(self._trees.predict(X) > 0.5, 1, -1)

    def learn(self, X: Any, y: Any) -> None:
        self._X.extend(X)
        self._y.extend(y)
        before, self._at = self._at, self._at + len(y)
        if self._at // self._leaf > before // self._leaf and len(set(self._y)) == 2:
            options = {"objective": "binary", "num_threads": 1, "seed": self._seed, "verbose": -1}
            rows = self._library.Dataset(np.array(self._X), (np.array(self._y) > 0).astype(np.int8))
            self._trees = self._library.train(options, rows)


def made(contender: str, leaf: int, seed: int) -> Any:
    """Return a contender before its first row."""
    if contender == "lightgbm":
        return Boosted(leaf, seed)
    return River(contender, RIVERS[contender], seed)


def run(contender: str, source: str, answer: str, lag: int, leaf: int, seed: int) -> None:
    """Predict, then learn, and write which rows were right."""
    with np.load(source) as held:
        X, y = held["X"], held["y"]
    model, right = made(contender, leaf, seed), np.zeros(len(y), np.bool_)
    for start in range(0, len(y), lag):
        part = slice(start, start + lag)
        right[part] = model.predict(X[part]) == y[part]
        model.learn(X[part], y[part])
    np.save(answer, right)


def make(stream: str, target: str, rows: int, seed: int) -> None:
    """Write a stream."""
    found, changes = STREAMS[stream](rows, seed)
    X = np.array([list(x.values()) for x, _ in found], np.float64)
    y = np.where(np.array([bool(label) for _, label in found]), 1, -1).astype(np.int8)
    np.savez(target, X=X, y=y, changes=np.array(changes, np.int64))


def main() -> None:
    """Answer line after line."""
    for line in sys.stdin:
        verb, name, *files, rest = line.rstrip("\n").split("\t")
        numbers, begun = [int(number) for number in rest.split()], time.process_time()
        try:
            (make if verb == "make" else run)(name, *files, *numbers)
            told: dict[str, Any] = {"seconds": time.process_time() - begun}
        except ModuleNotFoundError as error:
            told = {"missing": str(error)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
