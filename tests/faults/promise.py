"""What every row of the matrix promises, checked by reading the topics as any consumer does."""

from __future__ import annotations

import json
from itertools import pairwise

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.kafka import Cluster, Connection
from streamsvm.model import message as model_codec
from streamsvm.model.pointers import Head, current_key, decode_alias, decode_head, head_key
from streamsvm.model.version import Version, positions
from streamsvm.points import precedes
from tests.consumers.trainers import topic, versions


def published(connection: Connection, settings: Settings) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the models topic."""
    return [(record.key, record.value) for record in topic(connection, settings.output.models_topic)]


def check_promise(connection: Connection, settings: Settings, *, recomputable: bool = True) -> list[Version]:
    """Check numbers, parents, cuts and pointers of all that is published, recompute it, and return the versions.

    Where the log no longer holds what some versions were made from, say so: `recomputable` is then False.
    """
    found = versions(connection, settings)
    assert [version.number for version in found] == list(range(1, len(found) + 1)), "a gap, or a number twice"
    digests = [model_codec.sha256(value) for _, value in published(connection, settings) if value is not None]
    assert [version.lineage.parent for version in found] == [None, *digests][: len(found)], "a parent is another one"
    begun = incarnations(connection, settings)
    assert begun == sorted(begun), "an incarnation that was ended goes on"
    for (before, old), (after, new) in pairwise(zip(found, begun, strict=True)):
        if old == new:
            check_follows(before, after)
    if found:
        head = head_of(connection, settings)
        assert head is not None
        assert (head.number, head.sha256) == (len(found), digests[-1]), "the head names another version"
        check_current(connection, settings, len(found))
        report = verify(Cluster(connection), settings)
        assert report.clean if recomputable else not report.differs, "\n".join(report.lines())
    return found


def check_follows(before: Version, after: Version) -> None:
    """Check that a version's cut is past its parent's in some partition, and behind it in none."""
    assert precedes(positions(before.lineage.cut), positions(after.lineage.cut)), f"{after.key} goes back"
    assert before.lineage.cut != after.lineage.cut, f"{after.key} is made from the same cut as its parent"


def check_current(connection: Connection, settings: Settings, count: int) -> None:
    """Check that the audit trail tells of each version once, and current names the newest that the gate let pass."""
    key = current_key(settings.name)
    entries = [json.loads(record.value or b"") for record in topic(connection, settings.output.audit_topic)]
    told = [entry for entry in entries if entry.get("alias") == key]
    assert [entry["to"] for entry in told] == list(range(1, count + 1)), "the audit trail tells of other versions"
    refused = [entry["to"] for entry in told if entry["event"] == "gate_refused"]
    assert refused == [entry["to"] for entry in told if (entry.get("gate") or {}).get("outcome") == "refused"]
    newest = max(set(range(1, count + 1)) - set(refused))
    assert alias_of(connection, settings, key) == newest, "current names another version"


def incarnations(connection: Connection, settings: Settings) -> list[int]:
    """Return the incarnation that published each version, as its header says."""
    read = topic(connection, settings.output.models_topic)
    return [int(dict(record.headers)["streamsvm.incarnation"]) for record in read]


def check_counts(found: list[Version]) -> None:
    """Check that each version counts each offset between its base and its cut once: one row a record, none missing."""
    for version in found:
        base = {part.partition: part.offset for part in version.lineage.base}
        seen = sum(part.offset - base[part.partition] for part in version.lineage.cut)
        assert version.stream.rows == seen, f"{version.key} counts {version.stream.rows} rows of {seen} offsets"


def head_of(connection: Connection, settings: Settings) -> Head | None:
    """Return the newest head record."""
    value = _newest(connection, settings, head_key(settings.name))
    return None if value is None else decode_head(value)


def alias_of(connection: Connection, settings: Settings, key: str) -> int | None:
    """Return the number that an alias names."""
    value = _newest(connection, settings, key)
    return None if value is None else decode_alias(value).number


def _newest(connection: Connection, settings: Settings, key: str) -> bytes | None:
    newest = None
    for record in topic(connection, settings.output.aliases_topic):
        if record.key == key.encode():
            newest = record.value
    return newest
