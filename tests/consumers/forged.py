"""A models topic that somebody has tampered with, and what `streamsvm verify` says of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, Message, Record, TopicSpec
from streamsvm.model import (
    Alias,
    Ancestor,
    Head,
    Retired,
    Version,
    encode_alias,
    encode_head,
    encode_retired,
    linked,
    message as model_codec,
    retired_key,
)
from streamsvm.verification import Outcome, VerificationReport
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import changed, produce, records, run_until, send, settings_for, topic

SHA256 = model_codec.SHA256_HEADER


def train(broker: TestBroker, directory: Path) -> Settings:
    """Return settings after a trainer made five versions of 200 rows, of which one is no valid point."""
    settings = settings_for(broker.name("v"), directory)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    produce(broker.connection, settings.input.topic, [*records(120), b"{}", *records(79, seed=4)])
    run_until(settings, broker.connection, 200)
    return settings


def outcomes(report: VerificationReport) -> list[tuple[int, Outcome]]:
    return [(row.number, row.outcome) for row in report.rows]


def faults(report: VerificationReport) -> dict[int, str]:
    """Return what is wrong with each version in one text; 0 stands for the topic as a whole."""
    found = {row.number: "; ".join(row.faults) for row in report.rows if row.faults}
    return found | ({0: "; ".join(report.faults)} if report.faults else {})


class Forged:
    """A copy of a models topic and its aliases under another name, to be changed on the way.

    Heads and aliases follow the forged versions, as a forger who can write to the topic would have them.
    """

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self.connection = connection
        self.incarnation = 1
        self._origin = settings
        copy = f"{settings.output.models_topic}-{uuid.uuid4().hex[:8]}"
        self.settings = changed(settings, "output", models_topic=copy)
        Cluster(connection).create([TopicSpec(copy), TopicSpec(self.settings.output.aliases_topic)])
        self.versions = [r for r in topic(connection, settings.output.models_topic) if r.value is not None]

    def change(self, number: int, change: Callable[[Version], Version], **headers: str) -> None:
        """Change a version and make its own hash and its headers fit."""
        record = self.versions[number - 1]
        value = model_codec.encode(change(model_codec.decode(record.value or b"")))
        own = {SHA256: model_codec.sha256(value), **headers}
        kept = tuple((name, text) for name, text in record.headers if name not in own)
        self.versions[number - 1] = record._replace(
            value=value, headers=(*kept, *((name, text.encode()) for name, text in own.items()))
        )

    def put(self, number: int, value: bytes) -> None:
        """Put another value in a version's place, with its hash."""
        record = self.versions[number - 1]
        headers = {**dict(record.headers), SHA256: model_codec.sha256(value).encode()}
        self.versions[number - 1] = record._replace(value=value, headers=tuple(headers.items()))

    def rechain(self) -> None:
        """Give every version the hash of the one before it as its parent, so that only its content is wrong."""
        for number in range(2, len(self.versions) + 1):
            hashes = [model_codec.sha256(record.value or b"") for record in self.versions]
            links = tuple(Ancestor(one, hashes[one - 1]) for one in linked(number))
            place = {"parent": hashes[number - 2], "links": links}
            self.change(number, lambda version, place=place: with_lineage(version, **place))

    def store(self, *more: Message) -> Settings:
        """Write it all, with a head and an alias that fit the last version."""
        models = self.settings.output.models_topic
        forged = [Message(models, record.value, record.key, record.headers, partition=0) for record in self.versions]
        send(self.connection, *forged, *more)
        self.name(aliases_of(topic(self.connection, models)[len(self.versions) - 1], self.incarnation))
        return self.settings

    def name(self, aliases: Mapping[str, bytes | None]) -> None:
        """Write aliases."""
        named = [(key.encode(), value) for key, value in aliases.items()]
        where = self.settings.output.aliases_topic
        send(self.connection, *(Message(where, value, key, partition=0) for key, value in named))


def aliases_of(last: Record, incarnation: int) -> dict[str, bytes]:
    version, sha256 = model_codec.decode(last.value or b""), model_codec.sha256(last.value or b"")
    lineage = version.lineage
    head = Head(
        number=version.number,
        incarnation=incarnation,
        cut=lineage.cut,
        sha256=sha256,
        offset=last.offset,
        training_set_sha256=lineage.training_set_sha256,
        build=lineage.build,
        links=(),
    )
    return {
        "m@head": encode_head(head),
        "m@current": encode_alias(Alias(version.number, sha256, last.offset)),
    }


def retired_record(forged: Forged, *numbers: int) -> Message:
    """Return the record by which readers know that versions are retired."""
    value = encode_retired(Retired(1, (), numbers))
    return Message(forged.settings.output.aliases_topic, value, retired_key("m").encode(), partition=0)


def with_lineage(version: Version, **changes: object) -> Version:
    return replace(version, lineage=msgspec.structs.replace(version.lineage, **changes))
