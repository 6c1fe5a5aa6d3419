"""The join of late labels by itself: `python -m tests.benchmarks.joining [--rows N] [--late N] [--json FILE]`.

Rows come one a millisecond, each label so many rows later, give or take a tenth, from two logs that are at hand in
portions of 4,000; keys are hashed from bytes, as in a trainer. Reading from a broker and parsing are not in it. Beside
it: the same join by a dict in plain Python, without the rule's order, its horizon or its letters, and by pandas over
all rows at once, which holds all of them. Seconds are of processor time; `bytes_a_row` is all but features and weights,
over the rows held at their most.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from streamsvm.joining.joiner import Joiner, warm_up
from streamsvm.joining.log_time import ENOUGH
from streamsvm.joining.rows import FeatureRows, JoinRules, LabelRows, hashed
from streamsvm.points import Position

PORTION: Final = 4_000
FLOAT: Final = np.dtype(np.float32)


class Streams:
    """Both logs; features are made a portion at a time, so that they take no memory beside the join's."""

    def __init__(self, rows: int, late: int, dimension: int) -> None:
        random = np.random.default_rng(0)
        self.rows, self.late, self.dimension = rows, late, dimension
        self.y = np.where(random.random(rows) < 0.1, 1, -1).astype(np.int8)
        comes_ms = np.arange(rows) + late + random.integers(-late // 10, late // 10 + 1, rows)
        self.label_of = np.argsort(comes_ms, kind="stable")
        self.label_ms = comes_ms[self.label_of]
        self.X = random.normal(size=(PORTION, dimension)).astype(FLOAT)

    def features(self) -> Iterator[tuple[NDArray[np.int64], list[bytes]]]:
        for start in range(0, self.rows, PORTION):
            numbers = np.arange(start, min(start + PORTION, self.rows))
            yield numbers, [b"%d" % number for number in numbers.tolist()]

    def labels(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], list[bytes]]]:
        for start in range(0, self.rows, PORTION):
            of = self.label_of[start : start + PORTION]
            yield np.arange(start, start + len(of)), of, [b"%d" % number for number in of.tolist()]


def by_joiner(streams: Streams) -> dict[str, Any]:
    """Join as a trainer does; both logs are read a portion at a time, whichever is waited for."""
    horizon = streams.late + streams.late // 10 + 1
    rules = JoinRules(horizon_ms=horizon, early_ms=1_000, absent="negative", most_rows=1 << 30)
    joiner = Joiner(0, rules, streams.dimension, FLOAT, Position(0), Position(0))
    features, labels = streams.features(), streams.labels()
    joined, held, size, right = 0, 0, 0, 0
    features_left = labels_left = True
    while features_left or labels_left:
        if features_left and not joiner.features_waiting:
            features_left = add_features(joiner, streams, features)
        if labels_left and not joiner.labels_waiting:
            labels_left = add_labels(joiner, streams, labels)
        while True:
            rows, letters = joiner.join()
            if rows is None and not letters:
                break
            if rows is not None:
                joined += len(rows)
                right += int((rows.points.y == 1).sum())
        held = max(held, joiner.rows_kept)
        size = max(size, joiner.index_bytes)
    return {"joined": joined, "held": held, "index_bytes": size, "positives": right}


def add_features(joiner: Joiner, streams: Streams, features: Iterator[tuple[NDArray[np.int64], list[bytes]]]) -> bool:
    portion = next(features, None)
    # At the end watermarks, or the last labels would wait.
    numbers, keys = portion or (streams.rows + np.arange(ENOUGH), [b""] * ENOUGH)
    n = len(numbers)
    joiner.add_features(
        FeatureRows(
            offset=numbers,
            row=np.zeros(n, np.int64),
            last=np.ones(n, np.bool_),
            time_ms=numbers if portion else numbers + 10 * streams.late,
            key=hashed(keys),
            ok=np.full(n, portion is not None),
            X=streams.X[:n],
            weight=np.ones(n),
            leader_epoch=np.zeros(n, np.int64),
        )
    )
    return portion is not None


def add_labels(
    joiner: Joiner, streams: Streams, labels: Iterator[tuple[NDArray[np.int64], NDArray[np.int64], list[bytes]]]
) -> bool:
    portion = next(labels, None)
    if portion is None:
        return False
    offsets, of, keys = portion
    n = len(offsets)
    joiner.add_labels(
        LabelRows(
            offset=offsets,
            row=np.zeros(n, np.int64),
            last=np.ones(n, np.bool_),
            time_ms=streams.label_ms[offsets],
            key=hashed(keys),
            sign=streams.y[of],
            leader_epoch=np.zeros(n, np.int64),
        )
    )
    return True


def by_dict(streams: Streams) -> dict[str, Any]:
    """Join by a dict of keys to rows of features, in plain Python."""
    open_rows: dict[bytes, NDArray[np.float32]] = {}
    features = streams.features()
    read, joined, held, right = 0, 0, 0, 0
    for offsets, of, keys in streams.labels():
        until = min(int(streams.label_ms[offsets[-1]]) + 1, streams.rows)  # a row is there before its label's time
        while read < until:
            numbers, own = next(features)
            open_rows.update(zip(own, streams.X[: len(own)], strict=True))
            read += len(numbers)
        held = max(held, len(open_rows))
        X = np.array([open_rows.pop(key) for key in keys])
        joined += len(X)
        right += int((streams.y[of] == 1).sum())
    return {"joined": joined, "held": held, "positives": right}


def by_pandas(streams: Streams) -> dict[str, Any]:
    """Join all rows at once by `pandas.merge`."""
    keys = np.arange(streams.rows)
    features = pd.DataFrame({"key": keys})
    for column in range(streams.dimension):
        features[f"x{column}"] = np.resize(streams.X[:, column], streams.rows)
    labels = pd.DataFrame({"key": streams.label_of, "y": streams.y[streams.label_of]})
    joined = labels.merge(features, on="key")
    return {"joined": len(joined), "held": streams.rows, "positives": int((joined.y == 1).sum())}


CONTENDERS: Final[dict[str, Callable[[Streams], dict[str, Any]]]] = {
    "joiner": by_joiner,
    "dict": by_dict,
    "pandas": by_pandas,
}


def measure(rows: int, late: int, dimension: int) -> list[dict[str, Any]]:
    """Return a row of figures for each contender."""
    warm_up(FLOAT)
    streams = Streams(rows, late, dimension)
    found = []
    for name, join in CONTENDERS.items():
        begun, cpu = time.perf_counter(), time.process_time()
        figures = join(streams)
        seconds, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
        size = figures.get("index_bytes")
        found.append(
            {
                "contender": name,
                "rows": rows,
                "late": late,
                "dimension": dimension,
                "joined": figures["joined"],
                "positives": figures["positives"],
                "seconds": seconds,
                "cpu_seconds": cpu_s,
                "joined_per_cpu_second": figures["joined"] / cpu_s,
                "rows_held": figures["held"],
                "bytes_a_row": None if size is None else size / figures["held"],
            }
        )
    if len({one["positives"] for one in found}) != 1:
        raise SystemExit("the contenders joined different labels")
    return found


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the figures for people."""
    shown = Table(box=box.SIMPLE_HEAD)
    for name in ("contender", "joined", "CPU s", "joined a CPU second", "to the joiner", "rows held", "bytes a row"):
        shown.add_column(name, justify="left" if name == "contender" else "right")
    own = rows[0]["joined_per_cpu_second"]
    for row in rows:
        size = row["bytes_a_row"]
        shown.add_row(
            row["contender"],
            f"{row['joined']:,}",
            f"{row['cpu_seconds']:.1f}",
            f"{row['joined_per_cpu_second']:,.0f}",
            f"{row['joined_per_cpu_second'] / own:.2f}",
            f"{row['rows_held']:,}",
            "-" if size is None else f"{size:.1f}",
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.joining", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--late", type=int, default=1_000_000, help="rows by which labels are late")
    parser.add_argument("--dimension", type=int, default=8)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    found = measure(given.rows, given.late, given.dimension)
    Console(file=sys.stdout, width=120).print(table(found))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
