"""A trainer of a configuration on an embedded broker of its own, run once or in several lives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from consumers.loader import load
from consumers.settings import Settings
from streamsvm.kafka import Connection, EmbeddedBroker
from streamsvm.model import Version, message as model_codec
from tests.conformance.configurations import BASE, INPUT, MODELS, TABLE, Entry, stream_of
from tests.consumers.trainers import Running, topic
from tests.kafka.foreign import Silent

Headers = list[tuple[str, str | bytes | None]]


def settings_of(name: str, directory: Path) -> Settings:
    """Return the settings of a trainer; no broker is named in them."""
    sections = TABLE[name].sections
    base = {of: options for of, options in BASE.items() if of != "points" or "features" not in sections}
    return load(
        {
            **base,
            **sections,
            "name": "m",
            "kafka": {"bootstrap.servers": "unused:1"},
            "input": {"topic": INPUT},
            "output": {"models_topic": MODELS},
            "checkpoint": {"directory": directory, "interval_s": 0.05},
        }
    )


def write(connection: Connection, log: str, entries: Sequence[Entry]) -> None:
    """Put entries into partition 0, with their times."""
    producer = Producer(dict(connection.options), logger=Silent())
    for one in entries:
        producer.produce(log, one.value, partition=0, timestamp=one.time_ms, headers=[*one.headers])
    assert producer.flush(30.0) == 0


@dataclass
class Published:
    """What a trainer left: its broker, which still runs, and its versions' bytes."""

    broker: EmbeddedBroker
    settings: Settings
    values: list[bytes]

    @property
    def versions(self) -> list[Version]:
        """The versions, decoded."""
        return [model_codec.decode(value) for value in self.values]


@dataclass
class Change:
    """What is changed on the way into a copy of the topics: the entries of the input, the newest version's value."""

    log: Callable[[list[Entry]], list[Entry]] = lambda entries: entries
    value: Callable[[bytes], bytes] = lambda value: value
    fitting: bool = True
    """Whether the hash in the version's header, and in the records that point to it, is made to fit."""


def copy(name: str, published: Published, broker: EmbeddedBroker, change: Change) -> None:
    """Write the logs, versions and aliases of a trainer into another broker, with a change."""
    for log, entries in stream_of(name).logs.items():
        write(broker.connection, log, change.log(list(entries)) if log == INPUT else entries)
    before = published.values[-1]
    after = change.value(before)
    old, new = ((model_codec.sha256(value) if change.fitting else "").encode() for value in (before, after))
    producer = Producer(dict(broker.connection.options), logger=Silent())
    for of in (MODELS, published.settings.output.aliases_topic):
        for record in topic(published.broker.connection, of):
            value = after if record.value == before else (record.value or b"").replace(old, new)
            headers: Headers = [(name, text.replace(old, new)) for name, text in record.headers]
            producer.produce(of, value, record.key, partition=0, headers=headers)
    assert producer.flush(30.0) == 0


def publish(
    name: str,
    broker: EmbeddedBroker,
    stops_ms: Sequence[int] = (),
    versions: int = 0,
    logs: Mapping[str, Sequence[Entry]] | None = None,
    directory: Path | None = None,
) -> Published:
    """Let a trainer learn the whole stream, stopped and started again at these times of the stream.

    The last life ends with the last row, or with a version of this number: a start reads some rows once more, so that
    how many were read says nothing then. Other logs than the configuration's, and a directory that stays, may be given.
    """
    logs = stream_of(name).logs if logs is None else logs
    with tempfile.TemporaryDirectory() as own:
        settings = settings_of(name, directory or Path(own))
        since = 0
        for until in (*stops_ms, 1 << 60):
            for log, entries in logs.items():
                write(broker.connection, log, [one for one in entries if since < one.time_ms <= until])
            new = sum(since < one.time_ms <= until for one in logs[INPUT])
            with Running(settings, broker.connection) as running:
                running.wait_until_started()
                if until != 1 << 60:
                    running.wait_until(partial(_has_read, running, new))
                elif versions:
                    running.wait_until(lambda: running.value("streamsvm_model_version") >= versions)
                else:
                    running.wait_for_rows(sum(not one.headers for one in logs[INPUT]))
            since = until
        values = [record.value or b"" for record in topic(broker.connection, MODELS)]
        return Published(broker, settings, values)


def _has_read(running: Running, records: int) -> bool:
    return running.value("streamsvm_input_records_total", partition="0") >= records
