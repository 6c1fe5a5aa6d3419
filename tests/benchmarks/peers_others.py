"""River and LightGBM on points of a file: `python peers_others.py`, then lines on stdin.

Needs none of this project, so that it runs in an environment of its own (numpy; river and lightgbm where they are to be
measured). A line is `CONTENDER TRAIN TEST ANSWER SEED`: two npz files with `X`, the first one with `y` (-1 or +1), too;
the npy file for the probabilities of +1; a number. The answer is one line of JSON. Imports and files are outside of the
clock.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

BATCH = 1_000
"""Rows that are made into lists at once."""


def river(X: Any, y: Any, test: Any, seed: int) -> tuple[Any, float]:
    """Pass once over the points, one by one."""
    from river import linear_model, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    names = [str(index) for index in range(X.shape[1])]
    begun = time.process_time()
    for start in range(0, len(y), BATCH):
        part = slice(start, start + BATCH)
        for values, label in zip(X[part].tolist(), (y[part] > 0).tolist(), strict=True):
            model.learn_one(dict(zip(names, values, strict=True)), label)
    seconds = time.process_time() - begun
    # The pipeline's own predict_proba_one, many times faster: its scaler and weights as arrays.
    scaler, rule = model["StandardScaler"], model["LogisticRegression"]
    mean = np.array([scaler.means[name] for name in names])
    spread = np.sqrt(np.array([scaler.vars[name] for name in names]))
    w = np.array([rule.weights.get(name, 0.0) for name in names])
    Z = np.divide(test - mean, spread, out=np.zeros(test.shape), where=spread > 0.0)
    answered = 1.0 / (1.0 + np.exp(-np.clip(Z @ w + rule.intercept, -700.0, 700.0)))
    for values, expected in zip(test[:20].tolist(), answered.tolist(), strict=False):
        own = model.predict_proba_one(dict(zip(names, values, strict=True)))[True]
        assert abs(own - expected) < 1e-9, (own, expected)
    return answered, seconds


def lightgbm(X: Any, y: Any, test: Any, seed: int) -> tuple[Any, float]:
    """Boost with the library's defaults, in one thread."""
    from lightgbm import Dataset, train

    options = {"objective": "binary", "num_threads": 1, "seed": seed, "verbose": -1}
    begun = time.process_time()
    model = train(options, Dataset(X, (y > 0).astype(np.int8)))
    seconds = time.process_time() - begun
    return model.predict(test), seconds


def forest(X: Any, y: Any, test: Any, seed: int) -> tuple[Any, float]:
    """Grow River's adaptive random forest, ten trees, point by point; what it takes is counted once, at the end."""
    from river import forest as river_forest

    model = river_forest.ARFClassifier(seed=seed)
    begun = time.process_time()
    for start in range(0, len(y), BATCH):
        part = slice(start, start + BATCH)
        for values, label in zip(X[part].tolist(), (y[part] > 0).tolist(), strict=True):
            model.learn_one(dict(enumerate(values)), label)
    seconds = time.process_time() - begun
    told["bytes"] = int(model._raw_memory_usage)
    answered = [model.predict_proba_one(dict(enumerate(values))).get(True, 0.0) for values in test.tolist()]
    return np.clip(np.array(answered), 1e-6, 1.0 - 1e-6), seconds


CONTENDERS = {"river": river, "lightgbm": lightgbm, "forest": forest}
told: dict[str, Any] = {}
"""What is said with an answer."""


def main() -> None:
    """Answer line after line."""
    for line in sys.stdin:
        contender, train, test, answer, seed = line.split()
        with np.load(train) as held, np.load(test) as aside:
            X, y, Z = held["X"], held["y"], aside["X"]
        told.clear()
        try:
            positive, seconds = CONTENDERS[contender](X, y, Z, int(seed))
            np.save(answer, positive)
            told["seconds"] = seconds
        except ModuleNotFoundError as error:
            told["missing"] = str(error)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
