"""Input topic deleted, recreated, truncated; partition added: stops or resets as told, and learns the new partition."""

from __future__ import annotations

import pytest

from tests.consumers.trainers import records, versions
from tests.kafka.foreign import add_partitions, delete_records, delete_topic
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise, incarnations

REFUSED = 78
WATCHFUL = {"WATCH_INTERVAL_S": 0.2}
RESET = {"input_on_gap": "reset"}


def recreate(stage: Stage, rows: int) -> None:
    """Put another topic of the same name in the place of the input."""
    delete_topic(stage.connection, stage.settings.input.topic)
    stage.create()
    stage.feed(records(rows, seed=9))


def check_refused(stage: Stage, planted: str, *words: str) -> None:
    """Start a process that must refuse in one line that holds these words."""
    daemon = stage.start(planted, **WATCHFUL)
    assert not daemon.reaches_version(3), "it goes on as if nothing had happened"
    assert daemon.wait() == REFUSED, daemon.said
    check_said(daemon.log[-1], *words)
    assert "Traceback" not in daemon.said


def check_said(line: str, *words: str) -> None:
    assert [word for word in words if word not in line] == [], line


def check_reset(stage: Stage, rows: int) -> None:
    """Let a process begin anew: numbers go on, the counts begin again."""
    stage.run_through(2 + rows // 40, **WATCHFUL, **RESET)
    found = check_promise(stage.connection, stage.settings, recomputable=False)
    assert incarnations(stage.connection, stage.settings) == [1, 1] + [2] * (rows // 40)
    assert [version.stream.points for version in found] == [40, 80, *range(40, rows + 1, 40)]


def recreated(stage: Stage, planted: str = "") -> None:
    stage.create()
    stage.feed(records(90))
    stage.run_through(2, planted)
    recreate(stage, 120)
    check_refused(stage, planted, stage.settings.input.topic, "--reset m/1")


def truncated(stage: Stage, planted: str = "") -> None:
    stage.create()
    stage.feed(records(90))
    stage.run_through(2)
    stage.feed(records(90, seed=1))
    delete_records(stage.connection, stage.settings.input.topic, 0, before=100)
    check_refused(stage, planted, f"{stage.settings.input.topic}[0]", "100", "--reset m/1")


def with_a_new_partition(stage: Stage, planted: str = "") -> None:
    stage.create()
    stage.feed(records(90))
    daemon = stage.start(planted, **WATCHFUL)
    assert daemon.reaches_version(2)
    add_partitions(stage.connection, stage.settings.input.topic, 2)
    stage.feed(records(110, seed=1), partition=1)
    stage.feed(records(80, seed=2))
    assert daemon.reaches_version(4 if planted else 6), daemon.said
    assert daemon.stop() == 0
    *_, last = versions(stage.connection, stage.settings)
    assert {part.partition for part in last.lineage.cut} == {0, 1}, "the new partition is not learned"
    stage.feed(records(40, seed=3), partition=1)
    stage.feed(records(30, seed=4))
    stage.run_through(8)
    check_counts(check_promise(stage.connection, stage.settings))


@pytest.mark.long
def test_a_recreated_topic_is_refused_or_begun_anew(stage: Stage) -> None:
    """Another topic of the same name, longer than the old one: only its id tells; told to reset, numbers go on."""
    recreated(stage)
    check_reset(stage, 120)


@pytest.mark.long
def test_a_truncated_topic_is_refused_or_begun_anew(stage: Stage) -> None:
    """Records removed before they were read: refused with their number; told to reset, it begins at what is left."""
    truncated(stage)
    check_reset(stage, 80)


@pytest.mark.parametrize("what", ["deleted", pytest.param("recreated", marks=pytest.mark.faults_long)])
def test_a_topic_that_goes_while_it_is_read_ends_the_process(stage: Stage, what: str) -> None:
    """Noticed while running: one line that names the topic, status 78, and what was published stands."""
    stage.create()
    stage.feed(records(90))
    daemon = stage.start(**WATCHFUL)
    assert daemon.reaches_version(2)
    if what == "deleted":
        delete_topic(stage.connection, stage.settings.input.topic)
    else:
        recreate(stage, 120)
    assert daemon.wait() == REFUSED, daemon.said
    check_said(daemon.log[-1], stage.settings.input.topic)
    assert "Traceback" not in daemon.said
    assert len(check_promise(stage.connection, stage.settings, recomputable=False)) == 2


@pytest.mark.faults_long
def test_records_removed_under_a_frozen_process_end_it(stage: Stage) -> None:
    """What it was to read next is gone when it is thawed: noticed while running."""
    stage.create()
    stage.feed(records(90))
    daemon = stage.start(**WATCHFUL)
    assert daemon.reaches_version(2)
    daemon.freeze()
    stage.feed(records(3_000, seed=1))
    delete_records(stage.connection, stage.settings.input.topic, 0, before=3_000)
    daemon.thaw()
    stage.feed(records(90, seed=2))
    assert daemon.wait() == REFUSED, daemon.said
    check_said(daemon.log[-1], stage.settings.input.topic)


@pytest.mark.long
def test_a_new_partition_is_learned(stage: Stage) -> None:
    """Added while running: learned from its first record, before and after a restart, and each record counts once."""
    with_a_new_partition(stage)


@pytest.mark.faults_long
def test_a_topic_known_by_its_name_only_is_found(stage: Stage) -> None:
    """The row can fail: without the topic's id a longer topic of the same name is taken for the old one."""
    with pytest.raises(AssertionError, match="as if nothing had happened"):
        recreated(stage, "takes-every-topic-for-the-same")


@pytest.mark.faults_long
def test_a_gap_that_is_jumped_over_is_found(stage: Stage) -> None:
    """The row can fail: a trainer that reads on where the log begins skips records."""
    with pytest.raises(AssertionError, match="as if nothing had happened"):
        truncated(stage, "jumps-over-removed-records")


@pytest.mark.faults_long
def test_a_partition_that_is_not_seen_is_found(stage: Stage) -> None:
    """The row can fail: a trainer that keeps to the partitions of its start leaves the new one unread."""
    with pytest.raises(AssertionError, match="the new partition is not learned"):
        with_a_new_partition(stage, "sees-no-new-partition")
