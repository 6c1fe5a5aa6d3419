"""A stream's own tail is learned as it came, a stranger is left out, and no batch or restart tells which is which."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.checkpoint import format as codec
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset.moments import Moments
from streamsvm.coreset.outliers import OutlierBounds
from streamsvm.coreset.own_tail import RANKS, REPEATED, Extremes, Float
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Origin, make, version_of
from streamsvm.points import Points, Position
from tests.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of, snapshot_of

LEAF: int = 1_000
NOWHERE = 1 << 40


def learner_of(leaf_rows: int = LEAF, structure: str | None = "tree", **more: object) -> Learner:
    coreset = sized(
        **{
            "leaf_rows": leaf_rows,
            "bucket_points": leaf_rows,
            "structure": structure,
            "train_points": 1_000_000,
            **more,
        }
    )
    config = ModelConfig(points=PointsConfig(dimension=DIMENSION), coreset=coreset, svm=SvmConfig(alpha=1e-4))
    return Learner(config, {0: Position(0)}, every_leaves=NOWHERE)


def calm(n: int) -> Points:
    points = gaussian(n)
    points.weight[:] = 1.0
    return points


def held_beyond(points: Points, feature: int, distance: float) -> list[float]:
    """Return the values of a feature that lie farther than so much, in ascending order."""
    values = points.X[:, feature]
    return sorted(values[np.abs(values) > distance].tolist())


@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_spikes_come_in_as_they_are_once_there_are_enough(structure: str) -> None:
    """One a leaf: the first ten are left out of every cut, and with the eleventh all are in the training set."""
    points = calm(20 * LEAF)
    spikes = 500 + LEAF * np.arange(1, 12)
    points.X[spikes, 1] = np.linspace(100.0, 300.0, len(spikes))
    learner, rows = learner_of(structure=structure), rows_of(points)
    for place, at in enumerate(spikes.tolist(), 1):
        learner.learn(rows, until=Position(at + 1))
        cut = learner.cut()
        wanted = sorted(points.X[spikes[:place], 1].tolist()) if place > REPEATED else []
        assert held_beyond(cut.points, 1, 50.0) == wanted
        assert cut.left_out == (0 if wanted else place)
        assert cut.moments.count == at + 1
        assert cut.learned.count == learner.points_accepted == at + 1
    learner.learn(rows)
    cut = learner.cut()
    assert cut.left_out == 0
    assert cut.moments.count == 20 * LEAF
    spread = np.sqrt(cut.moments.square / cut.moments.weight)
    assert spread[1] == pytest.approx(points.X[:, 1].astype(np.float64).std(), rel=1e-9)


def test_a_heavy_tail_keeps_every_bit() -> None:
    """Of Cauchy's distribution: the same training set and moments as without a bound, wherever the cut is."""
    points = calm(10 * LEAF)
    points.X[:, 1] = np.random.default_rng(3).standard_cauchy(len(points))
    bounded, free = learner_of(), learner_of(max_leverage=None)
    for learner in (bounded, free):
        learner.learn(rows_of(points))
    assert bounded.cut().left_out == 0
    largest = held_beyond(free.cut().points, 1, 500.0)
    assert len(largest) > 3
    assert held_beyond(bounded.cut().points, 1, 500.0) == largest


@pytest.mark.parametrize("at", [5, LEAF - 1, 3 * LEAF])
@pytest.mark.parametrize("tail", [False, True])
def test_a_stranger_is_left_out_and_named(at: int, *, tail: bool) -> None:
    """A lone row at 1e30, with or without a heavy tail of others; the version says how many rows it is without."""
    points = calm(5 * LEAF)
    if tail:
        points.X[:, 1] = np.random.default_rng(1).standard_cauchy(len(points))
    points.X[at, 1] = 1e30
    learner = learner_of()
    learner.learn(rows_of(points))
    cut = learner.cut()
    assert np.abs(cut.points.X).max() < 1e20
    assert cut.moments.square.max() < 1e40
    assert (cut.left_out, cut.moments.count) == (1, len(points))
    config = learner._config
    origin = Origin(name="m", number=1, parent=None, links=(), topic="t", topic_id="", base={0: Position(0)}, build={})
    left_out = version_of(make(cut, config), config, origin).lineage.left_out
    assert left_out is not None
    assert (left_out.rows, left_out.max_leverage) == (1, 0.1)


@pytest.mark.parametrize(("count", "left_out"), [(REPEATED, REPEATED), (REPEATED + 1, 0)])
@pytest.mark.parametrize("first", [0, 2 * LEAF])
def test_ten_equal_outliers_are_strangers_and_eleven_are_not(count: int, left_out: int, first: int) -> None:
    """In a first leaf as later."""
    points = calm(5 * LEAF)
    points.X[first + 20 * np.arange(count), 0] = 1e6
    learner = learner_of()
    learner.learn(rows_of(points))
    assert learner.cut().left_out == left_out
    assert len(held_beyond(learner.cut().points, 0, 1e5)) == count - left_out


def test_a_heavy_row_counts_as_ten() -> None:
    """Its features are nobody's outliers, so that it stays in the training set, under ten mean weights."""
    points = calm(5 * LEAF)
    points.weight[3 * LEAF] = 1e15
    learner = learner_of()
    learner.learn(rows_of(points))
    cut = learner.cut()
    assert cut.left_out == 0
    assert cut.moments.weight == pytest.approx(5 * LEAF - 1 + 10.0, rel=1e-9)
    assert cut.points.weight.sum() == pytest.approx(cut.moments.weight, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    borders=st.lists(st.integers(1, 599), max_size=6),
    restart=st.integers(0, 599),
    structure=st.sampled_from(["tree", "chain"]),
)
def test_neither_batches_nor_a_checkpoint_change_what_waits(borders: list[int], restart: int, structure: str) -> None:
    """The same states and cuts, bit by bit, from a checkpoint's bytes anywhere."""
    points = calm(600)
    points.X[20::45, 1] = 100.0 + 10.0 * np.arange(len(points.X[20::45]))
    points.X[[7, 333], 0] = 1e25
    points.weight[[90, 180]] = 1e9
    accepted = np.arange(600) % 11 != 3
    rows, whole, learner = (rows_of(points, accepted=accepted), *(learner_of(40, structure) for _ in range(2)))
    whole.learn(rows)
    for start, stop in itertools.pairwise(sorted({0, 600, restart, *borders})):
        if start == restart:
            state = codec.decode(codec.encode(snapshot_of(learner.state()))).learner
            learner = learner_of(40, structure)
            learner.restore(state)
        learner.learn(rows.slice(start, stop))
    one, other = whole.cut(), learner.cut()
    assert one.points.sha256() == other.points.sha256()
    assert one.moments.square.tobytes() == other.moments.square.tobytes()
    assert one.left_out == other.left_out > 0
    assert codec.encode(snapshot_of(whole.state())) == codec.encode(snapshot_of(learner.state()))


@pytest.mark.parametrize("tail", ["spikes", "cauchy"])
def test_an_audit_is_of_rows_as_they_are_learned(tail: str) -> None:
    """One of all rows is of those that came, however long they waited, but for a stranger: so bounds miss nothing."""
    points = calm(4 * LEAF)
    if tail == "spikes":
        points.X[500::97, 1] = np.linspace(1e4, 3e4, len(points.X[500::97]))
    else:
        points.X[:, 1] = np.random.default_rng(1).standard_cauchy(len(points))
    points.X[[7, 2_500], 0] = 1e25
    learner, wanted = learner_of(200, "chain", audit_points=len(points), audit_by_label=False), points.X[:, 1]
    learner.learn(rows_of(points))
    cut = learner.cut()
    (sample,) = cut.audit
    assert cut.left_out == 2
    assert sorted(sample.points.X[:, 1].tolist()) == sorted(wanted.tolist())
    assert np.abs(sample.points.X[:, 0]).max() < 1e20


def test_what_waits_is_judged_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand strangers among four thousand rows are no thousand passes over all of them."""
    random = np.random.default_rng(0)
    known = Points(random.normal(size=(2_000, 3)).astype(np.float32), np.ones(2_000, np.int8), np.ones(2_000))
    bounds = OutlierBounds.of(Moments.zero(3).add(known), [known], 0.1)
    points = calm(4_000)
    points.X[::2, 1] = (10.0 ** random.uniform(3, 37, 2_000)).astype(np.float32)
    asked, repeat = list[int](), Extremes.repeat

    def counted(self: Extremes, away: Float, *more: Any) -> Any:
        asked.append(len(away))
        return repeat(self, away, *more)

    monkeypatch.setattr(Extremes, "repeat", counted)
    judged = bounds.sort_out(points, None, None, 1_000)
    assert judged.waits is not None
    assert sum(asked) < 4 * 2_000
    by_one, waiting = list[int](), points.take(slice(0, 0))
    for row in range(0, 4_000, 2):
        alone = bounds.sort_out(points.take(slice(row, row + 1)), None, waiting, 1_000)
        if alone.waits is not None:
            by_one.append(row)
            waiting = Points.union([waiting, points.take(slice(row, row + 1))])
    assert judged.waits.tolist() == by_one


def test_only_the_farthest_known_rows_are_kept_ranked() -> None:
    """Whole columns would take more memory than the points; where the others matter, they are looked at again."""
    X = np.zeros((20_000, 2))
    X[:100, 1], X[100:120, 1] = 1e6, 20.0
    held = Points(X, np.ones(20_000, np.int8), np.ones(20_000))
    extremes = Extremes(np.zeros(2), np.array([0.0, 50.0]), 20_000, 1.0, [held])
    away = np.array([[30.0, 20.0, 0.0], [5e4, 30.0, 0.0], [1.0, 1e6, 0.0]])
    own = extremes.repeat(away, away > 0.0, np.empty((0, 3)))
    assert own.tolist() == [[False, True, False], [False, False, False], [False, True, False]]
    assert [len(column._distance) for column in extremes._columns.values()] == [RANKS[-1], RANKS[-1]]


def test_nothing_waits_for_the_next_span() -> None:
    """A memory that forgets judges at the end of each span; what is strange then is in totals only."""
    points = calm(8 * LEAF)
    points.X[[600, 4_500], 1] = 1e9
    learner = learner_of(200, None, memory="adaptive", span_rows=1_600)
    learner.learn(rows_of(points))
    (state,) = learner.state().partitions.values()
    assert state.waiting is None
    assert state.learned.count == len(points)
    assert max(np.abs(bucket.points.X).max() for bucket in state.buckets) < 100.0


def test_a_normal_distribution_reaches_no_farther() -> None:
    """Its ranks fall slowly, and nothing is near a value outside of its body."""
    random = np.random.default_rng(0)
    X = random.standard_normal((20_000, 2)).astype(np.float32)
    X[:, 1] = random.standard_cauchy(20_000)
    held = Points(X, np.ones(20_000, np.int8), np.ones(20_000))
    extremes = Extremes(np.zeros(2), np.array([10.0, 1_000.0]), 20_000, 1.0, [held])
    asked = np.array([[True, True, False]])
    away = np.array([[30.0, 5e4, 0.0]])
    assert extremes.repeat(away, asked, np.empty((0, 3))).tolist() == [[False, True, False]]
