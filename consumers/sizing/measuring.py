"""The constants of this machine at this moment: some seconds of decoding, learning and training points that are made.

Processor time of one thread, so that a busy machine counts as it is: slower, not shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, Literal

import numpy as np

from consumers.sizing.demand import Constants
from streamsvm.config import ModelConfig
from streamsvm.ingest import arrow
from streamsvm.ingest.decoder import PointDecoder, encode
from streamsvm.kafka import Record
from streamsvm.learning.learner import Learner, warm_up
from streamsvm.learning.recipe import make
from streamsvm.learning.training import limited
from streamsvm.points import Points, Position, Rows

PointFormat = Literal["json", "json-array", "arrow"]
SPAN_ROWS: Final = 1_000
"""Rows that are learned at once, as a poll brings them."""
ARRAY_POINTS: Final = 256
ARROW_POINTS: Final = 4_096
DECODED_POINTS: Final = 65_536
LEARNED_ROWS: Final = 400_000
"""Rows of the partition that is measured, of which the second half counts: a stream's first leaves are slower."""


def measure(
    config: ModelConfig,
    partitions: int,
    point_format: PointFormat,
    *,
    rows: int = LEARNED_ROWS,
    points: int = DECODED_POINTS,
    say: Callable[[str], object] = lambda _: None,
) -> Constants:
    """Return what a point of two labels takes here.

    Parameters
    ----------
    config : ModelConfig
        With a label for -1 and one for +1.
    partitions : int
        That share the memory.
    point_format : str
    rows, points : int
        How many are learned and decoded.
    say : callable
        Told what is being measured.
    """
    say("compiling, or loading what was compiled")
    warm_up(config)
    made = _made(max(points, SPAN_ROWS), config)
    with limited(config.svm):
        say("decoding")
        decode_us, point_bytes = _decoding(config, made.take(slice(0, points)), point_format)
        say("learning")
        learner = Learner(config, {p: Position(0) for p in range(partitions)}, 1 << 62)
        learn_us = _learning(learner, made, rows)
        held = learner.state().partitions[0]
        own = sum(len(bucket.points) for bucket in held.buckets) + len(held.leaf_points)
        say("training")
        training_s, training_points = _training(config, made)
    return Constants(
        decode_us=decode_us,
        learn_us=learn_us,
        point_bytes=point_bytes,
        partition_bytes=float(own * config.points.point_bytes),
        training_s=training_s,
        training_points=training_points,
    )


def _made(n: int, config: ModelConfig) -> Points:
    """Return points of two clouds that overlap; the same every time."""
    random, d = np.random.default_rng(0), config.points.dimension
    y = np.where(random.random(n) < 0.5, -1, 1).astype(np.int8)
    X = random.normal(size=(n, d)) + 0.8 * y[:, None] / np.sqrt(d)
    return Points(X.astype(config.points.numpy_dtype), y, np.ones(n))


def _decoding(config: ModelConfig, points: Points, point_format: PointFormat) -> tuple[float, float]:
    """Return microseconds and bytes a point."""
    values = list(_encoded(points, config, point_format))
    headers = (("content-type", arrow.CONTENT_TYPE.encode()),) if point_format == "arrow" else ()
    records = [Record("points", 0, at, None, value, headers, 0, 0) for at, value in enumerate(values)]
    decoder, best = PointDecoder(config.points), np.inf
    for _ in range(3):
        began = time.thread_time()
        decoded = decoder.decode(records)
        best = min(best, time.thread_time() - began)
    assert sum(int(rows.accepted.sum()) for rows in decoded.rows) == len(points)
    return 1e6 * best / len(points), sum(map(len, values)) / len(points)


def _encoded(points: Points, config: ModelConfig, point_format: PointFormat) -> Iterator[bytes]:
    labels = [config.points.labels[int(sign > 0)] for sign in points.y]
    if point_format == "arrow":
        for at in range(0, len(points), ARROW_POINTS):
            part = slice(at, at + ARROW_POINTS)
            yield arrow.encode(points.X[part], labels[part])
        return
    singles = [encode(x, label) for x, label in zip(points.X, labels, strict=True)]
    if point_format == "json":
        yield from singles
        return
    for at in range(0, len(singles), ARRAY_POINTS):
        yield b"[" + b",".join(singles[at : at + ARRAY_POINTS]) + b"]"


def _learning(learner: Learner, points: Points, rows: int) -> float:
    """Let a learner learn rows of partition 0; return microseconds a row of the second half."""
    taken = 0.0
    for begin in range(0, rows, SPAN_ROWS):
        span = _rows(points, begin)
        began = time.thread_time()
        learner.learn(span)
        if begin >= rows // 2:
            taken += time.thread_time() - began
    return 1e6 * taken / max(1, rows - rows // 2)


def _rows(points: Points, begin: int) -> Rows:
    at = begin % (len(points) - SPAN_ROWS + 1)
    return Rows(
        partition=0,
        offset=np.arange(begin, begin + SPAN_ROWS),
        row=np.zeros(SPAN_ROWS, np.int64),
        last=np.ones(SPAN_ROWS, np.bool_),
        time_ms=np.zeros(SPAN_ROWS, np.int64),
        accepted=np.ones(SPAN_ROWS, np.bool_),
        points=points.take(slice(at, at + SPAN_ROWS)),
        leader_epoch=np.zeros(SPAN_ROWS, np.int64),
    )


def _training(config: ModelConfig, points: Points) -> tuple[float, int]:
    """Return seconds of a version of what one partition holds after four leaves, and how many points that are."""
    learner = Learner(config, {0: Position(0)}, 1 << 62)
    for begin in range(0, 4 * config.coreset.leaf_rows, SPAN_ROWS):
        learner.learn(_rows(points, begin))
    began = time.thread_time()
    cut = learner.cut()
    make(cut, config)
    return time.thread_time() - began, len(cut.points)
