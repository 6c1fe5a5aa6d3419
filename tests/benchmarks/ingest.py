"""From topic to model on a real broker, one core for the consumer, by format: `python -m tests.benchmarks.ingest`.

Ours is the trainer as it is deployed, from when the first records are at hand, as for the others, until the model of
all points is published: with validation, coreset, training in a second thread on the same core, transactions and
checkpoints, at default settings, `streamsvm`, and with `svm.kernel = "additive"`, `additive`: a version falls due with
every leaf, and one is trained at a time while the loop goes on. Records are dealt out in turn over the partitions, in
blocks of a producer's batch. Beside it the loops of
`ingest_peers` (`sgd`, and `bare`, which reads only) in an environment of their own (`--make-peers DIR` makes it,
`--peers PYTHON` uses it), over the same topics. Contenders take turns; the broker has the other core.
Processor time is that of the consumer's whole process, the client's threads among them: on a machine that others use it
tells more than the wall. `events` are raw events by README's example of `[features]`, whatever `--dimension` says.

Of our loop each row has the longest turn over all runs.

Avro's schemas come from a stand-in, asked once a run. Decoding alone is timed in this process, without a broker.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Producer

from consumers.settings import CheckpointConfig, HttpConfig, InputConfig, OutputConfig, Settings
from streamsvm.branches.events import points_of, recipe_from
from streamsvm.config import PointsConfig, SvmConfig
from streamsvm.ingest import PointDecoder, arrow, avro, encode
from streamsvm.kafka import Cluster, Connection, Record, TopicSpec
from tests.benchmarks.runner import (
    Child,
    Interval,
    aligned,
    make_environment,
    numbers,
    parser_of,
    shown,
    turns,
    words,
    written,
)
from tests.benchmarks.trainers import serve, started_broker, trained

HERE: Final = Path(__file__).parent
OURS: Final = ("streamsvm", "additive")
PEERS: Final = ("sgd", "bare")
CORE: Final = 0
BROKER_CORE: Final = 1
LENGTH: Final[Mapping[str, int]] = {"arrow-4096": 8}
"""Points of a format's stream over those of the others', so that none is done in a blink."""
FORMATS: Final[Mapping[str, int]] = {
    "json": 1,
    "json-array": 256,
    "arrow-256": 256,
    "arrow-4096": 4096,
    "avro": 256,
    "events": 1,
}
"""Rows a record."""
FEATURES: Final[Mapping[str, Any]] = {
    "amount": {"as": "number", "log1p": True},
    "country": {"field": "card.country", "as": "category", "values": ["DE", "FR"], "missing": "indicator"},
    "merchant": {"as": "hash", "bits": 6},
    "ts": {"as": "time", "parts": ["hour", "weekday"], "zone": "Europe/Berlin"},
}
"""README's example."""
EVENTS: Final[Mapping[str, Any]] = {"label": {"field": "is_fraud", "negative": [False], "positive": [True]}}
EVENTS_MADE: Final = 64_000
"""Events that are made; a longer stream repeats them."""
LEAF_ROWS: Final = 2_000
TIMEOUT_S: Final = 300.0


class _Shelf:
    """The one schema that is written."""

    def schema(self, schema_id: int | str) -> str | None:
        return avro.schema_of(1, many=True) if schema_id == 1 else None


def make(n: int, dimension: int) -> tuple[Any, Any]:
    """Return two Gaussian classes, one third positive and thrice as wide along the last feature, to four decimals."""
    random = np.random.default_rng(dimension)
    y = np.where(random.random(n) < 1 / 3, 1, -1)
    X = random.normal(size=(n, dimension)) + 1.28 / np.sqrt(dimension) * y[:, None]
    X[y > 0, -1] *= 3.0  # else additive machines would be planes
    return np.round(X, 4), y


def make_events(n: int) -> list[bytes]:
    """Return events of README's example: the fraudulent third are dearer, and more often of one of ten merchants."""
    random = np.random.default_rng(7)
    fraud, chance = random.random(n) < 1 / 3, random.random((n, 2))
    amounts = np.round(random.exponential(np.where(fraud, 80.0, 40.0)), 2)
    merchants = np.where(fraud & (chance[:, 0] < 0.5), random.integers(0, 10, n), random.integers(0, 2_000, n))
    countries = random.choice(["DE", "FR", "US"], n)
    times = np.datetime64("2026-01-01T00:00:00") + random.integers(0, 360 * 86_400, n)
    return [
        json.dumps(
            {
                "ts": f"{times[index]}Z",
                "amount": amounts[index],
                "card": {"country": countries[index]} if chance[index, 1] < 0.95 else {},
                "merchant": f"m-{merchants[index]}",
                "is_fraud": bool(fraud[index]),
            }
        ).encode()
        for index in range(n)
    ]


def event_dimension() -> int:
    """Return how many features README's example has."""
    return int(points_of(recipe_from(FEATURES, EVENTS))["dimension"])


def settings_of(format_: str, dimension: int) -> dict[str, Any]:
    """Return the options that say what a record is."""
    if format_ == "events":
        return {"features": FEATURES, "events": EVENTS}
    return {"points": PointsConfig(dimension=dimension)}


def cases_of(
    formats: Sequence[str], dimensions: Sequence[int], partitions: Sequence[int]
) -> list[tuple[str, int, int]]:
    """Return every format, dimension and number of partitions; events have one dimension."""
    of = [(name, d) for name in formats for d in ([event_dimension()] if name == "events" else dimensions)]
    return [(name, d, count) for count in partitions for name, d in of]


def values_of(format_: str, X: Any, y: Any) -> Iterator[bytes]:
    """Yield the records of a stream."""
    size = FORMATS[format_]
    writer = avro.AvroWriter(avro.schema_of(1, many=True), 1)
    for start in range(0, len(X), size):
        part, labels = X[start : start + size], y[start : start + size].tolist()
        if format_ == "json":
            yield encode(part[0], labels[0])
        elif format_ == "json-array":
            yield b"[" + b",".join(map(encode, part.tolist(), labels)) + b"]"
        elif format_ == "avro":
            rows = zip(part.tolist(), labels, strict=True)
            yield writer.encode([{"x": x, "y": label, "w": None, "id": None} for x, label in rows])
        else:
            yield arrow.encode(part.astype(np.float32), labels)


def headers_of(format_: str) -> tuple[tuple[str, bytes], ...]:
    kinds = {"arrow": arrow.CONTENT_TYPE, "avro": avro.CONTENT_TYPE}
    kind = kinds.get(format_.partition("-")[0])
    return () if kind is None else (("content-type", kind.encode()),)


def whole_points(formats: Sequence[str], partitions: Sequence[int]) -> int:
    """Return of how many points streams must be a multiple, so that each partition ends with a leaf and a record."""
    lengths = (
        math.lcm(LEAF_ROWS, FORMATS[name]) * count // LENGTH.get(name, 1) for name in formats for count in partitions
    )
    return math.lcm(*lengths)


def topic_of(format_: str, dimension: int, partitions: int) -> str:
    return f"{format_}.{dimension}" if partitions == 1 else f"{format_}.{dimension}.{partitions}"


def store(
    connection: Connection, topic: str, partitions: int, format_: str, values: Iterable[bytes], block: int = 1
) -> int:
    """Make a topic, and deal out records over its partitions in blocks; lz4. Return the bytes of all values."""
    Cluster(connection).create([TopicSpec(topic, partitions)])
    producer = Producer({**connection.options, "compression.type": "lz4", "linger.ms": 20})
    headers, size = list(headers_of(format_)), 0
    for index, value in enumerate(values):
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, partition=index // block % partitions, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        if index % 100 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    producer.close()
    return size


def fill(connection: Connection, n: int, cases: Sequence[tuple[str, int, int]]) -> None:
    """Fill a topic for each format, dimension and number of partitions; a longer one repeats its points."""
    for format_, dimension, partitions in cases:
        length = LENGTH.get(format_, 1)
        if format_ == "events":
            made = make_events(min(n, EVENTS_MADE))
            values = list(itertools.islice(itertools.cycle(made), n * length))
        else:
            values = list(values_of(format_, *make(n, dimension))) * length
        share = len(values) // partitions
        assert share * partitions == len(values), f"{len(values)} records do not divide over {partitions} partitions"
        block = next(size for size in (100, 50, 25, 20, 10, 8, 5, 4, 2, 1) if share % size == 0)
        store(connection, topic_of(format_, dimension, partitions), partitions, format_, values, block)


# ---------------------------------------------------------------------------------------------------------------- ours


def train(
    connection: Connection, format_: str, n: int, dimension: int, partitions: int, which: int, run: int
) -> dict[str, Any]:
    """Run a trainer, one of `OURS`, from the topic's beginning until the model of all points is published."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(
            name=f"ingest-{run}",
            kafka={"bootstrap.servers": connection.servers},
            input=InputConfig(topic=topic_of(format_, dimension, partitions)),
            output=OutputConfig(models_topic=f"ingest-models-{os.getpid()}-{run}"),
            checkpoint=CheckpointConfig(directory=Path(directory)),
            http=HttpConfig(port=0),
            svm=SvmConfig(kernel="linear" if OURS[which] == "streamsvm" else "additive"),
            **settings_of(format_, dimension),
        )
        metrics = trained(settings, connection, n, "published", schemas=_Shelf())
    published, learned = metrics.since_first("published"), metrics.since_first("learned")
    return {
        "seen": metrics.seen,
        "wall_s": published.wall_s,
        "cpu_s": published.cpu_s,
        "learned_s": learned.wall_s,
        "loop_s": learned.loop_s,
        "versions": metrics.versions,
        "longest_turn_s": metrics.longest_turn_s,
    }


# ------------------------------------------------------------------------------------------------------------ decoding


def decoding(dimension: int, runs: int) -> dict[str, float]:
    """Return CPU microseconds a point of decoding alone, least of the runs, of each format of points."""
    n = 4096 * 10
    X, y = make(n, dimension)
    found = {}
    for format_, size in FORMATS.items():
        if format_ == "events":
            continue
        decoder = PointDecoder(PointsConfig(dimension=dimension), schemas=_Shelf())
        records = [
            Record("t", 0, offset, None, value, headers_of(format_), 1_700_000_000_000, 0)
            for offset, value in enumerate(values_of(format_, X, y))
        ]
        batch = 1_000 if size == 1 else 1 if size == 4096 else 16
        batches = [records[start : start + batch] for start in range(0, len(records), batch)]
        laps = []
        for _ in range(runs + 1):
            began = time.process_time()
            for part in batches:
                decoder.decode(part)
            laps.append(time.process_time() - began)
        found[format_] = min(laps) / n * 1e6
    return found


# ------------------------------------------------------------------------------------------------------------- running


def measure(
    n: int, dimensions: Sequence[int], partitions: Sequence[int], rounds: int, only: Sequence[str], peers: str
) -> Iterator[list[dict[str, Any]]]:
    """Run every contender in turn; yield one row for each, dimension and partitions, anew after each round."""
    laps: dict[tuple[str, str, int, int], list[dict[str, Any]]] = {}
    cases = cases_of([name for name in FORMATS if name in only], dimensions, partitions)
    names = [
        *([name for name in OURS if name in only] or OURS[:1]),
        *(name for name in PEERS if peers and name in only),
    ]
    os.sched_setaffinity(0, {BROKER_CORE})  # the broker inherits it
    with ExitStack() as stack:
        connection = stack.enter_context(started_broker())
        fill(connection, n, cases)
        command = [sys.executable, "-m", "tests.benchmarks.ingest", "--serve", connection.servers]
        ours = Child.start(stack, command, CORE)
        loops = [peers, str(HERE / "ingest_peers.py"), connection.servers, avro.schema_of(1, many=True)]
        theirs = Child.start(stack, loops, CORE) if peers else None
        for turn in range(rounds + 1):
            for format_, dimension, count in cases:
                points, topic = n * LENGTH.get(format_, 1), topic_of(format_, dimension, count)
                for name in turns(names, turn):
                    if name in OURS:
                        lap = ours.ask(format_, points, dimension, count, OURS.index(name))
                    else:
                        assert theirs is not None, "peers are named only where there is an environment of theirs"
                        lap = theirs.ask(name, format_, FORMATS[format_], topic, count, points)
                    assert lap["seen"] == points, f"{name} saw {lap['seen']} of {points} points"
                    if turn:  # the first round compiles, and fills caches
                        laps.setdefault((name, format_, dimension, count), []).append(lap | {"points": points})
            if turn:
                yield [row(*case, told) for case, told in laps.items()]


def row(name: str, format_: str, dimension: int, partitions: int, laps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a contender's runs over one topic."""
    speed = Interval.of([lap["points"] / lap["wall_s"] for lap in laps])
    cpu = Interval.of([lap["cpu_s"] / lap["points"] * 1e6 for lap in laps])
    found = {
        "contender": name,
        "format": format_,
        "partitions": partitions,
        "dimension": dimension,
        "rounds": len(laps),
        "points": laps[0]["points"],
        "rate": round(speed.median),
        "least": round(speed.least),
        "greatest": round(speed.greatest),
        "cpu_us_per_point": round(cpu.median, 3),
    }
    if name in OURS:
        learned = Interval.of([lap["points"] / lap["learned_s"] for lap in laps])
        loop = Interval.of([lap["loop_s"] / lap["points"] * 1e6 for lap in laps])
        found |= {"learned_per_s": round(learned.median), "loop_us_per_point": round(loop.median, 3)}
        found["versions"] = sorted({lap["versions"] for lap in laps})
        found["longest_turn_s"] = round(max(lap["longest_turn_s"] for lap in laps), 4)
    return found


HEADING: Final = (
    *("contender", "format", "d", "part.", "thousand points/s", "least-greatest", "x sgd", "x bare", "CPU us/pt"),
    *("sgd CPU x", "learned k/s", "decode us", "versions", "turn ms"),
)


def lines(rows: Sequence[Mapping[str, Any]], decode: Mapping[int, Mapping[str, float]], load: float) -> Iterator[str]:
    """Yield the table as text."""
    yield f"From topic to model, {rows[0]['rounds']} rounds after one unmeasured, load average {load:.1f} at the start"
    points = " or ".join(f"{n:,}" for n in sorted({one["points"] for one in rows}, reverse=True))
    yield f"{points} points; rates are medians; ours until the model of all is published"
    yield ""
    of_topic = {(one["contender"], *_topic(one)): one for one in rows}
    order = (*FORMATS, *OURS, *PEERS).index
    by_topic = sorted(
        rows,
        key=lambda one: (one["dimension"], order(one["format"]), one["partitions"], order(one["contender"])),
    )
    yield from aligned(HEADING, (_cells(one, of_topic, decode) for one in by_topic))


def _cells(
    one: Mapping[str, Any],
    of_topic: Mapping[tuple[Any, ...], Mapping[str, Any]],
    decode: Mapping[int, Mapping[str, float]],
) -> list[str]:
    sgd, bare = (of_topic.get((peer, *_topic(one))) for peer in PEERS)
    found = [one["contender"], one["format"], str(one["dimension"]), str(one["partitions"])]
    found += [f"{one['rate'] / 1e3:,.0f}", f"{one['least'] / 1e3:,.0f}-{one['greatest'] / 1e3:,.0f}"]
    found += [shown(peer and one["rate"] / peer["rate"], ".2f") for peer in (sgd, bare)]
    found.append(f"{one['cpu_us_per_point']:.2f}")
    found.append(shown(sgd and sgd["cpu_us_per_point"] / one["cpu_us_per_point"], ".2f"))
    if one["contender"] not in OURS:
        return [*found, "-", "-", "-", "-"]
    found += [f"{one['learned_per_s'] / 1e3:,.0f}", shown(decode.get(one["dimension"], {}).get(one["format"]), ".3f")]
    return [*found, f"{one['versions'][0]}-{one['versions'][-1]}", f"{one['longest_turn_s'] * 1e3:,.0f}"]


def _topic(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return one["format"], one["dimension"], one["partitions"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table anew after each round."""
    parser = parser_of("ingest", __doc__)
    parser.add_argument("--points", type=int, default=2_560_000, help="points of a stream (default %(default)s)")
    parser.add_argument("--dimension", type=numbers, default=[8, 24], help="features a point")
    parser.add_argument("--partitions", type=numbers, default=[1, 16, 64], help="partitions of the input")
    parser.add_argument("--only", type=words, default=[*FORMATS, *OURS, *PEERS], help="formats and contenders (all)")
    parser.add_argument("--peers", default="", metavar="PYTHON", help="interpreter of the other loops' environment")
    parser.add_argument("--make-peers", type=Path, metavar="DIR", help="make that environment in a folder, and end")
    parser.add_argument("--serve", default="", metavar="SERVERS", help="answer lines on standard input with runs")
    asked = parser.parse_args(arguments)
    if asked.serve:
        serve(asked.serve, train)
        return
    if asked.make_peers is not None:
        make_environment(asked.make_peers, HERE / "ingest_peers.txt")
        return
    load = os.getloadavg()[0]
    whole = whole_points([name for name in FORMATS if name in asked.only], asked.partitions)
    n = max(asked.points // whole, 1) * whole
    decode = {dimension: decoding(dimension, asked.rounds) for dimension in asked.dimension}
    for rows in measure(n, asked.dimension, asked.partitions, asked.rounds, asked.only, asked.peers):
        print(*lines(rows, decode, load), sep="\n", flush=True)
        written(asked.json, {"rows": rows, "decode_us_per_point": decode})


if __name__ == "__main__":
    main()
