"""Deletes as records: each has a defined answer, and versions name how far they were carried out."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from consumers.branches.history import deletes as carried
from consumers.branches.history.building import archive_store
from consumers.branches.history.deletes_obeyed import DeletesObeyed
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.finding import FoundRows
from consumers.branches.history.settings import ArchiveConfig, DeletesConfig
from consumers.settings import Settings
from consumers.trainer.session import InDoubt, Session
from consumers.verify.verify import verify
from streamsvm.branches.history.deletes import Applied, Wanted, decode_applied, encode_applied
from streamsvm.branches.history.deletes_part import DeletesApplied
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.errors import ConfigurationError, InvalidMessage
from streamsvm.kafka import Cluster, Connection, Message, Record, TopicInfo, TopicSpec
from streamsvm.verification.report import Outcome
from tests.branches.history.test_erasing import content, record_of, rejected, settings_of, started
from tests.branches.history.test_replacing import names_of, run_until_replaced
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, encoded, run_until, versions
from tests.kafka.foreign import alter_topic, delete_records, delete_topic
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
    """The log lost its beginning, so nothing can be learned again: counted, logged, not ready, no record written."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("retention"), tmp_path)
    put(connection, own.input.topic, named(encoded(gaussian(60, 5))))
    run_until(own, connection, 60)
    delete_records(connection, own.input.topic, 0, 10)
    put(connection, own.deletes.topic, [delete("r30", 100)])
    with Running(own, connection) as running:
        running.wait_until_started()
        running.wait_until(lambda: count(running, "past_retention") == 1)
        ready, why = running.health.ready()
        assert not ready
        assert "cannot be learned again without the rows" in why["waiting_for"]["deletes"]
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


def test_a_version_that_comes_before_the_record_is_named_as_one_of_the_rows(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is made when it is sent: what was published since the rows were found may be of them."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("between"), tmp_path)
    put(connection, own.input.topic, named(encoded(gaussian(60, 5))))
    run_until(own, connection, 60)
    before = len(versions(connection, own))
    put(connection, own.deletes.topic, [delete("r30", 100)])
    found, sends = threading.Event(), carried.CarriesOut._send

    def late(part: carried.CarriesOut) -> None:
        found.set()
        if part._world.delivery.next_number > before + 1:
            sends(part)

    monkeypatch.setattr(carried.CarriesOut, "_send", late)
    with Running(own, connection) as running:
        running.wait_until(found.is_set)
        assert names_of(connection, own).left_out is None
        put(connection, own.input.topic, named(encoded(gaussian(130, 6))[60:], 60))
        running.wait_until(lambda: names_of(connection, own).left_out is not None)
    record = record_of(connection, own)
    newest = record.rows[0][3]
    assert newest > before
    run_until_replaced(own, connection, newest + 1)
    outcomes = [row.outcome for row in verify(Cluster(connection), own).rows]
    assert outcomes[:newest] == [Outcome.LEFT_OUT] * newest
    assert set(outcomes[newest:]) == {Outcome.IDENTICAL}


def test_a_record_in_doubt_ends_the_life_before_anything_else_is_published(
    real_broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may stand there: the next life reads it, and obeys it."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("doubt"), tmp_path)
    put(connection, own.input.topic, named(encoded(gaussian(60, 5))))
    run_until(own, connection, 60)
    before = versions(connection, own)
    put(connection, own.deletes.topic, [delete("r30", 100)])
    publishes, erased = Session.publish, list[bytes]()

    def doubtful(session: Session, messages: Sequence[Message], *more: Any) -> None:
        publishes(session, messages, *more)
        if messages[0].key == b"m@erased":
            erased.append(messages[0].value or b"")
            raise InDoubt("the answer was lost")

    monkeypatch.setattr(Session, "publish", doubtful)
    with Running(own, connection) as running:
        running.wait_until(lambda: len(versions(connection, own)) > len(before))
    after = versions(connection, own)[len(before) :]
    assert len(erased) == 1
    assert after[0].lineage.cut == before[-1].lineage.cut
    assert after[0].lineage.fact(WithoutRows) == WithoutRows(sha256=record_of(connection, own).sha256)
    assert verify(Cluster(connection), own).rows[-1].outcome is Outcome.IDENTICAL


def test_a_topic_of_deletes_that_is_made_again_is_read_from_its_beginning(
    real_broker: TestBroker, tmp_path: Path
) -> None:
    """Although it is shorter than what was read of the other one; what was erased stays erased."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("again"), tmp_path)
    put(connection, own.input.topic, named(encoded(gaussian(60, 5))))
    put(connection, own.deletes.topic, [delete("r5", 100), delete("r6", 100), (None, b"no", 100)])
    with Running(own, connection) as running:
        running.wait_until(lambda: count(running, "carried_out") == 2)
        running.wait_until(lambda: len(versions(connection, own)) == 2)  # else it starts over while the topic is gone
        delete_topic(connection, own.deletes.topic)
        Cluster(connection).create([TopicSpec(own.deletes.topic, 1, config={"retention.ms": "-1"})])
        put(connection, own.deletes.topic, [delete("r7", 100)])
        running.wait_until(lambda: count(running, "carried_out") == 3)
        running.wait_until(lambda: {at.offset for at in record_of(connection, own).places()[0]} == {5, 6, 7})


@dataclass
class Log:
    """A topic of deletes without a broker: its records from an offset on, and what was read of it."""

    records: list[Record]
    first: int = 0
    topic_id: str = "i"
    read: list[int] = field(default_factory=list)

    def describe(self, topic: str) -> TopicInfo:
        return TopicInfo(topic, self.topic_id, (0,), {})

    def log_range(self, topic: str, partition: int) -> tuple[int, int]:
        return self.first, self.first + len(self.records)

    def read_to_end(self, topic: str, partition: int, *, start: int | None = None, timeout_s: float) -> list[Record]:
        self.read.append(self.first if start is None else start)
        return [record for record in self.records if record.offset >= (start or 0)]


NOW_MS = 1_000_000_000


def log_of(*deletes: tuple[str, int], first: int = 0) -> Log:
    """Return a log of deletes of names, each so many seconds old."""
    values = [(b'{"op": "delete", "id": "%s"}' % name.encode(), NOW_MS - 1_000 * age_s) for name, age_s in deletes]
    return Log([Record("d", 0, at, None, value, (), ms, None) for at, (value, ms) in enumerate(values, first)], first)


def look(
    log: Log, applied: int = 0, *, youngest: float | None = None, is_time: bool = True, every_s: float = 100.0
) -> Any:
    """Look at a log of deletes, of which so many were carried out."""
    return carried._Find(
        cluster=log,  # type: ignore[arg-type]
        settings=Settings.model_validate(
            {"name": "m", "kafka": {"bootstrap.servers": "b:1"}, "points": {"dimension": 2}}
        ),
        options=DeletesConfig(topic="d", every_s=every_s, early_s=1_000.0),
        topic="events",
        topic_id="e",
        applied=Applied(topic="d", topic_id="i", by="id", deletes=((0, applied),), input=()),
        looked={},
        youngest=youngest,
        is_time=is_time,
        now_ms=NOW_MS,
    )()


@pytest.fixture
def sought(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Return the ids that rows are looked for of, each time."""
    found: list[set[str]] = []

    def looked_for(cluster: object, topic: str, config: object, ids: dict[str, int], *_: Any, **__: Any) -> FoundRows:
        found.append(set(ids))
        return FoundRows({0: 5})

    monkeypatch.setattr(carried, "looked_for", looked_for)
    return found


@pytest.mark.quick
def test_only_new_deletes_are_read_until_the_oldest_is_old_enough(sought: list[set[str]]) -> None:
    """Then all are, since their rows may still come; a batch ends where it was looked at."""
    log = log_of(("a", 900), ("b", 50))
    assert look(log, 1) is None
    assert (log.read, sought) == ([1], [])
    log.records[1] = log_of(("a", 0), ("b", 150)).records[1]
    batch = look(log, 1)
    assert (batch.ends, batch.fresh, batch.lost) == ({0: 2}, ("b",), 0)
    assert sought == [{"a", "b"}]


@pytest.mark.quick
def test_a_time_far_ahead_puts_no_delete_off(sought: list[set[str]]) -> None:
    """As of a clock that is wrong, or counts another unit."""
    assert look(log_of(("a", -(10**9)))).fresh == ("a",)
    assert look(log_of(("a", -5))) is None
    assert len(sought) == 1


@pytest.mark.quick
def test_rows_that_came_since_are_looked_at_only_for_young_deletes_and_not_all_the_time(
    sought: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that the whole topic would be read every few seconds."""
    monkeypatch.setattr(carried._Find, "_has_grown", lambda self: True)
    old, young = log_of(("a", 2_000)), log_of(("a", 500))
    assert look(old, 1).found is None
    assert look(old, 1, youngest=NOW_MS - 2e6) is None
    assert look(young, 1, is_time=False) is None
    assert (len(old.read), young.read, sought) == (1, [], [])
    assert look(young, 1).found is not None
    assert sought == [{"a"}]


@pytest.mark.quick
def test_deletes_that_retention_took_are_counted(sought: list[set[str]]) -> None:
    """Also where nothing is left of the topic."""
    assert look(log_of(("a", 500), first=7), 2).lost == 5
    empty = look(log_of(first=7), 2)
    assert (empty.lost, empty.ends, empty.fresh) == (5, {0: 7}, ())


def test_a_topic_that_loses_deletes_is_refused(real_broker: TestBroker, tmp_path: Path) -> None:
    """By its own name, not as an input."""
    connection = real_broker.connection
    own = deleting(connection, real_broker.name("compacted"), tmp_path)
    alter_topic(connection, own.deletes.topic, "cleanup.policy", "compact")
    with pytest.raises(ConfigurationError, match=f"{own.deletes.topic} can lose deletes: .* is compact"):
        run_until_it_fails(own, connection)


@pytest.mark.quick
def test_more_names_than_memory_is_for_are_refused(sought: list[set[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """And a topic that was made again is told."""
    monkeypatch.setattr(carried, "MOST_NAMES", 2)
    with pytest.raises(ConfigurationError, match="more than 2 names"):
        look(log_of(("a", 500), ("b", 500), ("c", 500)))
    other = log_of(("a", 500))
    other.topic_id = "another"
    with pytest.raises(carried._OtherDeletes, match="made again"):
        look(other)
    assert not sought


@pytest.mark.quick
def test_an_option_of_deletes_without_their_topic_is_refused() -> None:
    """By its name."""
    with pytest.raises(ValueError, match=r"deletes\.every_s"):
        Settings.model_validate({"name": "m", "kafka": {"bootstrap.servers": "b:1"}, "deletes": {"every_s": 5.0}})


def archiving(settings: Settings, directory: Path) -> Settings:
    archive = ArchiveConfig(directory=directory, leaf_rows=8, span_rows=16, bucket_points=16)
    return settings.model_copy(update={"archive": archive})


def nodes_of(settings: Settings) -> set[tuple[object, ...]]:
    """Return which buckets are in an archive, each by the hash of its bytes."""
    assert settings.archive.directory is not None
    return {
        (*node.start, *node.end, node.level, node.sha256) for node in archive_store(settings.archive.directory).nodes()
    }


def test_a_delete_takes_its_rows_out_of_the_archive_too(real_broker: TestBroker, tmp_path: Path) -> None:
    """Each bucket is then that of a stream that rejected the rows; what cannot be made again is said before."""
    connection, rows = real_broker.connection, gaussian(ROWS, 5)
    own = deleting(connection, real_broker.name("archived"), tmp_path / "own")
    own = archiving(own, tmp_path / "archive")
    clean = started(connection, settings_of(real_broker.name("archived-clean"), tmp_path / "clean"))
    clean = archiving(clean, tmp_path / "archive-clean")
    put(connection, own.input.topic, named(encoded(rows)))
    put(connection, clean.input.topic, named(encoded(rejected(rows, (3, 77, 148)))))
    run_until(clean, connection, ROWS)
    with Running(own, connection) as running:
        running.wait_for_rows(ROWS)
        running.wait_until(lambda: bool(versions(connection, own)))
        put(connection, own.deletes.topic, [delete(f"r{at}", 200) for at in (3, 77, 148)])
        running.wait_until(lambda: versions(connection, own)[-1].lineage.fact(WithoutRows) is not None)
    assert nodes_of(own) == nodes_of(clean)
    assert verify(Cluster(connection), own).rows[-1].outcome is Outcome.IDENTICAL
    own = own.model_copy(update={"checkpoint": own.checkpoint.model_copy(update={"keep_bytes": 1 << 30})})
    with Running(own, connection) as running:
        running.wait_until_started()
        delete_records(connection, own.input.topic, 0, 60)
        put(connection, own.deletes.topic, [delete("r62", 200)])
        running.wait_until(lambda: count(running, "past_retention") == 1)
        assert running.health.ready()[1]["waiting_for"]["deletes"]


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
