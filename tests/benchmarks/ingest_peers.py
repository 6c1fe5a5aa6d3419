"""Other loops over the topics that ours reads: `python ingest_peers.py SERVERS AVRO_SCHEMA`, then lines on stdin.

Needs none of this project, so that it runs in an environment of its own, of the packages in `ingest_peers.txt`. A line
is `CONTENDER FORMAT ROWS TOPIC PARTITIONS N`, with the rows of a record; the answer is one line of JSON. Every
partition is read at once, and about `BATCH` points at a time are fitted, at least those of one record. The watch begins
with the first record at hand.
"""

from __future__ import annotations

import io
import itertools
import json
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
    """A topic: its format as `tests.benchmarks.ingest` names it, the points of a record, partitions, and all points."""

    format: str
    rows: int
    topic: str
    partitions: int
    n: int


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


def bare(values: list[bytes]) -> None:
    """Nothing beyond the bytes."""


def sgd(decode: Callable[[list[bytes]], tuple[Any, Any]]) -> Callable[[list[bytes]], None]:
    """StandardScaler and SGDClassifier, batch by batch."""
    scaler, model = StandardScaler(), SGDClassifier(loss="hinge", alpha=1e-4, random_state=0)

    def fit(values: list[bytes]) -> None:
        X, y = decode(values)
        scaler.partial_fit(X)
        model.partial_fit(scaler.transform(X), y, classes=(-1, 1))

    return fit


def run(servers: str, avro_schema: str, contender: str, asked: Asked) -> dict[str, Any]:
    """Return seconds, CPU seconds and points seen."""
    fit, seen = bare if contender == "bare" else sgd(decoder_of(asked.format, avro_schema)), 0
    batches = consumed(servers, asked)
    first = next(batches)
    wall, cpu = time.perf_counter(), time.process_time()
    for values in itertools.chain([first], batches):
        fit(values)
        seen += len(values)
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {**seconds, "seen": seen * asked.rows}


if __name__ == "__main__":
    for line in sys.stdin:
        contender, format_, rows, topic, *numbers = line.split()
        asked = Asked(format_, int(rows), topic, *map(int, numbers))
        print(json.dumps(run(sys.argv[1], sys.argv[2], contender, asked)), flush=True)
