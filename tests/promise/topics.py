"""The promise of a trainer's topics, read as any consumer reads them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import to_builtins

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.kafka import Cluster, Connection, Record as Found
from streamsvm.model import Version
from tests.consumers.trainers import topic, versions as decoded
from tests.promise import versions
from tests.promise.anomalies import Anomaly
from tests.promise.records import Record, incarnation_of, of_bytes


def records_of(connection: Connection, name: str) -> list[Record]:
    """Return every committed record of partition 0 of a topic."""
    return of_records(topic(connection, name))


def of_records(found: Iterable[Found]) -> list[Record]:
    """Return records in the form that the invariants take."""
    return [of_bytes(one.topic, one.partition, one.offset, one.key, one.value, one.headers) for one in found]


def check_promise(connection: Connection, settings: Settings, *, recomputable: bool = True) -> list[Version]:
    """Check all that a trainer published, recompute it, and return the versions.

    Where the log no longer holds what some versions were made from, say so: `recomputable` is then False.
    """
    output = settings.output
    models, aliases, audit = (
        records_of(connection, name) for name in (output.models_topic, output.aliases_topic, output.audit_topic)
    )
    hold(versions.check(models, aliases, audit, settings.name))
    if models:
        report = verify(Cluster(connection), settings)
        assert report.clean if recomputable else not report.differs, "\n".join(report.lines())
    return decoded(connection, settings)


def check_counts(found: Iterable[Version]) -> None:
    """Check that each version counts each offset between its base and its cut once: one row a record, none missing."""
    plain = ({"lineage": to_builtins(one.lineage), "stream": to_builtins(one.stream)} for one in found)
    hold(versions.counts([Record(topic="", partition=0, offset=0, key=None, value=value) for value in plain]))


def hold(anomalies: Iterable[Anomaly]) -> None:
    """Fail with every anomaly in a line of its own."""
    lines = [anomaly.line() for anomaly in anomalies]
    assert not lines, "\n".join(lines)


def incarnations(connection: Connection, settings: Settings) -> list[int]:
    """Return the incarnation that published each version, as its header says."""
    return [incarnation_of(one) for one in records_of(connection, settings.output.models_topic)]


def published(connection: Connection, settings: Settings) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the models topic."""
    return [(record.key, record.value) for record in topic(connection, settings.output.models_topic)]
