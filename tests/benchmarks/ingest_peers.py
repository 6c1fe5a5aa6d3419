"""Other loops over the topics that ours reads: `python ingest_peers.py SERVERS AVRO_SCHEMA`, then lines on stdin.

Needs none of this project, so that it runs in an environment of its own, of the packages in `ingest_peers.txt`;
quixstreams is needed where it is to be measured. A line is `CONTENDER FORMAT ROWS TOPIC PARTITIONS N DIMENSION`, with
the rows of a record; the answer is one line of JSON. Every partition is read at once, and about `BATCH` points at a
time are fitted, at least those of one record. The watch begins with the first record at hand.
"""

from __future__ import annotations

import io
import json
import logging
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import fastavro
import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

BATCH = 1_000
TIMEOUT_S = 30.0
FRAME_BYTES = 5
"""A zero byte and the schema's id before a datum of Avro."""
HASHED = 64
ZONE = ZoneInfo("Europe/Berlin")


@dataclass(frozen=True)
class Asked:
    """What a contender is to do.

    Attributes
    ----------
    format : str
        As `tests.benchmarks.ingest` names it.
    rows : int
        Points of a record.
    topic : str
    partitions, n, dimension : int
    """

    format: str
    rows: int
    topic: str
    partitions: int
    n: int
    dimension: int


def consumed(servers: str, asked: Asked) -> Iterator[list[bytes]]:
    options = {"bootstrap.servers": servers, "group.id": "peers", "enable.auto.commit": False}
    consumer = Consumer({**options, "fetch.queue.backoff.ms": 10})
    consumer.list_topics(asked.topic, timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(asked.topic, partition, 0) for partition in range(asked.partitions)])
    missing, at_once = asked.n // asked.rows, math.ceil(BATCH / asked.rows)
    while missing:
        messages = consumer.consume(min(at_once, missing), TIMEOUT_S)
        assert messages, f"{missing} records did not come"
        yield [message.value() for message in messages]
        missing -= len(messages)
    consumer.close()


# ------------------------------------------------------------------------------------------------------------ decoding


def of_json(values: list[bytes]) -> tuple[Any, Any]:
    points = orjson.loads(b"[" + b",".join(values) + b"]")
    return np.array([point["x"] for point in points]), np.array([point["y"] for point in points])


def of_json_arrays(values: list[bytes]) -> tuple[Any, Any]:
    points = [point for value in values for point in orjson.loads(value)]
    return np.array([point["x"] for point in points]), np.array([point["y"] for point in points])


def of_avro(schema: Any) -> Callable[[list[bytes]], tuple[Any, Any]]:
    def decoded(values: list[bytes]) -> tuple[Any, Any]:
        read = fastavro.schemaless_reader
        points = [point for value in values for point in read(io.BytesIO(value[FRAME_BYTES:]), schema, None)]
        return np.array([point["x"] for point in points]), np.array([point["y"] for point in points])

    return decoded


def of_arrow(values: list[bytes]) -> tuple[Any, Any]:
    tables = [pa.ipc.open_stream(value).read_all().combine_chunks() for value in values]
    X = [table["x"].chunk(0).flatten().to_numpy().reshape(table.num_rows, -1) for table in tables]
    return np.concatenate(X), np.concatenate([table["y"].to_numpy() for table in tables])


def of_events(values: list[bytes]) -> tuple[Any, Any]:
    """Return the columns that README's example declares, by hand."""
    events = orjson.loads(b"[" + b",".join(values) + b"]")
    X = np.zeros((len(events), 4 + HASHED + 4))
    X[:, 0] = np.log1p([event["amount"] for event in events])
    countries = np.array([event["card"].get("country") or "" for event in events])
    for column, country in enumerate(("DE", "FR", ""), start=1):
        X[:, column] = countries == country
    hashes = np.array([zlib.crc32(event["merchant"].encode()) for event in events])
    X[np.arange(len(events)), 4 + hashes % HASHED] = np.where(hashes & (1 << 20), 1.0, -1.0)
    times = [datetime.fromisoformat(event["ts"]).astimezone(ZONE) for event in events]
    hours = np.array([time.hour + time.minute / 60 for time in times]) * (2 * np.pi / 24)
    days = np.array([time.weekday() for time in times]) * (2 * np.pi / 7)
    for column, turned in enumerate((np.sin(hours), np.cos(hours), np.sin(days), np.cos(days)), start=4 + HASHED):
        X[:, column] = turned
    return X, np.array([1 if event["is_fraud"] else -1 for event in events])


def decoder_of(format_: str, avro_schema: str) -> Callable[[list[bytes]], tuple[Any, Any]]:
    if format_ == "avro":
        return of_avro(fastavro.parse_schema(json.loads(avro_schema)))
    return {"json": of_json, "json-array": of_json_arrays, "events": of_events}.get(format_, of_arrow)


# ----------------------------------------------------------------------------------------------------------- the loops


class Sgd:
    """StandardScaler and SGDClassifier, batch by batch."""

    def __init__(self) -> None:
        self._scaler, self._model = StandardScaler(), SGDClassifier(loss="hinge", alpha=1e-4, random_state=0)

    def fit(self, X: Any, y: Any) -> None:
        self._scaler.partial_fit(X)
        self._model.partial_fit(self._scaler.transform(X), y, classes=(-1, 1))


def bare(values: list[bytes]) -> None:
    """Nothing beyond the bytes."""


def sgd(decode: Callable[[list[bytes]], tuple[Any, Any]]) -> Callable[[list[bytes]], None]:
    learner = Sgd()
    return lambda values: learner.fit(*decode(values))


def river(dimension: int) -> Callable[[list[bytes]], None]:
    from river import linear_model, optim, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.01), loss=optim.losses.Hinge())
    names = [str(index) for index in range(dimension)]

    def fit(values: list[bytes]) -> None:
        for value in values:
            point = orjson.loads(value)
            model.learn_one(dict(zip(names, point["x"], strict=True)), point["y"] > 0)

    return fit


def quix(servers: str, asked: Asked) -> tuple[float, float, int]:
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

    app.dataframe(app.topic(asked.topic, value_deserializer="json")).apply(learn)
    app.run(count=asked.n, timeout=TIMEOUT_S)
    return time.perf_counter() - began[0], time.process_time() - began[1], len(xs)


def run(servers: str, avro_schema: str, contender: str, asked: Asked) -> tuple[float, float, int]:
    """Return seconds, CPU seconds and points seen."""
    if contender == "quix":
        return quix(servers, asked)
    decode = decoder_of(asked.format, avro_schema)
    makers: dict[str, Callable[[], Callable[[list[bytes]], Any]]] = {
        "bare": lambda: bare,
        "decode": lambda: decode,
        "sgd": lambda: sgd(decode),
        "river": lambda: river(asked.dimension),
    }
    fit, seen = makers[contender](), 0
    batches = consumed(servers, asked)
    first = next(batches)
    wall, cpu = time.perf_counter(), time.process_time()
    fit(first)
    seen += len(first)
    for values in batches:
        fit(values)
        seen += len(values)
    return time.perf_counter() - wall, time.process_time() - cpu, seen * asked.rows


if __name__ == "__main__":
    for line in sys.stdin:
        contender, format_, rows, topic, *numbers = line.split()
        try:
            asked = Asked(format_, int(rows), topic, *map(int, numbers))
            wall_s, cpu_s, seen = run(sys.argv[1], sys.argv[2], contender, asked)
            answer = {"wall_s": wall_s, "cpu_s": cpu_s, "seen": seen}
        except ModuleNotFoundError as error:
            answer = {"missing": str(error)}
        print(json.dumps(answer), flush=True)
