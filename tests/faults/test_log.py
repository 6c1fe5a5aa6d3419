"""Duplicate, reordered, aborted and compacted-away records: each offset that is there counts once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamsvm.kafka import Cluster, Message, Outbox
from tests.brokers.settings import COMPACT_AT_ONCE
from tests.consumers.trainers import records, versions
from tests.kafka.foreign import aborted, set_option
from tests.kafka.steps import eventually
from tests.live.process import read_all
from tests.live.stage import Stage
from tests.promise.topics import check_promise

ROWS = 800


def offsets_of(stage: Stage) -> list[int]:
    """Return the offsets that a reader of the input gets."""
    return [
        record.offset for record in Cluster(stage.connection).read_to_end(stage.settings.input.topic, 0, timeout_s=30.0)
    ]


def learn_with_kills(stage: Stage, tmp_path: Path, planted: str = "") -> None:
    """Learn what is in the topic with two kills on the way; each offset counts once, and a clean run agrees."""
    there = offsets_of(stage)
    number = len(there) // 40
    for upto in (number // 3, 2 * number // 3):
        daemon = stage.start(planted)
        assert daemon.reaches_version(upto), daemon.said
        daemon.kill()
    daemon = stage.start(planted)
    daemon.wait_for("started")
    read_all(daemon)
    assert daemon.stop() == 0, daemon.said
    found = versions(stage.connection, stage.settings)
    counted = [sum(offset < version.lineage.cut[0].offset for offset in there) for version in found]
    assert [version.stream.rows for version in found] == counted, "not each offset once"
    assert counted == list(range(40, len(there) + 1, 40)), "not each offset once"
    clean = stage.elsewhere(tmp_path / "clean", "clean")
    clean.run_through(number)
    assert stage.models() == clean.models(), "not the models of a clean run"
    check_promise(stage.connection, stage.settings)


def feed_mixed(stage: Stage, seed: int) -> None:
    """Store a stream in which a third of the records come twice or more, far apart and out of order."""
    chance = random.Random(seed)
    plain = records(ROWS, seed)
    mixed = plain + chance.choices(plain, k=ROWS // 2)
    chance.shuffle(mixed)
    stage.feed(mixed)


def feed_keyed(stage: Stage, values: Sequence[bytes]) -> None:
    """Store records under keys that come again and again."""
    outbox = Outbox(stage.connection)
    for index, value in enumerate(values):
        outbox.send(Message(stage.settings.input.topic, value, b"%d" % (index % 150), partition=0))
    outbox.flush(30.0)
    outbox.close()


@pytest.mark.long
def test_duplicates_and_disorder_count_by_offset(stage: Stage, tmp_path: Path) -> None:
    """A record that comes again is another offset: the log says what was sent, and nothing is guessed away."""
    stage.create()
    feed_mixed(stage, seed=1)
    learn_with_kills(stage, tmp_path)


@pytest.mark.faults_long
def test_aborted_records_leave_gaps_that_count_for_nothing(stage: Stage, tmp_path: Path) -> None:
    """Aborted transactions and control records among the points: offsets are missing, positions jump over them."""
    stage.create()
    for turn in range(10):
        aborted(stage.connection, stage.settings.input.topic, records(7, seed=100 + turn))
        stage.feed(records(ROWS // 20, seed=turn))
    assert len(offsets_of(stage)) == ROWS // 2
    learn_with_kills(stage, tmp_path)


@pytest.mark.faults_long
def test_compacted_records_count_for_nothing(stage: Stage, tmp_path: Path) -> None:
    """A compacted input, against advice: what is left when it is first read is what counts."""
    stage.create(**{name.replace(".", "_"): value for name, value in COMPACT_AT_ONCE.items()})
    values = records(ROWS)
    for first in range(0, ROWS, 200):
        feed_keyed(stage, values[first : first + 200])

    def compacted() -> bool:
        feed_keyed(stage, values[:1])  # closes the segment before it
        return len(offsets_of(stage)) < ROWS

    eventually(compacted, "the input is compacted")
    set_option(stage.connection, stage.settings.input.topic, "cleanup.policy", "delete")
    learn_with_kills(stage, tmp_path)


@pytest.mark.faults_long
def test_a_trainer_that_guesses_duplicates_is_found(stage: Stage, tmp_path: Path) -> None:
    """The row can fail: leaving out what was seen before is not counting each offset once."""
    stage.create()
    feed_mixed(stage, seed=1)
    with pytest.raises(AssertionError, match=r"not each offset once|gave a different training set"):
        learn_with_kills(stage, tmp_path, "drops-duplicates")
