"""Other people's learners for `tests.benchmarks.worth`: `python worth_peers.py`, then lines on stdin.

Needs none of this project, so that it runs in an environment of its own (numpy; each library only where its contenders
are to be measured; CapyMOA needs Java, too). A line has words with tabs between them:

- `fit CONTENDER TRAIN TEST ANSWER SEED`: learn an npz file with `X` and `y` (-1 or +1), in one pass if the contender is
  a stream's, and write what is said of the rows of another (`X`) as an npy file: a score that is above 0 for +1, and
  the probability of +1, shape (n, 2);
- `follow CONTENDER STREAM ANSWER LAG LEAF SEED`: answer each row of a stream, an npz file like TRAIN, before its label
  is learned, in portions of LAG rows, and write the same; what is not learned row by row is grown anew after each LEAF
  rows;
- `make STREAM FILE ROWS SEED`: write a generator's stream as an npz file with `X`, `y`, and `changes`, the rows at
  which the rule changes.

The answer is one line of JSON: `seconds` of CPU (a fit's without reading files and predicting; a stream's with
predicting), `bytes` where a contender can count what it holds, or what is `missing`.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import time
from typing import Any

import numpy as np

WINDOW_ROWS = 10_000
"""Of the boosted trees that follow a stream."""
ENSEMBLE = 10
"""Trees of a forest; CapyMOA's default of 100 takes ten times as long."""
LEAST = 1e-6
"""Of a probability: shares of votes reach 0 and 1, where the log loss has no value."""
RTG_RULES = 4
"""Trees by which rows of the random tree generator are labeled one after the other."""
RTG_NOMINALS, RTG_VALUES = 5, 5
JVM = "-Xmx4g -Xss10M -XX:+UseSerialGC"
"""Options of the virtual machine: collections take no threads of their own, so that CPU times are of one."""


def scored(positive: Any) -> Any:
    """Return scores and probabilities, neither 0 nor 1, of probabilities of +1."""
    positive = np.asarray(positive, np.float64)
    return np.column_stack((positive - 0.5, np.clip(positive, LEAST, 1.0 - LEAST)))


# ------------------------------------------------------------------------------------------------------------- learners


class Boosted:
    """LightGBM at its defaults, in one thread: of the newest rows, grown after each leaf; of all that came, if None."""

    def __init__(self, leaf: int | None, seed: int) -> None:
        self._library, self._leaf, self._seed, self._at = importlib.import_module("lightgbm"), leaf, seed, 0
        self._X: list[Any] = []
        self._y: list[Any] = []
        self._trees: Any = None

    def answer(self, X: Any) -> Any:
        return scored(np.full(len(X), 0.5) if self._trees is None else self._trees.predict(X))

    def learn(self, X: Any, y: Any) -> None:
        self._X.append(X)
        self._y.append(y)
        before, self._at = self._at, self._at + len(y)
        if self._leaf is None or self._at // self._leaf > before // self._leaf:
            most = None if self._leaf is None else -WINDOW_ROWS
            X, y = np.concatenate(self._X)[most:], np.concatenate(self._y)[most:]
            self._X, self._y = [X], [y]
            if len(np.unique(y)) == 2:
                options = {"objective": "binary", "num_threads": 1, "seed": self._seed, "verbose": -1}
                self._trees = self._library.train(options, self._library.Dataset(X, (y > 0).astype(np.int8)))

    def bytes(self) -> int:
        return sum(own.nbytes for own in (*self._X, *self._y))


class Moa:
    """A learner of CapyMOA, over MOA in a virtual machine of this process."""

    def __init__(self, made: Any, dimension: int) -> None:
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        names = [f"x{column}" for column in range(dimension)]
        self._schema = Schema.from_custom([*names, "y"], "y", {"y": ["-1", "1"]})
        self._instance, self._labeled = Instance, LabeledInstance
        self._model = made(self._schema)

    def answer(self, X: Any) -> Any:
        """Score by the logarithm of the odds: boosted trees are so sure that their probabilities are all 0 or 1."""
        rows = (self._instance.from_array(self._schema, x) for x in X.astype(np.float64))
        said = [self._model.predict_proba(row) for row in rows]
        shares = np.array([(0.5, 0.5) if one is None or not np.isfinite(one).all() else one for one in said])
        logs = np.log(np.maximum(shares, np.finfo(np.float64).tiny))
        return np.column_stack((logs[:, 1] - logs[:, 0], scored(shares[:, 1])[:, 1]))

    def learn(self, X: Any, y: Any) -> None:
        for x, label in zip(X.astype(np.float64), (y > 0).astype(int).tolist(), strict=True):
            self._model.train(self._labeled.from_array(self._schema, x, label))

    def bytes(self) -> None:
        """Return None: the model's memory is part of the Java heap, which has no figure of its own for it."""


class Batch:
    """An estimator of scikit-learn's interface that is fitted once, to all rows."""

    def __init__(self, estimator: Any) -> None:
        self._estimator, self._held = estimator, 0

    def answer(self, X: Any) -> Any:
        return scored(self._estimator.predict_proba(X)[:, 1])

    def learn(self, X: Any, y: Any) -> None:
        self._estimator.fit(X, y)
        self._held = X.nbytes + y.nbytes

    def bytes(self) -> int:
        return self._held


def lightgbm(dimension: int, leaf: int | None, seed: int) -> Any:
    """Return boosted trees."""
    return Boosted(leaf, seed)


def hist_gb(dimension: int, leaf: int | None, seed: int) -> Any:
    """Return scikit-learn's boosted trees at their defaults."""
    return Batch(importlib.import_module("sklearn.ensemble").HistGradientBoostingClassifier(random_state=seed))


def ebm(dimension: int, leaf: int | None, seed: int) -> Any:
    """Return an explainable boosting machine at its defaults, in this process alone."""
    return Batch(
        importlib.import_module("interpret.glassbox").ExplainableBoostingClassifier(n_jobs=1, random_state=seed)
    )


def moa(kind: str, **options: Any) -> Any:
    """Return what makes a learner of CapyMOA."""

    def made(dimension: int, leaf: int | None, seed: int) -> Any:
        learner = getattr(importlib.import_module("capymoa.classifier"), kind)
        return Moa(lambda schema: learner(schema, random_seed=seed + 1, **options), dimension)

    return made


CONTENDERS = {
    "lightgbm": lightgbm,
    "hist_gb": hist_gb,
    "ebm": ebm,
    "moa_forest": moa("AdaptiveRandomForestClassifier", ensemble_size=ENSEMBLE),
    "moa_sgbt": moa("StreamingGradientBoostedTrees"),
}


def fit(contender: str, train: str, test: str, answer: str, seed: str) -> dict[str, Any]:
    """Learn one file, and answer another."""
    with np.load(train) as held, np.load(test) as aside:
        X, y, Z = held["X"], held["y"], aside["X"]
    model, begun = CONTENDERS[contender](X.shape[1], None, int(seed)), time.process_time()
    model.learn(X, y)
    seconds = time.process_time() - begun
    np.save(answer, model.answer(Z))
    return told(seconds, model)


def follow(contender: str, stream: str, answer: str, lag: str, leaf: str, seed: str) -> dict[str, Any]:
    """Answer each portion of a stream, then learn it."""
    with np.load(stream) as held:
        X, y = held["X"], held["y"]
    model, said = CONTENDERS[contender](X.shape[1], int(leaf), int(seed)), np.empty((len(y), 2))
    begun = time.process_time()
    for start in range(0, len(y), int(lag)):
        part = slice(start, start + int(lag))
        said[part] = model.answer(X[part])
        model.learn(X[part], y[part])
    seconds = time.process_time() - begun
    np.save(answer, said)
    return told(seconds, model)


def told(seconds: float, model: Any) -> dict[str, Any]:
    """Return what is said of a run."""
    held = model.bytes()
    return {"seconds": seconds} if held is None else {"seconds": seconds, "bytes": held}


# -------------------------------------------------------------------------------------------------------------- streams


def rtg(rows: int, seed: int) -> tuple[Any, Any, list[int]]:
    """Return MOA's random tree generator: five numbers and five attributes of five values, as 25 columns of 0 and 1."""
    from capymoa.stream.generator import RandomTreeGenerator

    X, y, changes = [], [], [rows * rule // RTG_RULES for rule in range(1, RTG_RULES)]
    for rule, (begin, end) in enumerate(itertools.pairwise([0, *changes, rows])):
        one = RandomTreeGenerator(
            instance_random_seed=10 * seed + rule + 1,
            tree_random_seed=10 * seed + rule + 1,
            num_nominals=RTG_NOMINALS,
            num_vals_per_nominal=RTG_VALUES,
        )
        for _ in range(end - begin):
            row = one.next_instance()
            X.append(row.x.copy())
            y.append(row.y_index)
    whole = np.array(X)
    codes = whole[:, :RTG_NOMINALS, None] == np.arange(RTG_VALUES)
    columns = np.column_stack((whole[:, RTG_NOMINALS:], codes.reshape(len(whole), -1)))
    return columns.astype(np.float64), np.array(y), changes


STREAMS = {"RTG": rtg}


def make(stream: str, file: str, rows: str, seed: str) -> dict[str, Any]:
    """Write a stream."""
    begun = time.process_time()
    X, y, changes = STREAMS[stream](int(rows), int(seed))
    np.savez(file, X=X, y=np.where(y, 1, -1).astype(np.int8), changes=np.array(changes, np.int64))
    return {"seconds": time.process_time() - begun}


VERBS = {"fit": fit, "follow": follow, "make": make}


def main() -> None:
    """Answer line after line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    os.environ.setdefault("CAPYMOA_JVM_ARGS", JVM)
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        try:
            found = VERBS[verb](*words)
        except ModuleNotFoundError as error:
            found = {"missing": str(error)}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
