"""Raw events of 12 fields by column and by schema, beside points of as many columns: `python -m
tests.benchmarks.event_formats`.

Arrow: records of 4,096 rows, whose columns are the fields (nested ones in structs, texts as dictionaries), against
records of the same columns ready-made as `x`. Avro and Protobuf: a record for each event, against the loop by hand:
fastavro (or the generated class of a message), a dictionary of features for each record, `FeatureHasher` and
`SGDClassifier`; and against Avro records of `x`. Decoding alone, and with the learner at default settings and one
model of everything. No broker; CPU time of one process on one thread, in turns.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from streamsvm.branches.events.features.columns import columns_of
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.ingest import arrow, avro
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.learning import learner as learning
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.points import Position
from tests.benchmarks.events import BATCH, EVENTS, FEATURES, events, features_by_hand
from tests.benchmarks.timing import ROUNDS_AT_LEAST, Interval, Outcome, Stopwatch, alternate
from tests.codec.rows import ARROW, AVRO, InColumns, Raw, Shelf

ROWS: Final = 4_096
"""Of an Arrow record."""
TEXTS: Final = ("channel", "currency", "brand", "plan")
AVRO_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "ts", "type": "string"},
        *({"name": name, "type": "double"} for name in ("amount", "risk")),
        *({"name": name, "type": "int"} for name in ("age", "items")),
        {
            "name": "card",
            "type": {
                "type": "record",
                "name": "Card",
                "fields": [{"name": "country", "type": "string"}, {"name": "issued", "type": "int"}],
            },
        },
        *({"name": name, "type": "string"} for name in TEXTS),
        *({"name": name, "type": "boolean"} for name in ("vip", "fraud")),
    ],
}
WORD: Final = pa.dictionary(pa.int32(), pa.string())
ARROW_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.string()),
        *((name, pa.float64()) for name in ("amount", "risk")),
        *((name, pa.int32()) for name in ("age", "items")),
        ("card", pa.struct([("country", WORD), ("issued", pa.int32())])),
        *((name, WORD) for name in TEXTS),
        *((name, pa.bool_()) for name in ("vip", "fraud")),
    ]
)
Records = list[InColumns]


def _streams(found: Sequence[dict[str, Any]]) -> list[bytes]:
    made = []
    for start in range(0, len(found), ROWS):
        batch = pa.RecordBatch.from_pylist(list(found[start : start + ROWS]), ARROW_SCHEMA)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ARROW_SCHEMA) as writer:
            writer.write_batch(batch)
        made.append(bytes(sink.getvalue()))
    return made


def _in_batches(values: Sequence[bytes], headers: tuple[tuple[str, bytes], ...], each: int) -> Records:
    raw = [Raw(value, at, headers=headers) for at, value in enumerate(values)]
    return [InColumns(raw[start : start + each]) for start in range(0, len(raw), each)]


class Cases:
    """The same events in every form."""

    def __init__(self, count: int) -> None:
        self.recipe = recipe_from(FEATURES, EVENTS)
        self.names = points_of(self.recipe)
        found = [json.loads(value) for value in events(count)]
        X = columns_of(self.recipe).of_events(found).X.astype(np.float32)
        y = [event["fraud"] for event in found]
        self.arrow = _in_batches(_streams(found), ARROW, 1)
        whole = [arrow.encode(X[at : at + ROWS], y[at : at + ROWS]) for at in range(0, count, ROWS)]
        self.arrow_x = _in_batches(whole, ARROW, 1)
        writer = avro.AvroWriter(json.dumps(AVRO_SCHEMA), 1)
        self.values = [writer.encode(event) for event in found]
        self.avro = _in_batches(self.values, AVRO, BATCH)
        schema_x = avro.schema_of(True, many=False)
        writer_x = avro.AvroWriter(schema_x, 2)
        points = [{"x": x, "y": label, "w": None, "id": None} for x, label in zip(X.tolist(), y, strict=True)]
        self.avro_x = _in_batches([writer_x.encode(point) for point in points], AVRO, BATCH)
        self.shelf = Shelf({1: json.dumps(AVRO_SCHEMA), 2: schema_x})


def ours(cases: Cases, what: str, *, learns: bool) -> list[Outcome]:
    """Decode records, of raw events or of points, and learn what comes of them."""
    recipe = None if what.endswith("x") else cases.recipe
    config = ModelConfig(points=PointsConfig(**cases.names), features=recipe)
    watch, seen = Stopwatch(), 0
    decoder = PointDecoder(config.points, recipe=recipe, schemas=cases.shelf)
    learner = Learner(config, {0: Position(0)}, sys.maxsize)
    for batch in getattr(cases, what):
        (rows,) = decoder.decode(batch).rows
        seen += int(np.count_nonzero(rows.accepted))
        done = 0
        while learns and done < len(rows):
            done += learner.learn(rows.slice(done, len(rows)))
    if learns:
        make(learner.cut(), config)
    return [Outcome("events", f"{what}{'' if learns else ', decoding only'}", seen, watch.lap())]


def by_hand(cases: Cases) -> list[Outcome]:
    """Read each record by fastavro, make a dictionary of features, encode, and learn by SGD."""
    schema, machine, encoder = fastavro.parse_schema(AVRO_SCHEMA), SGDClassifier(), FeatureHasher(n_features=32)
    watch, seen = Stopwatch(), 0
    for start in range(0, len(cases.values), BATCH):
        parsed: list[Any] = [
            fastavro.schemaless_reader(io.BytesIO(value[avro.FRAME.size :]), schema, None)
            for value in cases.values[start : start + BATCH]
        ]
        X = encoder.transform([features_by_hand(event) for event in parsed])
        machine.partial_fit(X, [event["fraud"] for event in parsed], classes=[False, True])
        seen += len(parsed)
    return [Outcome("events", "avro by hand", seen, watch.lap())]


def measure(count: int, runs: int) -> list[dict[str, Any]]:
    """Return a row for each contender: its time on the processor, and its speed to that of its reference.

    Raises
    ------
    AssertionError
        If a contender did not see every event.
    """
    cases = Cases(count)
    contenders: list[Callable[[], list[Outcome]]] = [
        partial(ours, cases, what, learns=learns)
        for learns in (True, False)
        for what in ("arrow", "arrow_x", "avro", "avro_x")
    ]
    with threadpool_limits(1):
        learning.warm_up(ModelConfig(points=PointsConfig(dimension=2)))
        outcomes = alternate([*contenders, partial(by_hand, cases)], runs)
    times: dict[str, list[float]] = {}
    for outcome in outcomes:
        assert outcome.seen == count, f"{outcome.contender} saw {outcome.seen} of {count} events"
        times.setdefault(outcome.contender, []).append(1e6 * outcome.lap.cpu_s / count)
    figures = {name: Interval.of(found) for name, found in times.items()}
    rows = []
    for name, figure in figures.items():
        what, _, alone = name.partition(",")
        reference = f"{what}_x{',' if alone else ''}{alone}"
        by = {
            "to_x": figures[reference].median / figure.median if reference in figures else None,
            "to_by_hand": figures["avro by hand"].median / figure.median if what == "avro" and not alone else None,
        }
        rows.append(
            {
                "contender": name,
                "events": count,
                "cpu_us_per_event": round(figure.median, 3),
                "least": round(figure.least, 3),
                "greatest": round(figure.greatest, 3),
                **{key: None if ratio is None else round(ratio, 2) for key, ratio in by.items()},
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=ROUNDS_AT_LEAST)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = measure(options.events, options.runs)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"{options.events:,} events of 12 fields, median of {options.runs} runs (least to greatest), one thread")
    for row in rows:
        ratios = [f"{key} {row[key]:.2f}" for key in ("to_x", "to_by_hand") if row[key] is not None]
        print(
            f"{row['contender']:26} {row['cpu_us_per_event']:8.3f} us an event "
            f"({row['least']:.3f} to {row['greatest']:.3f})  {'  '.join(ratios)}"
        )


if __name__ == "__main__":
    main()
