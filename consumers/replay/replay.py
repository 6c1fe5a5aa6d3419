"""Replay: the points of a source go to a topic, as fast as the broker takes them or at a given rate.

Points become JSON, with features as the shortest text that reads back as the same float64; or Arrow IPC streams of
float64; or Avro, whose schema is registered first. A result counts what the broker has acknowledged: it exists only
once the last message is stored.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Final, Literal, NamedTuple, Protocol, TypedDict, Unpack

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from streamsvm.config import Label
from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.ingest import arrow, avro
from streamsvm.ingest.decoder import CONTENT_TYPE_HEADER, encode
from streamsvm.ingest.files.array_files import shuffled
from streamsvm.ingest.files.source import Id, PointSource, SourceBatch
from streamsvm.kafka import Cluster, Message, PublishRefused, TopicSpec
from streamsvm.supports import require

BURST_S: Final = 0.1
"""After a stall at most this much time's points are caught up at once."""
LONGEST_SLEEP_S: Final = 1.0
"""Failed deliveries are noticed this often, however low the rate."""
REPORT_EVERY_S: Final = 0.1

RecordFormat = Literal["json", "json-array", "arrow", "avro"]
Register = Callable[[str, str], int]
"""Returns the id of a schema, given the subject that it is registered under and its text."""
Headers = tuple[tuple[str, bytes], ...]


class Sink(Protocol):
    """What replay needs of a `streamsvm.kafka.Outbox`."""

    def send(self, message: Message) -> None:
        """Queue a message; may block."""

    def poll(self) -> None:
        """Serve delivery reports."""

    def flush(self, timeout_s: float) -> None:
        """Return when all that was sent is stored."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was handed to the client so far; the broker may not have acknowledged it yet."""

    points: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What the broker has stored.

    Attributes
    ----------
    points : int
    records : int
        Fewer than points if a record holds several.
    bytes : int
        Of the values, before compression.
    seconds : float
        From the first point read to the last acknowledgement.
    """

    points: int
    records: int
    bytes: int
    seconds: float


def prepare_topic(
    cluster: Cluster, topic: str, *, create_partitions: int | None = None, partition: int | None = None
) -> tuple[int, ...]:
    """Check that a topic can be replayed to, create it if requested, and return its partitions.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    create_partitions : int, optional
        Create the topic with so many partitions if it does not exist. One that exists is left as it is.
    partition : int, optional
        A partition that must exist.

    Raises
    ------
    TopicMissing
        If the topic does not exist, and is not to be created.
    ConfigurationError
        If the partition does not exist, or the broker refuses us.
    BrokerUnavailable
        If no broker answers in time.
    """
    if not topic:
        raise ConfigurationError("the topic name is empty", "Give the topic to write to.")
    if create_partitions is not None:
        if create_partitions < 1:
            raise ConfigurationError(f"create_partitions is {create_partitions}", "Give 1 or more.")
        cluster.create([TopicSpec(topic, create_partitions)])
    try:
        partitions = cluster.describe(topic).partitions
    except TopicMissing:
        raise TopicMissing(
            f"topic {topic} does not exist at {cluster.servers}",
            "Create the topic, give create_partitions, or correct the topic's name.",
        ) from None
    if partition is not None and partition not in partitions:
        raise ConfigurationError(
            f"topic {topic} has no partition {partition}",
            f"The topic has {len(partitions)} partitions, numbered from 0.",
        )
    return partitions


class Sending(TypedDict, total=False):
    """How records are sent, whatever stands in them.

    Attributes
    ----------
    rate_per_s : float, optional
        Points a second. Default: as fast as the broker takes them.
    partition : int, optional
        Send everything to this one. Default: by key, else by `partitions`.
    partitions : int, optional
        Of the topic: records without a key go to them in turn, so that the file alone says where each row lies.
        Default: where the client sends them, at random.
    rows_per_record : int
        Points in a record; more than one makes arrays, which travel faster.
    progress : callable, optional
        Told about ten times a second what was sent so far, and at the end.
    stop : threading.Event, optional
        Ends early, cleanly: what was sent by then is waited for, and counted.
    clock, sleep : callable
        Time, in seconds. By default waiting ends at once when `stop` is set.
    flush_timeout_s : float
        How long, in seconds, to wait for the last acknowledgements.
    """

    rate_per_s: float | None
    partition: int | None
    partitions: int | None
    rows_per_record: int
    progress: Callable[[Sent], None] | None
    stop: threading.Event | None
    clock: Callable[[], float]
    sleep: Callable[[float], object] | None
    flush_timeout_s: float


def replay(
    source: PointSource,
    outbox: Sink,
    topic: str,
    *,
    labeled: bool = True,
    key: Literal["id"] | None = None,
    format: RecordFormat = "json",  # noqa: A002
    register: Register | None = None,
    limit: int | None = None,
    shuffle_seed: int | None = None,
    **sending: Unpack[Sending],
) -> ReplayResult:
    """Send the points of a source to a topic, in its order, and wait until the broker has them all.

    Parameters
    ----------
    source : PointSource
    outbox : Outbox
        Not closed here.
    topic : str
        It must exist: see `prepare_topic`.
    labeled : bool
        Whether records carry labels; False makes unlabeled points of a source that has labels.
    key : "id", optional
        Use each point's id as its record's key, which then chooses the partition. Default: no key.
    format : "json", "json-array", "arrow" or "avro"
        How records are written; all but plain JSON say so in a header. `json` with several rows a record writes
        arrays, `json-array` arrays of one, too.
    register : callable, optional
        Registers Avro's schema under `<topic>-value`; needed for `avro`.
    limit : int, optional
        Send at most so many points: of a shuffled source a random sample.
    shuffle_seed : int, optional
        Send in a random order that depends on the seed only. Loads the whole source into memory.
    **sending
        Of `Sending`.

    Raises
    ------
    ConfigurationError
        If an option or the source is not valid. What precedes a bad row of a file is stored then, and counted in the
        message.
    PublishRefused
        If a record is too large; what precedes it is stored, and counted in the message.
    TransientError, FatalError
        If a message was not delivered, or not in time.
    """
    rows_per_record = sending.get("rows_per_record", 1)
    _check(source, sending.get("rate_per_s"), rows_per_record, limit, labeled=labeled, key=key)
    require({"--record-format": format, "registry.url": register is not None})
    if shuffle_seed is not None and shuffle_seed < 0:
        raise ConfigurationError(f"shuffle_seed is {shuffle_seed}", "Give 0 or more.")
    points = _points(source if shuffle_seed is None else shuffled(source, shuffle_seed), labeled=labeled, key=key)
    records = _records(islice(points, limit), rows_per_record, _encoder(format, topic, register, rows_per_record))
    return _send(records, outbox, topic, **sending)


def replay_events(
    events: Iterable[Mapping[str, Any]],
    outbox: Sink,
    topic: str,
    *,
    limit: int | None = None,
    shuffle_seed: int | None = None,
    **sending: Unpack[Sending],
) -> ReplayResult:
    """Send raw events to a topic, as JSON, as `replay` sends points.

    Parameters
    ----------
    events : iterable of mappings
    outbox, topic, limit, shuffle_seed, **sending
        As of `replay`.

    Raises
    ------
    ConfigurationError, PublishRefused, TransientError, FatalError
        As `replay` does.
    """
    rows_per_record = sending.get("rows_per_record", 1)
    _check_numbers(sending.get("rate_per_s"), rows_per_record, limit)
    if shuffle_seed is not None:
        every = list(events)
        events = [every[index] for index in np.random.default_rng(shuffle_seed).permutation(len(every)).tolist()]

    def records() -> Iterator[tuple[int, bytes | None, Headers, bytes]]:
        rest = iter(islice(events, limit))
        while rows := list(islice(rest, rows_per_record)):
            yield len(rows), None, (), msgspec.json.encode(rows if rows_per_record > 1 else rows[0])

    return _send(records(), outbox, topic, **sending)


def _send(
    records: Iterator[tuple[int, bytes | None, Headers, bytes]],
    outbox: Sink,
    topic: str,
    *,
    rate_per_s: float | None = None,
    partition: int | None = None,
    partitions: int | None = None,
    rows_per_record: int = 1,
    progress: Callable[[Sent], None] | None = None,
    stop: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] | None = None,
    flush_timeout_s: float = 60.0,
) -> ReplayResult:
    stop = stop or threading.Event()
    sleep = sleep or stop.wait
    began = clock()
    pace = None if rate_per_s is None else _Pace(rate_per_s, rows_per_record, began)
    sent, reported_at = Sent(0, 0, 0), began
    try:
        for rows, record_key, headers, value in records:
            if pace is not None:
                _wait(pace.take(rows, clock()), outbox, stop, sleep)
            if stop.is_set():
                break
            target = partition
            if target is None and partitions is not None and record_key is None:
                target = sent.records % partitions
            outbox.send(Message(topic, value, record_key, headers, target))
            sent = Sent(sent.points + rows, sent.records + 1, sent.bytes + len(value))
            if progress is not None and (now := clock()) - reported_at >= REPORT_EVERY_S:
                progress(sent)
                reported_at = now
    except (ConfigurationError, PublishRefused) as error:
        outbox.flush(flush_timeout_s)  # an outbox that failed raises here again: this point is for a bad row
        raise type(error)(f"{error.what} ({sent.points} points were stored before)", error.remedy) from error
    outbox.flush(flush_timeout_s)
    if progress is not None:
        progress(sent)
    return ReplayResult(sent.points, sent.records, sent.bytes, clock() - began)


def _check(
    source: PointSource,
    rate_per_s: float | None,
    rows_per_record: int,
    limit: int | None,
    *,
    labeled: bool,
    key: str | None,
) -> None:
    _check_numbers(rate_per_s, rows_per_record, limit)
    if labeled and not source.labeled:
        raise ConfigurationError(f"{source.name} has no labels", "Replay the file as unlabeled points (--unlabeled).")
    if key not in (None, "id"):
        raise ConfigurationError(f"key is {key!r}", "Give id, or leave it out.")
    require({"key": key, "rows_per_record": rows_per_record})


def _check_numbers(rate_per_s: float | None, rows_per_record: int, limit: int | None) -> None:
    if rate_per_s is not None and not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise ConfigurationError(f"rate_per_s is {rate_per_s}", "Give a positive number, or none for no limit.")
    for option, value in (("rows_per_record", rows_per_record), ("limit", limit)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{option} is {value}", "Give 1 or more.")


class _Row(NamedTuple):
    """A point on its way."""

    key: bytes | None
    x: list[float]
    y: Label | None
    weight: float | None
    id: Id | None


def _points(source: PointSource, *, labeled: bool, key: str | None) -> Iterator[_Row]:
    for batch in source.batches():
        n = len(batch)
        yield from map(
            _Row,
            repeat(None, n) if key is None else _keys(source, batch),
            batch.X.tolist(),
            batch.y if labeled and batch.y is not None else repeat(None, n),
            repeat(None, n) if batch.weight is None else batch.weight.tolist(),
            repeat(None, n) if batch.ids is None else batch.ids,
        )


Encode = Callable[[Sequence[_Row]], bytes]


def _encoder(
    format_: RecordFormat, topic: str, register: Register | None, rows_per_record: int
) -> tuple[Headers, Encode]:
    """Return the headers of every record, and what makes one of some points."""
    if format_ == "arrow":
        return _content_type(arrow.CONTENT_TYPE), _arrow
    if format_ == "avro":
        assert register is not None
        return _content_type(avro.CONTENT_TYPE), _Avro(f"{topic}-value", register, many=rows_per_record > 1)
    if format_ == "json-array" or rows_per_record > 1:
        return (), lambda rows: b"[" + b",".join(map(_json, rows)) + b"]"
    return (), lambda rows: _json(rows[0])


def _content_type(content_type: str) -> Headers:
    return ((CONTENT_TYPE_HEADER, content_type.encode()),)


def _json(row: _Row) -> bytes:
    return encode(row.x, row.y, row.weight, row.id)


def _arrow(rows: Sequence[_Row]) -> bytes:
    _, X, y, weight, ids = zip(*rows, strict=True)
    return arrow.encode(
        np.array(X, np.float64),
        None if y[0] is None else y,
        None if weight[0] is None else np.array(weight, np.float64),
        None if all(mark is None for mark in ids) else ids,
    )


class _Avro:
    """Encodes by one schema, which the first point decides and the registry then knows."""

    def __init__(self, subject: str, register: Register, *, many: bool) -> None:
        self._subject, self._register, self._many = subject, register, many
        self._writer: avro.AvroWriter | None = None

    def __call__(self, rows: Sequence[_Row]) -> bytes:
        if self._writer is None:
            schema = avro.schema_of(rows[0].y, many=self._many)
            self._writer = avro.AvroWriter(schema, self._register(self._subject, schema))
        data = [{"x": row.x, "y": row.y, "w": row.weight, "id": row.id} for row in rows]
        return self._writer.encode(data if self._many else data[0])


def _keys(source: PointSource, batch: SourceBatch) -> Iterator[bytes]:
    ids: Iterable[Id | None] = repeat(None, len(batch)) if batch.ids is None else batch.ids
    for row, mark in enumerate(ids, batch.first_row + 1):
        if mark is None:
            raise ConfigurationError(
                f"{source.name}: row {row} has no id to use as its key", "Give the id_column, or send without keys."
            )
        yield str(mark).encode()


def _records(
    points: Iterator[_Row], rows_per_record: int, encoder: tuple[Headers, Encode]
) -> Iterator[tuple[int, bytes | None, Headers, bytes]]:
    """Yield the number of points, the key, the headers and the value of each record."""
    headers, encode_rows = encoder
    while rows := list(islice(points, rows_per_record)):
        yield len(rows), rows[0].key if rows_per_record == 1 else None, headers, encode_rows(rows)


class _Pace:
    """A token bucket: one token a point, refilled at the rate, never holding more than a short burst.

    Taking may leave it in debt; the caller then waits the debt off. So one wait is enough, however coarse the clock.
    """

    def __init__(self, rate_per_s: float, rows_per_record: int, now: float) -> None:
        self._rate = rate_per_s
        self._capacity = max(rate_per_s * BURST_S, float(rows_per_record))
        self._tokens = float(rows_per_record)
        self._at = now

    def take(self, points: int, now: float) -> float:
        """Take tokens and return how long, in seconds, to wait before using them."""
        self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate) - points
        self._at = now
        return max(0.0, -self._tokens / self._rate)


def _wait(seconds: float, outbox: Sink, stop: threading.Event, sleep: Callable[[float], object]) -> None:
    while seconds > 0 and not stop.is_set():
        step = min(seconds, LONGEST_SLEEP_S)
        sleep(step)
        outbox.poll()
        seconds -= step


class _Sent(ProgressColumn):
    """Points sent, of how many where that is known; points a second; megabytes."""

    def render(self, task: Task) -> Text:
        """Render with separators of thousands, and the task's own estimate of its speed."""
        known = "" if task.total is None else f" of {task.total:,.0f}"
        speed, megabytes = task.finished_speed or task.speed or 0.0, task.fields["bytes"] / 1e6
        return Text(f"{task.completed:,.0f}{known} points  {speed:,.0f} points/s  {megabytes:,.1f} MB")


@contextmanager
def progress_bar(total: int | None, topic: str) -> Iterator[Callable[[Sent], None] | None]:
    """Show a bar on standard error while the block runs; the value is for `replay`'s `progress`.

    Parameters
    ----------
    total : int or None
        How many points there will be, if that is known: see `expected_points`.
    topic : str
        Where to.

    Yields
    ------
    callable or None
        None where standard error is not a terminal: then nothing is shown.
    """
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _Sent(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"replay to {topic}", total=total, bytes=0)
        yield lambda sent: bar.update(task, completed=sent.points, bytes=sent.bytes)


def expected_points(source: PointSource, limit: int | None) -> int | None:
    """Return how many points a replay will send, None if that is not known before reading."""
    if source.rows is None or limit is None:
        return source.rows
    return min(source.rows, limit)
