"""Checkpoints that are kept at doubling distances: which stay, and which an erasure may begin again from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, strategies as st

from consumers.branches.history.earlier import fits_log
from streamsvm.branches.history.erased import Erased
from streamsvm.branches.history.erased_part import Obeyed, obeyed_of
from streamsvm.branches.history.erasure import beginning, emptied
from streamsvm.branches.history.past import Past, superfluous
from streamsvm.checkpoint import CheckpointDirectory, FileSystem, Snapshot
from streamsvm.kafka import Cluster
from streamsvm.learning import Learner
from streamsvm.model import Head, PartitionCut
from streamsvm.points import Position
from tests.streams import gaussian, head_of, rows_of, small_config, snapshot_of

MOST = 1 << 40
CONFIG = small_config()
ROWS = rows_of(gaussian(400, 3))


def learned(upto: int, sequence: int, incarnation: int = 1) -> Snapshot:
    """Return a checkpoint of the first rows."""
    held, rest = Learner(CONFIG, {0: Position(0)}, 2), ROWS.slice(0, upto)
    while len(rest):
        rest = rest.slice(held.learn(rest), len(rest))
        if held.cut_due:
            held.decline_cut()
    said = {"configuration": CONFIG.canonical(), "configuration_sha256": CONFIG.sha256(), "topic_id": "id"}
    return snapshot_of(held.state(), incarnation=incarnation, sequence=sequence, **said)


def record(*offsets: int, continues: int = 1) -> Erased:
    return Erased(
        topic="t", topic_id="id", incarnation=1, continues=continues, rows=tuple((0, at, 0, 1) for at in offsets)
    )


def head_at(offset: int, incarnation: int = 1) -> Head:
    return head_of(1, [PartitionCut(0, offset, 0, -1)], incarnation=incarnation)


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=300))
def test_every_row_has_a_checkpoint_of_before_it_at_twice_its_distance(steps: list[int]) -> None:
    """However unevenly checkpoints come; and they are few."""
    every, kept, now = [0], list[int](), 0
    for step in steps:
        now += step
        every.append(now)
        kept.insert(0, now)
        for at in sorted(superfluous(kept, [1] * len(kept), MOST), reverse=True):
            del kept[at]
        assert kept[0] == now
        for row in every[:-1]:  # right before it the next older checkpoint would be the best
            newest = max((one for one in kept if one <= row), default=0)
            assert now - newest <= 2 * max(now - row, 1)
        assert len(kept) <= 2 * now.bit_length() + 2


def test_bytes_are_bounded_and_what_costs_least_goes_first() -> None:
    """Of ages 0, 100, 250 and 600 of 1,000 rows, the third one's neighbours are nearest."""
    rows = [1_000, 900, 750, 400]
    assert superfluous(rows, [10] * 4, 40) == []
    assert superfluous(rows, [10] * 4, 39) == [3]  # 1,000 rows for 250: four times; the third: 600 for 100
    assert superfluous(rows, [10] * 4, 10) == [3, 2, 1]
    assert superfluous(rows, [10] * 4, 9) == [3, 2, 1, 0]
    assert superfluous([], [], 9) == []


def test_generations_that_are_superfluous_are_renamed_and_read_again(tmp_path: Path) -> None:
    """None of the beginning, none of another model, none beyond the bytes; what is damaged is passed over, and goes."""
    past = Past(FileSystem(tmp_path), "m")
    with CheckpointDirectory(FileSystem(tmp_path), 2) as directory:
        directory.retire = lambda disk, name: Past(disk, "m").keep(name, MOST)
        for sequence, upto in enumerate(range(0, 400, 40), 1):
            directory.save(learned(upto, sequence))
        assert [each.snapshot.sequence for each in directory.generations() if each.snapshot] == [10, 9]
    rows = [snapshot.positions[0].offset for snapshot in past.snapshots()]
    assert rows[0] == 280
    assert 0 not in rows
    assert rows == sorted(rows, reverse=True)
    assert len(rows) < 7
    other = tmp_path / past.names[0].replace(".m.", ".other.")
    other.write_bytes((tmp_path / past.names[0]).read_bytes())
    (tmp_path / past.names[1]).write_bytes(b"damaged")
    assert [snapshot.positions[0].offset for snapshot in past.snapshots()] == [rows[0], *rows[2:]]
    assert list(Past(FileSystem(tmp_path), "other").snapshots()) == []  # its name says so, and it does not
    damaged = past.names[1]
    assert past.remove_unless(lambda _: True) == [damaged]
    late = [name for name in past.names if int(name.split(".")[1]) >= 200]
    assert past.remove_unless(lambda one: one.positions[0].offset < 200) == late
    assert late
    assert other.exists()
    (tmp_path / "checkpoint-000001-000000000000-000000000099.ssvm").write_bytes(b"not read where its rows are known")
    past.keep("checkpoint-000001-000000000000-000000000099.ssvm", MOST, 395)
    assert past.names[0] == "checkpoint-000001-000000000000-000000000099.000000000395.m.kept"
    with CheckpointDirectory(FileSystem(tmp_path), 1) as directory:
        directory.retire = lambda disk, name: Past(disk, "m").keep(name, 1)
        directory.save(learned(399, 11))
    assert past.names == []


def test_learning_begins_at_the_newest_checkpoint_that_allows_the_version_in_the_place_of_the_newest() -> None:
    """Before the rows and that version's cut, of the same stream, and where the log fits; else from the start."""
    newest, earlier = learned(400, 9), [learned(upto, at) for at, upto in ((8, 320), (7, 200), (6, 40))]

    def begun(
        erased: Erased, head: Head | None, others: list[Snapshot] = earlier, lost: int | None = None
    ) -> int | None:
        found = beginning(
            newest, erased, head, erased.continues, others, lambda one: lost is None or one.positions[0].offset <= lost
        )
        return None if found is None else found.positions[0].offset

    assert begun(record(390), head_at(380)) == 320
    assert begun(record(319), head_at(380)) == 200
    assert begun(record(390), head_at(300)) == 200
    assert begun(record(390), head_at(200)) == 40  # at the cut itself it could not be published
    assert begun(record(39), head_at(380)) is None
    assert begun(record(390), head_at(380), lost=100) == 40
    assert begun(record(390), None) is None
    assert begun(record(390), head_at(380, incarnation=2)) is None
    assert begun(record(390, continues=0), head_at(380)) is None
    for change in (
        {"topic_id": "another"},
        {"name": "other"},
        {"configuration_sha256": "00"},
        {"base": {0: Position(1)}},
    ):
        assert begun(record(390), head_at(380), [replace(one, **change) for one in earlier]) is None
    empty = emptied(newest, record(390), head_at(380), earlier)
    assert (empty.positions[0].offset, empty.incarnation) == (320, 2)
    assert obeyed_of(empty) == Obeyed.of(record(390), 1)


@pytest.mark.parametrize(
    ("log", "epoch", "fits"),
    [
        ((0, 400), 3, True),
        ((0, 400), None, True),  # the broker does not say
        ((0, 400), 4, False),
        ((100, 400), 4, True),  # retention took the record, and the next one is there
        ((101, 400), 3, False),
        ((0, 100), 3, True),
        ((0, 99), 3, False),
    ],
)
def test_a_checkpoint_fits_a_log_that_holds_what_it_read_last_and_what_comes_next(
    log: tuple[int, int], epoch: int | None, fits: bool
) -> None:
    """Else another one may; a start compares the same, and refuses."""
    snapshot = learned(100, 1)
    state = replace(snapshot.learner.partitions[0], leader_epoch=3)
    snapshot = replace(snapshot, learner=replace(snapshot.learner, partitions={0: state}))

    class Broker:
        def log_range(self, topic: str, partition: int) -> tuple[int, int]:
            return log

        def leader_epoch(self, topic: str, partition: int, offset: int) -> int | None:
            assert (topic, partition, offset) == ("t", 0, 99)
            return epoch

    assert fits_log(cast("Cluster", Broker()), snapshot) is fits
