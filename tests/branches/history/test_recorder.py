"""The archive's buckets: pure functions of their rows, made again byte for byte, and what covers a range."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.branches.history.cover import Read, cover, spans, without
from streamsvm.branches.history.forgotten import Listed, decode, encode
from streamsvm.branches.history.names import Node
from streamsvm.branches.history.recorder import Recorder, missing_parents, parent_of, waits_at
from streamsvm.branches.history.store import Identity, Store
from streamsvm.branches.history.stretches import archived
from streamsvm.checkpoint.disk import FileSystem
from streamsvm.checkpoint.records import encode_bucket
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.structure import Bucket
from streamsvm.errors import CorruptCheckpoint, StateError, TransientError
from streamsvm.model.left_out import masked
from streamsvm.points import Position, Rows
from tests.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of

SPAN, LEAF = 64, 16
BASE = Position(0)


def config(**svm: object) -> ModelConfig:
    model = ModelConfig(
        points=PointsConfig(dimension=DIMENSION),
        coreset=sized(audit_points=20, leaf_rows=LEAF, bucket_points=30),
        svm=SvmConfig(**(svm or {"alpha": 1e-3})),
        seed=3,
    )
    return archived(model, leaf_rows=LEAF, span_rows=SPAN, bucket_points=12)


def stream(n: int, rejected: int = 7) -> Rows:
    """Rows of which one in so many is rejected."""
    return rows_of(gaussian(n, 5), accepted=np.arange(n) % rejected > 0)


def nodes(buckets: list[Bucket], partition: int = 0) -> list[Node]:
    return [Node.of(partition, BASE, bucket, encode_bucket(bucket)) for bucket in buckets]


def recorded(rows: Rows, of: ModelConfig, steps: Iterator[int] | None = None) -> list[Bucket]:
    recorder, made, at = Recorder(0, BASE, of, BASE, 0), [], 0
    while at < len(rows):
        step = len(rows) if steps is None else next(steps)
        made += recorder.learn(rows.slice(at, min(at + step, len(rows))))
        at += step
    return made


def test_every_bucket_of_the_tree_is_made_once() -> None:
    """Of 11 spans: 11, 5, 2 and 1 buckets of the levels 1 to 4, each of exactly its rows and their exact totals."""
    rows = stream(11 * SPAN + 9)
    made = recorded(rows, config())
    by_level = [[bucket for bucket in made if bucket.level == level] for level in range(1, 6)]
    assert [len(level) for level in by_level] == [11, 5, 2, 1, 0]
    for bucket in made:
        first, last = bucket.index * SPAN << bucket.level - 1, (bucket.index + 1) * SPAN << bucket.level - 1
        assert (bucket.extent.start, bucket.extent.end) == (Position(first), Position(last))
        accepted = rows.accepted[first:last]
        assert bucket.extent.moments.count == accepted.sum()
        np.testing.assert_allclose(bucket.extent.moments.weight, rows.points.weight[first:last][accepted].sum())
        np.testing.assert_allclose(bucket.points.weight.sum(), bucket.extent.moments.weight, rtol=1e-9)
        assert len(bucket.points) <= {1: 12, 2: 16, 3: 24, 4: 33}[bucket.level]


@given(st.lists(st.integers(1, 150), min_size=1, max_size=8))
def test_batches_do_not_matter(steps: list[int]) -> None:
    rows, of = stream(5 * SPAN), config()
    assert nodes(recorded(rows, of, itertools.cycle(steps))) == nodes(recorded(rows, of))


@pytest.mark.parametrize("begun", [1, SPAN - 1, SPAN, 3 * SPAN + 5])
def test_who_begins_late_makes_the_same_buckets_from_the_next_span_on(begun: int) -> None:
    """Those of level 1, and of others whose halves it saw."""
    rows, of = stream(9 * SPAN), config()
    late = Recorder(0, BASE, of, Position(begun), begun)
    found = nodes(late.learn(rows))
    assert found == [node for node in nodes(recorded(rows, of)) if node.start.offset >= begun]
    assert {node.level for node in found} > {1}


def test_a_saved_recorder_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    """Within a first leaf, within a screened one, and where a span begins; through files."""
    rows, of = stream(8 * SPAN), config()
    for stop in (5, LEAF + 3, SPAN, 3 * SPAN, 3 * SPAN + 20, 5 * SPAN + 1):
        disk = FileSystem(tmp_path / str(stop))
        disk.lock()
        store, recorder = Store(disk), Recorder(0, BASE, of, BASE, 0)
        before = recorder.learn(rows.slice(0, stop))
        assert recorder.state is not None
        store.save([(0, BASE, bucket) for bucket in before], {0: (BASE, recorder.state)})
        saved = store.state(0)
        assert saved is not None
        begin = saved[1].buckets[0].extent.start if saved[1].buckets else saved[1].leaf_extent.start
        again = Recorder.restored(0, saved[0], of, saved[1], waits_at(store, store.nodes(), begin))
        assert again.position == Position(stop)
        assert nodes(before + again.learn(rows)) == nodes(recorded(rows, of))
        disk.unlock()


def test_a_bucket_knows_nothing_of_the_rows_before_it() -> None:
    """Other rows before it, as many, and other totals: the same bytes."""
    rows, of = stream(4 * SPAN), config()
    points = rows.points
    X = points.X.copy()
    X[: 2 * SPAN] *= 100.0
    other = replace(
        rows, points=replace(points, X=X), accepted=np.where(np.arange(len(rows)) < 2 * SPAN, True, rows.accepted)
    )
    late = [node for node in nodes(recorded(rows, of)) if node.start.offset >= 2 * SPAN]
    assert late == [node for node in nodes(recorded(other, of)) if node.start.offset >= 2 * SPAN]
    assert nodes(recorded(rows, of))[0] != nodes(recorded(other, of))[0]


def test_forgotten_rows_leave_no_trace() -> None:
    """The same bytes as of a stream in which they were rejected, and held something else, when they came."""
    rows, of = stream(4 * SPAN), config()
    gone = [Position(at) for at in (1, LEAF + 3, 2 * SPAN + 41, 4 * SPAN - 1)]
    places = [at.offset for at in gone]
    assert rows.accepted[places].all()
    points = rows.points
    X, accepted = points.X.copy(), rows.accepted.copy()
    X[places], accepted[places] = 77.0, False
    other = replace(rows, points=replace(points, X=X), accepted=accepted)
    without_them = masked(rows, {0: frozenset(gone), 1: frozenset(gone)})
    found = nodes(recorded(without_them, of))
    assert found == nodes(recorded(other, of))
    before = nodes(recorded(rows, of))
    assert [a == b for a, b in zip(before, found, strict=True) if a.level == 1] == [False, True, False, False]
    assert not without_them.points.X[places].any()
    few = [rows.slice(at, min(at + 3, len(rows))) for at in range(0, len(rows), 3)]  # fewer rows than places
    np.testing.assert_array_equal(
        np.concatenate([masked(batch, {0: frozenset(gone)}).accepted for batch in few]), without_them.accepted
    )
    others = {0: frozenset({Position(99 * SPAN), Position(3, 1)})}
    assert (masked(rows, others).accepted == rows.accepted).all()
    assert masked(rows, {}) is rows


@given(
    st.dictionaries(
        st.integers(0, 9), st.frozensets(st.builds(Position, st.integers(0, 99), st.integers(0, 3)), min_size=1)
    )
)
def test_lists_of_forgotten_rows_read_back(forgotten: dict[int, frozenset[Position]]) -> None:
    for erased in ("", "ab" * 32):
        assert decode(encode(Listed(forgotten, erased))) == Listed(forgotten, erased)


DAMAGED = [b"[]", b'{"x": []}', b'{"0": [1]}', b'{"0": [["a", 1]]}']


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"0": [[1, 0]]}', b'{"erased": 1, "rows": {}}', b'{"erased": "", "rows": {}, "more": 1}']
    + [b'{"erased": "", "rows": %b}' % rows for rows in DAMAGED],
)
def test_a_damaged_list_of_forgotten_rows_stops_everything(store: Store, tmp_path: Path, content: bytes) -> None:
    """To go on without it would bring the rows back."""
    (tmp_path / "archive" / "forgotten.json").write_bytes(content)
    with pytest.raises(StateError, match=r"forgotten\.json in the archive .* cannot be used"):
        store.forgotten()


def test_lost_parents_are_made_again_byte_for_byte() -> None:
    made = recorded(stream(8 * SPAN), config())
    by_node = dict(zip(nodes(made), made, strict=True))
    left = {node: bucket for node, bucket in by_node.items() if node.level == 1}
    while pairs := missing_parents(list(left)):
        again = [parent_of(left[older], left[newer], 0, config()) for older, newer in pairs]
        left |= dict(zip(nodes(again), again, strict=True))
    assert left.keys() == by_node.keys()


def node(level: int, number: int) -> Node:
    rows = SPAN << level - 1
    return Node(
        partition=0,
        base=BASE,
        start=Position(number * rows),
        end=Position((number + 1) * rows),
        level=level,
        number=number,
        first_time_ms=number * rows,
        last_time_ms=(number + 1) * rows - 1,
        sha256=f"{level:032x}{number:032x}",
    )


def tree(leaves: int) -> list[Node]:
    """Every bucket of so many spans."""
    return [node(level, number) for level in range(1, 12) for number in range(leaves >> level - 1)]


@given(st.integers(0, 40), st.integers(0, 41 * SPAN), st.integers(0, 41 * SPAN), st.sets(st.integers(0, 79)))
def test_a_cover_is_of_exactly_the_range(leaves: int, one: int, other: int, missing: set[int]) -> None:
    """Whatever is missing: parts follow one another from its first to its last row, and no two reads do."""
    start, end = sorted((one, other))
    there = [found for place, found in enumerate(tree(leaves)) if place not in missing]
    steps = cover(there, Position(start), Position(end))
    borders = [Position(start), *(step.end for step in steps)]
    assert borders == [*(step.start for step in steps), Position(end)]
    assert not any(isinstance(a, Read) and isinstance(b, Read) for a, b in itertools.pairwise(steps))
    assert all(step in there for step in steps if isinstance(step, Node))


@given(st.integers(0, 60), st.integers(0, 60 * SPAN), st.integers(0, 60 * SPAN))
def test_a_complete_tree_covers_with_few_buckets(leaves: int, one: int, other: int) -> None:
    """Two a level at most, and a read at each border at most, of less than a span; no whole span in one read."""
    start, end = sorted((min(one, leaves * SPAN), min(other, leaves * SPAN)))
    steps = cover(tree(leaves), Position(start), Position(end))
    reads = [step for step in steps if isinstance(step, Read)]
    assert len(reads) <= 2
    for read in reads:
        assert -(-read.start.offset // SPAN) >= read.end.offset // SPAN
    for level in range(1, 12):
        assert sum(isinstance(step, Node) and step.level == level for step in steps) <= 2


def test_what_is_left_of_ranges_without_others() -> None:
    a, b, c, d = (Position(at) for at in (10, 20, 30, 40))
    assert without([(a, d)], [(b, c)]) == [(a, b), (c, d)]
    assert without([(a, b), (c, d)], [(a, d)]) == []
    assert without([(a, c)], [(b, d)]) == [(a, b)]
    assert without([(b, d)], [(a, c), (c, c)]) == [(c, d)]
    assert without([(a, b)], [(c, d)]) == [(a, b)]


def test_the_shortest_buckets_stand_for_each_row_once() -> None:
    there = [found for found in tree(8) if found not in (node(1, 2), node(1, 3), node(2, 1))]
    assert spans(there) == [node(1, 0), node(1, 1), *(node(1, number) for number in range(4, 8))]
    assert spans([found for found in tree(8) if found.level > 1 or found.number > 3]) == [
        node(2, 0),
        node(2, 1),
        *(node(1, number) for number in range(4, 8)),
    ]


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(1, 50), st.integers(-1, 2**62))
def test_names_read_back(offset: int, row: int, level: int, time_ms: int) -> None:
    made = replace(node(level, 3), base=Position(0), start=Position(offset, row), end=Position(offset, row + 1))
    made = replace(made, first_time_ms=time_ms, last_time_ms=time_ms)
    assert Node.parse(made.name) == made
    assert len(made.name) < 255 - len(".partial")


@pytest.mark.parametrize(
    "name", ["archive.json", "open-0.state", "lock", "0_0.0_0.0_0.0_1_0_0_0_" + "0" * 64 + ".bucket"]
)
def test_other_names_are_no_buckets(name: str) -> None:
    assert Node.parse(name) is None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    disk = FileSystem(tmp_path / "archive")
    disk.lock()
    yield Store(disk)
    disk.unlock()


def test_a_file_that_is_not_what_its_name_says_is_refused(store: Store, tmp_path: Path) -> None:
    made = recorded(stream(2 * SPAN), config())
    store.save([(0, BASE, bucket) for bucket in made], {})
    first, second, *_ = [found for found in store.nodes() if found.level == 1]
    files = tmp_path / "archive"
    whole = (files / first.name).read_bytes()
    for damaged, what in (
        (whole[:-1], "checksum"),
        (b"", "only 0 bytes"),
        ((files / second.name).read_bytes(), "name says"),
    ):
        (files / first.name).write_bytes(damaged)
        with pytest.raises(CorruptCheckpoint, match=what):
            store.read(first)
    (files / first.name).unlink()
    with pytest.raises(CorruptCheckpoint, match="cannot be read"):
        store.read(first)
    assert encode_bucket(store.read(second)).name.sha256 == second.sha256


def test_a_damaged_state_is_refused(store: Store, tmp_path: Path) -> None:
    recorder = Recorder(0, BASE, config(), BASE, 0)
    recorder.learn(stream(SPAN + LEAF + 4))
    assert recorder.state is not None
    store.save([], {0: (BASE, recorder.state)})
    file = tmp_path / "archive" / "open-0.state"
    whole = file.read_bytes()
    for stop in range(0, len(whole), 101):
        file.write_bytes(whole[:stop])
        with pytest.raises(CorruptCheckpoint):
            store.state(0)
    file.write_bytes(whole)
    assert store.state(0) is not None
    assert store.state(1) is None


def identity(**changed: object) -> Identity:
    return replace(Identity(name="m", topic="t", topic_id="i", config=config(), base={0: BASE}), **changed)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"name": "other"}, "is of the model m, not other"),
        ({"topic": "u"}, "is of the topic t, not u"),
        ({"topic_id": "j"}, "is of the topic id i, not j"),
        ({"config": config(alpha=1e-2)}, "the configuration of buckets"),
    ],
)
def test_an_archive_of_something_else_is_refused(store: Store, changed: dict[str, object], what: str) -> None:
    store.claim(identity())
    assert store.identity() == identity()
    with pytest.raises(StateError, match=what):
        store.claim(identity(**changed))
    store.claim(identity(base={0: Position(5)}))
    assert store.identity() == identity(base={0: Position(5)})


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"format": "streamsvm.archive/2"}', b'{"format":"streamsvm.archive/1"}']
)
def test_a_damaged_identity_is_refused(store: Store, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "archive" / "archive.json").write_bytes(content)
    with pytest.raises(StateError, match=r"archive\.json in the archive .* cannot be used"):
        store.identity()


def test_a_disk_that_refuses_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: FileSystem, name: str, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FileSystem, "write", full)
    with pytest.raises(TransientError, match="cannot be written: No space left on device"):
        store.claim(identity())
