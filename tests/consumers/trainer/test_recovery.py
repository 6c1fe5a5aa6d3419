"""Doubts, rivals and gaps: what a trainer does when a commit is not answered, another one starts, or the log changes.

On a real broker only: the embedded one fences nobody, has no transactions and no admin calls.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from consumers import constants
from consumers.host import Clock, Health
from consumers.metrics import TRAINER, Metrics
from consumers.page import Past, Site, TrainerStatus, past_of
from consumers.settings import Settings
from consumers.streams import HANDFUL, output_topics
from consumers.trainer import kernels, observer, owner_watch, startup, warming
from consumers.trainer.components import Components
from consumers.trainer.owner_watch import OwnerWatch
from consumers.trainer.trainer import Trainer
from streamsvm.checkpoint import CheckpointDirectory, FileSystem
from streamsvm.checkpoint.format import decode
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.errors import (
    ConfigurationError,
    DirectoryTaken,
    Fenced,
    LogGap,
    StateError,
    TopicMissing,
    TransientError,
)
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import REMEDIES
from streamsvm.kafka import Cluster, Connection, Message, Publisher, Record, TopicSpec
from streamsvm.learning.training import train
from streamsvm.model.pointers import Owner
from tests.brokers.fixtures import TestBroker
from tests.checkpoint.disks import RefusingDisk
from tests.consumers.trainers import (
    Running,
    changed,
    ends_by,
    learn,
    produce,
    records,
    run_until,
    settings_for,
    topic,
    versions,
)
from tests.deadline import eventually
from tests.kafka import foreign

pytestmark = pytest.mark.real_broker


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("r"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 1)])
    return made


def numbers(connection: Connection, settings: Settings) -> list[tuple[int, int]]:
    """Return number and points of each version."""
    return [(version.number, version.stream.points) for version in versions(connection, settings)]


@contextmanager
def copied(settings: Settings) -> Iterator[Settings]:
    """A second trainer with a copy of the first one's directory."""
    directory = settings.checkpoint.directory
    copy = directory.parent / "copy"
    while not copy.exists():  # the first one removes old checkpoints meanwhile
        try:
            shutil.copytree(directory, copy)
        except shutil.Error:
            shutil.rmtree(copy)
    yield changed(settings, "checkpoint", directory=copy)


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer looks for gaps and partitions ten times a second."""
    monkeypatch.setattr(constants, "WATCH_INTERVAL_S", 0.1)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty rejected records in a row are too many, and a hundred points prove an input."""
    monkeypatch.setattr(constants, "MOST_REJECTED_IN_A_ROW", 30)
    monkeypatch.setattr(constants, "PROVEN_AFTER_POINTS", 100)


@pytest.mark.usefixtures("watchful")
def test_partitions_that_do_not_fit_into_the_container_are_told(settings: Settings, connection: Connection) -> None:
    """They are learned, and the trainer is not ready, with both figures, until it has more memory."""
    config = settings.models()
    limit = config.coreset.largest_bytes(config.points, 4)
    with Running(settings, connection, memory_limit=lambda: limit) as running:
        running.wait_until(lambda: running.health.ready()[0])
        foreign.add_partitions(connection, settings.input.topic, 5)
        running.wait_until(lambda: not running.health.ready()[0])
        told = running.health.ready()[1]["waiting_for"]["memory"]
        assert f"{config.coreset.largest_bytes(config.points, 5):,} bytes" in told
        assert f"the container has {limit:,}" in told


def recreate(settings: Settings, connection: Connection) -> None:
    foreign.delete_topic(connection, settings.input.topic)
    Cluster(connection).create([TopicSpec(settings.input.topic, 1)])


@pytest.mark.usefixtures("watchful")
def test_a_topic_recreated_under_a_running_trainer_is_begun_anew_in_process(
    settings: Settings, connection: Connection
) -> None:
    """Everything is let go and a fresh start decides: numbers go on, nothing of the old log is learned twice."""
    told = changed(settings, "input", on_gap="reset")
    produce(connection, settings.input.topic, records(50))
    with Running(told, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        recreate(settings, connection)
        produce(connection, settings.input.topic, records(45, seed=2))
        running.wait_until(lambda: running.value("streamsvm_model_version") == 2)
    assert numbers(connection, settings) == [(1, 40), (2, 40)]


class InAGap(Trainer):
    """A trainer whose log has a gap in every life."""

    lives = 0

    def _live(self) -> None:
        self.lives += 1
        raise LogGap("a gap", "")


def test_a_trainer_that_is_told_to_stop_does_not_start_over(settings: Settings, connection: Connection) -> None:
    """Told so after the gap was found: it would take the model over and begin an incarnation, only to stop."""
    stop: Any = SimpleNamespace(is_set=lambda: False, wait=lambda timeout_s: True)
    parts = {"cluster": Cluster(connection), "metrics": Metrics(TRAINER), "health": Health(stuck_after_s=60.0)}
    trainer = InAGap(changed(settings, "input", on_gap="reset"), Components(**parts, stop=stop))
    trainer.run()
    assert trainer.lives == 1


def test_output_topics_that_are_unfit_are_refused(settings: Settings, connection: Connection) -> None:
    """Compaction would remove most of the audit trail, and the order of a topic's records is their meaning."""
    output = settings.output
    Cluster(connection).create([TopicSpec(output.audit_topic, 1, config={"cleanup.policy": "compact"})])
    with pytest.raises(ConfigurationError, match=r"cleanup\.policy is compact, not delete"):
        run_until(settings, connection, 0)
    several = changed(settings, "output", models_topic=f"{output.models_topic}-several")
    Cluster(connection).create([TopicSpec(several.output.models_topic, 2, config={"cleanup.policy": "compact"})])
    with pytest.raises(ConfigurationError, match="has 2 partitions"):
        run_until(several, connection, 0)


def test_a_compacted_input_is_refused(settings: Settings, connection: Connection) -> None:
    """Before anything is made of it: no version could be recomputed, and a later start would find a gap."""
    foreign.set_option(connection, settings.input.topic, "cleanup.policy", "compact,delete")
    with pytest.raises(ConfigurationError, match=f"{settings.input.topic}: cleanup.policy is compact,del") as refused:
        run_until(settings, connection, 0)
    assert f"--entity-name {settings.input.topic} --add-config cleanup.policy=delete" in refused.value.remedy
    with pytest.raises(TopicMissing):
        Cluster(connection).describe(settings.output.models_topic)


def test_a_stop_while_it_compiles_takes_nothing_over(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told to stop between two parts: it ends as for any stop, its predecessor still publishes, nothing is written."""
    Cluster(connection).create(output_topics(settings))
    predecessor = Publisher(connection, f"streamsvm/{settings.name}/{settings.output.models_topic}")
    predecessor.start()
    parts: list[str] = []

    def compile_parts(_: object, say: Callable[[str], None], **named: object) -> None:
        for part in ("first", "second", "third"):
            say(part)
            parts.append(part)
            if part == "second":
                running.ask_to_stop()

    monkeypatch.setattr(kernels, "prepare", compile_parts)
    with Running(settings, connection) as running:
        running.wait_until(lambda: len(parts) == 2)
    assert parts == ["first", "second"]
    predecessor.publish([Message(settings.output.audit_topic, b"{}", partition=0)])
    predecessor.close()
    assert topic(connection, settings.output.aliases_topic) == []
    assert not list(settings.checkpoint.directory.glob("checkpoint-*"))


@pytest.mark.parametrize("long_s", [0.01, 600.0])
def test_compiling_is_said_while_the_first_part_runs(monkeypatch: pytest.MonkeyPatch, long_s: float) -> None:
    """Readiness says so, for it takes half a minute, and the log how far it is; of a quick start, nothing is said."""
    health, logs = Health(stuck_after_s=60.0), list[str]()

    def waits() -> bool:
        return logs.count("compiling: the first part") > 2 and health.ready()[1]["waiting_for"] == {
            "start": warming.COMPILING
        }

    health.require("broker", "starting")

    def compile_it(_: object, say: Callable[[str], None], **named: object) -> None:
        say("the first part")
        if long_s < 1.0:
            health.clock = lambda: time.monotonic() + 1_000.0  # the main loop hangs in this part
            eventually(waits, "it is said", 30.0)

    monkeypatch.setattr(warming, "LONG_COMPILE_S", long_s)
    monkeypatch.setattr(warming, "PROGRESS_EVERY_S", 0.01)
    monkeypatch.setattr(warming.log, "info", lambda event, **said: logs.append(f"{event}: {said['what']}"))
    monkeypatch.setattr(kernels, "prepare", compile_it)
    warming.WarmUp(ModelConfig(points=PointsConfig(dimension=2)), health, threading.Event(), Clock()).run()
    # Until the first part has its turn, modules are imported: a slow machine may say that, too.
    assert set(logs) - {"compiling: modules"} == ({"compiling: the first part"} if long_s < 1.0 else set())


def rejected(n: int) -> list[bytes | None]:
    return [b"nonsense"] * n


def places(connection: Connection, settings: Settings) -> list[int]:
    """Return the offset of the record of each dead letter, copies included."""
    letters = topic(connection, settings.input.dead_letters)
    return sorted(deadletter.decode(letter.value, letter.headers).offset for letter in letters)


@pytest.mark.usefixtures("limited")
def test_too_many_bad_records_after_each_other_stop_the_trainer(settings: Settings, connection: Connection) -> None:
    """Where one point less than a proof was accepted; reason, example and remedy are named, every letter delivered."""
    produce(connection, settings.input.topic, [*records(94), *rejected(29), *records(5), *rejected(40)])
    told = r"30 records in a row .* because of malformed_json, .*\[0\]@157 row 0"
    assert REMEDIES["malformed_json"] in ends_by(ConfigurationError, told, settings, connection).remedy
    assert len(topic(connection, settings.input.dead_letters)) >= 59


@pytest.mark.usefixtures("limited")
def test_a_configuration_under_which_nothing_is_valid_rejects_a_handful(
    settings: Settings, connection: Connection
) -> None:
    """The same few at every start: positions do not move, and the topic is not rejected start by start."""
    produce(connection, settings.input.topic, records(100))
    wrong = settings.model_copy(update={"points": PointsConfig(dimension=7)})
    for _ in range(3):
        ends_by(ConfigurationError, "30 records in a row", wrong, connection)
    assert places(connection, settings) == sorted([*range(HANDFUL)] * 3)


def test_letters_wait_for_the_first_valid_row(settings: Settings, connection: Connection) -> None:
    """A handful is sent at once, a restart begins with the same records, and with a valid row each has its letter."""
    produce(connection, settings.input.topic, rejected(20))
    for _ in range(2):
        with Running(settings, connection) as running:
            running.wait_until(lambda: running.value("streamsvm_dead_letters_total", reason="malformed_json") == 20)
            running.wait_until(lambda: "15 more letters wait" in str(running.health.ready()[1]["waiting_for"]))
    assert places(connection, settings) == sorted([*range(HANDFUL)] * 2)
    learn(settings, connection, 40)
    assert set(places(connection, settings)) == set(range(20))


def test_a_large_share_of_bad_records_stops_the_trainer(settings: Settings, connection: Connection) -> None:
    """Although no two of them follow each other; 0 lets any share pass."""
    mixed = [value for good in records(510) for value in (good, b"nonsense")]
    produce(connection, settings.input.topic, mixed)
    limited = changed(settings, "input", max_dead_letter_share=0.4)
    ends_by(ConfigurationError, r"of the last 1000 records .*max_dead_letter_share", limited, connection)
    with Running(changed(settings, "input", max_dead_letter_share=0.0), connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1020 // 40)


@pytest.mark.usefixtures("limited")
def test_bad_records_do_not_stop_a_trainer_whose_input_is_proven(settings: Settings, connection: Connection) -> None:
    """It is not ready instead, after a restart, too, and ready again with the first record that it accepts."""
    produce(connection, settings.input.topic, [*records(100), *rejected(60)])
    for _ in range(2):
        with Running(settings, connection) as running:
            running.wait_until(lambda: running.value("streamsvm_input_mostly_rejected") == 1.0)
            ready, answer = running.health.ready()
            assert not ready
            assert "records in a row" in answer["waiting_for"]["input"]
            assert running.health.healthy()[0]
        produce(connection, settings.input.topic, rejected(40))
    produce(connection, settings.input.topic, records(1, seed=9))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_input_rows_total", outcome="accepted") >= 1)
        running.wait_until(lambda: running.health.ready()[0])
        assert running.value("streamsvm_input_mostly_rejected") == 0.0


def test_an_open_transaction_of_a_producer_is_shown_as_such(settings: Settings, connection: Connection) -> None:
    """Not as lag; and once it is committed all of it is learned."""
    produce(connection, settings.input.topic, records(40))
    values = [value for value in records(20, seed=1) if value is not None]
    with (
        Running(settings, connection) as running,
        foreign.open_transaction(connection, settings.input.topic, values) as writer,
    ):
        produce(connection, settings.input.topic, records(20, seed=2))
        running.wait_until(lambda: running.value("streamsvm_input_open_transaction_records", partition="0") == 40)
        running.wait_for_rows(40)
        running.wait_until(lambda: running.value("streamsvm_input_lag_records", partition="0") == 0)
        writer.commit_transaction(foreign.TIMEOUT_S)
        running.wait_for_rows(80)
        running.wait_until(lambda: running.value("streamsvm_input_open_transaction_records", partition="0") == 0)


def test_a_training_that_does_not_end_turns_health_red_until_it_does(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only this tells that nothing will be published; and while it stops, why the stop does not come."""
    monkeypatch.setattr(constants, "TRAINING_STUCK_AFTER_S", 0.2)
    ends, stopping = threading.Event(), threading.Event()

    def stuck(*arguments: Any) -> Any:
        if stopping.is_set():
            running.ask_to_stop()
        ends.wait(30.0)
        return train(*arguments)

    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection, train=stuck) as running:
        running.wait_until(lambda: not running.health.healthy()[0])
        assert "a model has been training" in running.health.healthy()[1]["why"]
        ends.set()
        running.wait_until(lambda: running.health.healthy()[0])
        ends.clear()
        stopping.set()
        produce(connection, settings.input.topic, records(40, seed=1))
        running.wait_until(lambda: not running.health.healthy()[0])
        ends.set()
    assert numbers(connection, settings) == [(1, 40), (2, 80)]


def test_leader_epochs_of_the_log_are_told_by_the_broker(settings: Settings, connection: Connection) -> None:
    """Of a record that is there, in the log of its first leader; what follows from another one the contract says."""
    produce(connection, settings.input.topic, records(50))
    assert Cluster(connection).leader_epoch(settings.input.topic, 0, 49) == 0
    assert Cluster(connection).leader_epoch(settings.input.topic, 0, 50) is None


def feed_in_a_transaction(settings: Settings, connection: Connection, values: Iterable[bytes]) -> None:
    """Store records as a transactional producer does: a marker stands after the last of them."""
    with foreign.open_transaction(connection, settings.input.topic, values) as producer:
        producer.commit_transaction(foreign.TIMEOUT_S)


def remove_all(settings: Settings, connection: Connection) -> None:
    """Remove every record of the input, as retention does to a stream that rests."""
    _, end = Cluster(connection).log_range(settings.input.topic, 0)
    foreign.delete_records(connection, settings.input.topic, 0, end)


def saved_past(settings: Settings, offset: int) -> bool:
    """Tell whether the newest checkpoint knows that there is nothing to learn before an offset."""
    newest = max(settings.checkpoint.directory.glob("*.ssvm"))
    with suppress(FileNotFoundError):  # it was superfluous by then
        return decode(newest.read_bytes()).read_to == {0: offset}
    return False


@pytest.mark.usefixtures("watchful")
def test_a_marker_that_retention_removes_is_no_record_unread(settings: Settings, connection: Connection) -> None:
    """A transactional stream rests until its last segment goes: nothing was lost, while running or at a start."""
    feed_in_a_transaction(settings, connection, records(50))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 1)
        running.wait_until(lambda: saved_past(settings, 51))
        remove_all(settings, connection)
        running.wait_until(lambda: running.value("streamsvm_input_headroom_records", partition="0") <= 0)
        feed_in_a_transaction(settings, connection, records(50, seed=1))
        running.wait_until(lambda: running.value("streamsvm_model_version") == 2)
        running.wait_until(lambda: saved_past(settings, 102))
        running.wait_until(lambda: running.value("streamsvm_input_lag_records", partition="0") == 0)
    remove_all(settings, connection)
    run_until(settings, connection, 0)
    feed_in_a_transaction(settings, connection, records(50, seed=2))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 3)
    assert numbers(connection, settings) == [(1, 40), (2, 80), (3, 120)]


@pytest.mark.parametrize("interval_s", [0.05, 600.0])
def test_a_trainer_with_nothing_to_publish_ends_when_another_owns_the_model(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch, interval_s: float
) -> None:
    """It ends at its next look, or before its next checkpoint; rows that come after it was replaced are never saved."""
    monkeypatch.setattr(owner_watch, "LOOK_EVERY_S", 0.1 if interval_s > 1.0 else 1e9)
    monkeypatch.setattr(owner_watch, "FRESH_S", 0.0)
    own = changed(settings, "checkpoint", interval_s=interval_s)
    learn(own, connection, 50)
    first = Running(own, connection, session="first")
    with first:
        first.wait_until(lambda: first.health.ready()[0])
        with copied(own) as copy:
            run_until(copy, connection, 0, session="second")
        produce(connection, own.input.topic, records(9, seed=1))
        with pytest.raises(Fenced, match=r"belongs to the process second.*not to this process \(first\)"):
            first.wait_until(lambda: False)
        first.failure = None
    saved = [decode(file.read_bytes()) for file in own.checkpoint.directory.glob("*.ssvm")]
    assert max(one.positions[0].offset for one in saved) == 50


def test_a_trainer_goes_on_in_a_directory_made_anew(settings: Settings, connection: Connection, tmp_path: Path) -> None:
    """Removed while it runs: it makes it again, and the next start goes on from there."""
    produce(connection, settings.input.topic, records(50))
    with Running(settings, connection) as running:
        running.wait_for_rows(50)
        settings.checkpoint.directory.rename(tmp_path / "removed")  # at once: it saves while a tree is removed
        shutil.rmtree(tmp_path / "removed", ignore_errors=True)
        running.wait_until(lambda: bool(list(settings.checkpoint.directory.glob("checkpoint-*.ssvm"))))
        running.wait_until(lambda: running.health.ready()[0])
    learn(settings, connection, 10, seed=1)


def test_a_trainer_ends_when_its_directory_is_anothers(
    settings: Settings, connection: Connection, tmp_path: Path
) -> None:
    """It stands behind a symbolic link that is turned to a directory which another process holds."""
    others, link, fresh = tmp_path / "others", tmp_path / "link", tmp_path / "fresh"
    (tmp_path / "own").mkdir()
    link.symlink_to(tmp_path / "own")
    fresh.symlink_to(others)
    linked = changed(settings, "checkpoint", directory=link)
    with CheckpointDirectory(FileSystem(others), 3), Running(linked, connection) as running:
        running.wait_until_started()
        fresh.replace(link)
        with pytest.raises(DirectoryTaken, match="another process holds"):
            running.wait_until(lambda: False)
        running.failure = None
    assert not running.health.healthy()[0]
    assert [path.name for path in others.iterdir()] == ["lock"]


def test_a_look_that_does_not_come_to_the_end_ends_nobody(settings: Settings, connection: Connection) -> None:
    """Records before an open transaction, or before a broker that fell silent, may be of an owner of earlier days."""

    class Halting(Cluster):
        def read_to_end(
            self, topic: str, partition: int, *, start: int | None = None, timeout_s: float
        ) -> Iterator[Record]:
            yield from list(super().read_to_end(topic, partition, start=start, timeout_s=timeout_s))[:1]
            raise TransientError("an open transaction holds readers up there")

    for session in ("one", "two"):
        run_until(settings, connection, 0, session=session)
    checked: list[Owner] = []
    watched = (settings.output.aliases_topic, "m", checked.append, iter(range(100)).__next__)
    halted, whole = OwnerWatch(Halting(connection), *watched), OwnerWatch(Cluster(connection), *watched)
    for watch in (halted, whole):
        watch.before_saving()
    assert [one.session for one in checked] == ["two"]


def shown_by(running: Running, settings: Settings) -> TrainerStatus:
    status = Site(settings, running.board, running.metrics, running.health).status()
    assert isinstance(status, TrainerStatus)
    return status


def test_the_past_stands_behind_what_was_published_before_it_was_read(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first version does not wait for the past, and stays the newest when that comes."""
    learn(settings, connection, 130)
    published, read_on = len(versions(connection, settings)), threading.Event()

    def late(*where: Any) -> Past:
        assert read_on.wait(60.0)
        return past_of(*where)

    monkeypatch.setattr(observer, "past_of", late)
    with Running(settings, connection) as again:
        produce(connection, settings.input.topic, records(40, seed=1))
        again.wait_until(lambda: again.value("streamsvm_model_version") == published + 1)
        read_on.set()
        again.wait_until(lambda: len(shown_by(again, settings).versions) == published + 1)
        shown = shown_by(again, settings)
        assert [part.number for part in shown.versions] == list(range(published + 1, 0, -1))
        assert [part.earlier for part in shown.versions] == [False] + [True] * published
        assert again.value("streamsvm_model_points_covered") == shown.versions[0].rows


def test_a_first_start_waits_for_a_disk_and_a_later_one_does_not(broker: TestBroker, settings: Settings) -> None:
    """Without any checkpoint nothing could continue what it publishes; with one, versions come and failures count."""
    connection = broker.connection
    produce(connection, settings.input.topic, records(80))
    disk = RefusingDisk()
    disk.refuse["write"] = errno.ENOSPC
    refused = ends_by(
        TransientError,
        "No space left on device. It is the first one of incarnation 1,",
        settings,
        connection,
        disk=disk,
    )
    assert "Free space" in refused.remedy
    assert versions(connection, settings) == []
    disk.refuse.clear()
    run_until(settings, connection, 80, disk=disk)
    produce(connection, settings.input.topic, records(80, seed=1))
    disk.refuse["write"] = errno.EDQUOT
    with Running(settings, connection, disk=disk) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") == 4)
        assert running.value("streamsvm_checkpoint_failures_total") >= 1
        disk.refuse.clear()
        running.wait_until(lambda: running.value("streamsvm_checkpoint_bytes") > 0)
    assert len(versions(connection, settings)) == 4


def test_only_who_takes_a_model_from_a_process_that_did_not_stop_says_so(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stop nobody is fenced; after a kill, and from another directory, it names process and host."""
    said: list[str] = []
    monkeypatch.setattr(startup.log, "info", lambda event, **what: said.append(event + str(what.get("session", ""))))
    learn(settings, connection, 50)
    run_until(settings, connection, 0)
    assert not [line for line in said if line.startswith("taking_over")]
    with copied(settings) as copy:  # as after a kill: what it left says nothing of a stop
        (copy.checkpoint.directory / "lock").write_bytes(b"")
        run_until(copy, connection, 0)
    (line,) = [line for line in said if line.startswith("taking_over")]
    assert line.startswith(f"taking_over{os.getpid()}@{socket.gethostname()}#")
    run_until(settings, connection, 0)
    assert len([line for line in said if line.startswith("taking_over")]) == 2


@pytest.mark.parametrize("when", ["while stopped", "while running", "some time ago"])
def test_a_directory_goes_to_another_host_or_comes_back_from_a_backup(
    settings: Settings, connection: Connection, when: str
) -> None:
    """The copy goes on whenever it was made: it reads again what came since, and the versions have no gap."""
    learn(settings, connection, 50)
    if when == "while running":
        with Running(settings, connection) as running:
            produce(connection, settings.input.topic, records(40, seed=1))
            running.wait_for_rows(40)
            with copied(settings) as copy:
                pass
    else:
        with copied(settings) as copy:
            if when == "some time ago":
                learn(settings, connection, 40, seed=1)
    produce(connection, settings.input.topic, records(40, seed=2))
    every = [(1, 40), (2, 80), (3, 120)][: 2 if when == "while stopped" else 3]
    with Running(copy, connection) as running:
        running.wait_until(lambda: len(numbers(connection, settings)) >= len(every))
    assert numbers(connection, settings) == every


def test_a_backup_that_is_older_than_the_log_is_refused(settings: Settings, connection: Connection) -> None:
    """With the `--reset` that begins anew; nothing is published before."""
    learn(settings, connection, 50)
    with copied(settings) as copy:
        learn(settings, connection, 50, seed=1)
    remove_all(settings, connection)
    with pytest.raises(StateError, match="retention removed 50 unread records") as refused:
        run_until(copy, connection, 0)
    assert "--reset m/1" in refused.value.remedy
    assert numbers(connection, settings) == [(1, 40), (2, 80)]
