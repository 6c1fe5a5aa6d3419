"""Deletes as records: each has a defined answer, and versions name how far they were carried out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from consumers.branches.history import deletes as carried
from consumers.branches.history.deletes_obeyed import DeletesObeyed
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.settings import ArchiveConfig, DeletesConfig
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.branches.history.deletes import Applied, Wanted, decode_applied, encode_applied
from streamsvm.branches.history.deletes_part import DeletesApplied
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.errors import InvalidMessage
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.verification.report import Outcome
from tests.branches.history.test_erasing import content, record_of, rejected, settings_of, started
from tests.branches.history.test_replacing import names_of
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, encoded, run_until, versions
from tests.kafka.foreign import delete_records
from tests.streams import gaussian

ROWS = 150
BEGUN_MS = 1_700_000_000_000


def deleting(connection: Connection, prefix: str, directory: Path, **options: object) -> Settings:
    """Return the settings of a trainer that carries deletes out at once; its topics are there."""
    own = started(connection, settings_of(prefix, directory))
    deletes = DeletesConfig.model_validate({"topic": f"{prefix}-deletes", "every_s": 0.0, **options})
    Cluster(connection).create([TopicSpec(deletes.topic, 1, config={"retention.ms": "-1"})])
    return own.model_copy(update={"deletes": deletes})


def put(connection: Connection, topic: str, records: Sequence[tuple[bytes | None, bytes | None, int]]) -> None:
    """Put records with key, value and time into partition 0."""
    producer = Producer(dict(connection.options))
    for key, value, second in records:
        producer.produce(topic, value, key, partition=0, timestamp=BEGUN_MS + 1_000 * second)
    assert not producer.flush(60.0)


def named(values: Sequence[bytes], first: int = 0) -> list[tuple[bytes, bytes, int]]:
    """Return records of rows, each with an id, a key and a time that follow from its place."""
    return [
        (b"k%d" % at, json.dumps({**json.loads(value), "id": f"r{at}"}).encode(), at)
        for at, value in enumerate(values, first)
    ]


def delete(name: object, second: int) -> tuple[bytes | None, bytes | None, int]:
    return None, json.dumps({"op": "delete", "id": name}).encode(), second


def count(running: Running, outcome: str) -> float:
    return running.value("streamsvm_deletes_total", outcome=outcome)


def run_until_it_fails(settings: Settings, connection: Connection) -> None:
    with Running(settings, connection) as running:
        running.wait_until(lambda: False)


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_delete_takes_its_rows_out_and_a_version_without_them_comes_at_once(
    real_broker: TestBroker, tmp_path: Path, by: str
) -> None:
    """The running trainer does it by itself: the bytes of a stream that rejected the rows, and verify finds them so."""
    connection, rows = real_broker.connection, gaussian(ROWS, 5)
    own = deleting(connection, real_broker.name(f"deletes-{by}"), tmp_path / "own", by=by)
    clean = started(connection, settings_of(real_broker.name(f"deletes-clean-{by}"), tmp_path / "clean"))
    put(connection, own.input.topic, named(encoded(rows)))
    places = (3, 77)
    put(connection, clean.input.topic, named(encoded(rejected(rows, places))))
    run_until(clean, connection, ROWS)
    with Running(own, connection) as running:
        running.wait_for_rows(ROWS)
        running.wait_until(lambda: len(versions(connection, own)) == len(versions(connection, clean)))
        before = versions(connection, own)
        asked = [delete("r3", 200), delete("r77", 201)] if by == "id" else [(b"k3", None, 200), (b"k77", None, 201)]
        put(connection, own.deletes.topic, asked)
        running.wait_until(lambda: len(versions(connection, own)) > len(before))
        running.wait_until(lambda: names_of(connection, own).named["m@current"].number > len(before))
        assert count(running, "carried_out") == 2
    after = versions(connection, own)[len(before) :]
    assert after[0].lineage.cut == before[-1].lineage.cut
    assert content(after[0]) == content(versions(connection, clean)[-1])
    record = record_of(connection, own)
    assert {at.offset for at in record.places()[0]} == set(places)
    assert after[0].lineage.fact(WithoutRows) == WithoutRows(sha256=record.sha256)
    first, last = (version.lineage.fact(DeletesApplied) for version in (before[0], after[-1]))
    assert first is not None
    assert last is not None
    assert not first.cut
    assert (last.topic, last.by, last.cut, last.input) == (own.deletes.topic, by, ((0, 2),), ((0, ROWS),))
    found = verify(Cluster(connection), own)
    assert [row.outcome for row in found.rows] == [Outcome.LEFT_OUT] * len(before) + [Outcome.IDENTICAL] * len(after)
    # Who looks at the deletes finds a version that claims to obey them, and does not.
    obeyed = DeletesObeyed(Cluster(connection), ErasedRows(Cluster(connection), own.output.aliases_topic, 30.0), 30.0)
    assert obeyed.are_obeyed(after[-1], last)
    assert not obeyed.are_obeyed(before[-1], last)


def test_every_delete_has_an_answer(real_broker: TestBroker, tmp_path: Path) -> None:
    """Unknown, doubled, unreadable, of a row that is younger, and one that came before its row: each is counted."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("answers"), tmp_path, early_s=1e12)
    rows = named(encoded(gaussian(60, 5)))
    put(connection, own.input.topic, rows)
    put(
        connection,
        own.deletes.topic,
        [delete("r5", 30), delete("r5", 31), delete("nobody", 30), delete("r40", 20), (None, b"no", 30)],
    )
    put(connection, own.deletes.topic, [delete("r90", 95), (b"k1", None, 30)])
    with Running(own, connection) as running:
        running.wait_for_rows(60)
        running.wait_until(lambda: count(running, "carried_out") == 1)
        for outcome, expected in {"unknown": 3, "doubled": 1, "unreadable": 2, "later": 1}.items():
            assert count(running, outcome) == expected, outcome
        assert {at.offset for at in record_of(connection, own).places()[0]} == {5}
        put(connection, own.input.topic, named(encoded(gaussian(130, 6))[60:], 60))
        running.wait_until(lambda: count(running, "early") == 1)
        running.wait_until(lambda: {at.offset for at in record_of(connection, own).places()[0]} == {5, 90})
    run_until(own, connection, 130)
    newest = versions(connection, own)[-1]
    assert newest.stream.points == newest.stream.rows - 2
    assert verify(Cluster(connection), own).rows[-1].outcome is Outcome.IDENTICAL


def test_a_row_past_retention_is_told_and_the_trainer_goes_on(real_broker: TestBroker, tmp_path: Path) -> None:
    """The log lost its beginning, so nothing can be learned again: counted, logged, and no record is written."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("retention"), tmp_path)
    put(connection, own.input.topic, named(encoded(gaussian(60, 5))))
    run_until(own, connection, 60)
    delete_records(connection, own.input.topic, 0, 10)
    put(connection, own.deletes.topic, [delete("r30", 100)])
    with Running(own, connection) as running:
        running.wait_until_started()
        running.wait_until(lambda: count(running, "past_retention") == 1)
        put(connection, own.input.topic, named(encoded(gaussian(100, 6))[60:], 60))
        running.wait_for_rows(40)
    assert names_of(connection, own).left_out is None


def test_a_trainer_that_dies_once_the_record_stands_carries_it_out_at_its_next_start(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends it between the record and the new beginning."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("dies"), tmp_path)
    put(connection, own.input.topic, named(encoded(gaussian(60, 5))))
    run_until(own, connection, 60)
    before = versions(connection, own)
    put(connection, own.deletes.topic, [delete("r30", 100)])

    class Killed(Exception):
        pass

    with monkeypatch.context() as patched:
        patched.setattr(carried, "StartOver", Killed)
        with pytest.raises(Killed):
            run_until_it_fails(own, connection)
    run_until(own, connection, 60)
    after = versions(connection, own)[len(before) :]
    assert [version.lineage.cut for version in after] == [before[-1].lineage.cut]
    assert verify(Cluster(connection), own).rows[-1].outcome is Outcome.IDENTICAL


@pytest.mark.quick
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"deletes": {"every_s": 5.0}}, "deletes.every_s"),
        ({"deletes": {"topic": "d"}, "archive": {"directory": "/a"}}, "archive.directory"),
        ({"deletes": {"topic": "d"}, "training": {"workers": 2}}, "training.workers"),
    ],
)
def test_what_deletes_do_not_go_with_is_refused(options: dict[str, object], said: str) -> None:
    """With what is wrong."""
    with pytest.raises(ValueError, match=said):
        Settings.model_validate({"name": "m", "kafka": {"bootstrap.servers": "b:1"}, **options})
    assert ArchiveConfig().directory is None


@pytest.mark.quick
def test_a_name_is_wanted_until_its_newest_delete() -> None:
    """Whatever is no delete is counted; numbers are names, too."""
    wanted = Wanted("id")
    for value, time_ms, name in (
        (b'{"op": "delete", "id": "a", "by": "mail"}', 5, "a"),
        (b'{"op": "delete", "id": 7}', 6, "7"),
        (b'{"op": "delete", "id": "a"}', 3, "a"),
        (b'{"op": "insert", "id": "a"}', 9, ""),
        (b'{"op": "delete"}', 9, ""),
        (b'{"op": "delete", "id": ""}', 9, ""),
        (None, 9, ""),
        (b"\xff", 9, ""),
    ):
        assert wanted.add(b"k", value, time_ms) == name
    assert wanted.until == {"a": 5, "7": 6}
    assert (wanted.doubled, wanted.unreadable, wanted.ids, wanted.keys) == (1, 5, ("a", "7"), ())
    keyed = Wanted("key")
    assert keyed.add(b"k", None, 1) == "k"
    assert not keyed.add(b"k", b"{}", 1)
    assert not keyed.add(b"\xff", None, 1)
    assert (keyed.keys, keyed.unreadable) == (("k",), 2)


@pytest.mark.quick
def test_the_record_of_how_far_is_read_back() -> None:
    """And refused with a field that this build does not know."""
    applied = Applied(topic="d", topic_id="i", by="id", deletes=((0, 5),), input=((0, 9), (1, 3)))
    assert decode_applied(encode_applied(applied)) == applied
    with pytest.raises(InvalidMessage, match="not a applied record"):
        decode_applied(encode_applied(applied)[:-1] + b', "more": 1}')
