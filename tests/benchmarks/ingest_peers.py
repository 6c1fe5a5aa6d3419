"""Other loops over a topic of single-point JSON records: `python ingest_peers.py SERVERS`, then lines on stdin.

Needs none of this project, so that it runs in an environment of its own (confluent-kafka, orjson, scikit-learn; river
and quixstreams where they are to be measured). A line is `CONTENDER TOPIC N DIMENSION`; the answer is one line of JSON.
The watch begins with the first record at hand.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Consumer, TopicPartition
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

BATCH = 1_000
TIMEOUT_S = 30.0


def consumed(servers: str, topic: str, n: int) -> Iterator[list[bytes]]:
    options = {"bootstrap.servers": servers, "group.id": "peers", "enable.auto.commit": False}
    consumer = Consumer({**options, "fetch.queue.backoff.ms": 10})
    consumer.list_topics(topic, timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(topic, 0, 0)])
    missing = n
    while missing:
        messages = consumer.consume(min(BATCH, missing), TIMEOUT_S)
        assert messages, f"{missing} records did not come"
        yield [message.value() for message in messages]
        missing -= len(messages)
    consumer.close()


def arrays(values: list[bytes]) -> tuple[Any, Any]:
    points = orjson.loads(b"[" + b",".join(values) + b"]")
    return np.array([point["x"] for point in points]), np.array([point["y"] for point in points])


class Sgd:
    """StandardScaler and SGDClassifier, batch by batch."""

    def __init__(self) -> None:
        self._scaler, self._model = StandardScaler(), SGDClassifier(loss="hinge", alpha=1e-4, random_state=0)

    def fit(self, X: Any, y: Any) -> None:
        self._scaler.partial_fit(X)
        self._model.partial_fit(self._scaler.transform(X), y, classes=(-1, 1))


def bare(values: list[bytes]) -> None:
    """Nothing beyond the bytes."""


def decode(values: list[bytes]) -> None:
    arrays(values)


def sgd() -> Callable[[list[bytes]], None]:
    learner = Sgd()
    return lambda values: learner.fit(*arrays(values))


def river(dimension: int) -> Callable[[list[bytes]], None]:
    from river import linear_model, optim, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.01), loss=optim.losses.Hinge())
    names = [str(index) for index in range(dimension)]

    def fit(values: list[bytes]) -> None:
        for value in values:
            point = orjson.loads(value)
            model.learn_one(dict(zip(names, point["x"], strict=True)), point["y"] > 0)

    return fit


def quix(servers: str, topic: str, n: int) -> tuple[float, float, int]:
    from quixstreams import Application

    logging.disable(logging.CRITICAL)
    options = {"fetch.queue.backoff.ms": 10}
    app = Application(
        servers, consumer_group=f"quix-{time.time_ns()}", auto_offset_reset="earliest", consumer_extra_config=options
    )
    learner, xs, ys, began = Sgd(), [], [], []

    def learn(point: Any) -> None:
        if not began:
            began.extend((time.perf_counter(), time.process_time()))
        xs.append(point["x"])
        ys.append(point["y"])
        if len(xs) % BATCH == 0:
            learner.fit(np.array(xs[-BATCH:]), np.array(ys[-BATCH:]))

    app.dataframe(app.topic(topic, value_deserializer="json")).apply(learn)
    app.run(count=n, timeout=TIMEOUT_S)
    return time.perf_counter() - began[0], time.process_time() - began[1], len(xs)


def run(servers: str, contender: str, topic: str, n: int, dimension: int) -> tuple[float, float, int]:
    """Return seconds, CPU seconds and points seen."""
    if contender == "quix":
        return quix(servers, topic, n)
    makers = {"bare": lambda: bare, "decode": lambda: decode, "sgd": sgd, "river": lambda: river(dimension)}
    fit, seen = makers[contender](), 0
    batches = consumed(servers, topic, n)
    first = next(batches)
    wall, cpu = time.perf_counter(), time.process_time()
    fit(first)
    seen += len(first)
    for values in batches:
        fit(values)
        seen += len(values)
    return time.perf_counter() - wall, time.process_time() - cpu, seen


if __name__ == "__main__":
    for line in sys.stdin:
        contender, topic, n, dimension = line.split()
        try:
            wall_s, cpu_s, seen = run(sys.argv[1], contender, topic, int(n), int(dimension))
            answer = {"wall_s": wall_s, "cpu_s": cpu_s, "seen": seen}
        except ModuleNotFoundError as error:
            answer = {"missing": str(error)}
        print(json.dumps(answer), flush=True)
