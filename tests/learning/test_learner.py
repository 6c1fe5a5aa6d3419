"""The learner: a pure function of the log, whatever the batches."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from streamsvm.checkpoint import format as checkpoint_codec
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.coreset import Moments
from streamsvm.learning.learner import Cut, Learner, LearnerState, TakenCut
from streamsvm.points import Points, Position, Rows
from tests.streams import gaussian, rows_of, small_config, snapshot_of

REDUCERS = ("calibrated", "uniform")
STRUCTURES = ("tree", "chain")


def shape(structure: str, reducer: str) -> str:
    """Return the structure whose buckets merge in that way by any reducer."""
    return "counter" if structure == "tree" and reducer != "calibrated" else structure


def learner(base: dict[int, Position] | None = None, every: int = 2, **coreset: object) -> Learner:
    return Learner(small_config(**coreset), base or {0: Position(0)}, every)


def state_bytes(held: Learner) -> bytes:
    """Encode the whole state: what a checkpoint would hold, byte for byte."""
    return checkpoint_codec.encode(snapshot_of(held.state()))


def audit_bytes(cut: Cut) -> list[tuple[str, float, bytes]]:
    return [(part.points.sha256(), part.threshold, part.class_weight.tobytes()) for part in cut.audit]


def feed(held: Learner, rows: Rows, borders: list[int]) -> list[Cut]:
    """Offer rows in batches that end at `borders`, taking every cut that falls due."""
    cuts = []
    for start, stop in zip([0, *borders], [*borders, len(rows)], strict=True):
        batch = rows.slice(start, stop)
        done = 0
        while done < len(batch) or held.cut_due:
            if held.cut_due:
                cuts.append(held.cut())
            done += held.learn(batch.slice(done, len(batch))) if done < len(batch) else 0
    return cuts


def check_batches(make: Callable[[], Learner], rows: Rows, borders: list[int]) -> Learner:
    """Assert that batches give the bytes and the cuts of the whole stream at once, and return what learned it so."""
    whole, cut_up = make(), make()
    cuts, others = feed(whole, rows, []), feed(cut_up, rows, borders)
    assert state_bytes(whole) == state_bytes(cut_up)
    assert [cut.positions for cut in cuts] == [cut.positions for cut in others]
    assert [cut.points.sha256() for cut in cuts] == [cut.points.sha256() for cut in others]
    assert [cut.leader_epochs for cut in cuts] == [cut.leader_epochs for cut in others]
    assert [audit_bytes(cut) for cut in cuts] == [audit_bytes(cut) for cut in others]
    return whole


def check_restart(make: Callable[[], Learner], rows: Rows, at: int) -> None:
    """Assert that a learner that stops at a row and goes on from its bytes has the bytes of one that did not stop."""
    straight, first, again = make(), make(), make()
    feed(straight, rows, [])
    feed(first, rows.slice(0, at), [])
    again.restore(checkpoint_codec.decode(state_bytes(first)).learner)
    feed(again, rows.slice(at, len(rows)), [])
    assert state_bytes(again) == state_bytes(straight)


@pytest.mark.long(keep=("calibrated-tree", "uniform-chain"))  # the default reducer, and the plain one
@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 200))
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("reducer", REDUCERS)
def test_batches_do_not_matter(reducer: str, structure: str, data: st.DataObject, n: int) -> None:
    """The same stream cut into any batches gives the same structure, leaf, moments and cuts, byte for byte."""
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1).filter(lambda c: sum(c) <= n))
    counts = np.array([*counts, *([1] * (n - sum(counts)))], np.int64)
    accepted = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    rows = rows_of(gaussian(n), accepted=accepted, record_rows=counts)
    borders = sorted(data.draw(st.lists(st.integers(0, n), max_size=10)))
    check_batches(lambda: learner(structure=shape(structure, reducer), reducer=reducer, train_points=9), rows, borders)


@pytest.mark.long(keep=("calibrated-tree", "uniform-chain"))  # the default reducer, and the plain one
@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 150), again_from=st.integers(0, 150))
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("reducer", REDUCERS)
def test_a_restored_learner_goes_on_as_if_never_stopped(reducer: str, structure: str, at: int, again_from: int) -> None:
    """Encode, decode, and read again from an earlier row: the same bytes as without a stop."""
    rows = rows_of(gaussian(150), record_rows=np.full(50, 3))
    options = {"reducer": reducer, "structure": shape(structure, reducer), "train_points": 9}
    straight, first, again = (learner(**options) for _ in range(3))
    expected = feed(straight, rows, [])
    cuts = feed(first, rows.slice(0, at), [])
    again.restore(checkpoint_codec.decode(state_bytes(first)).learner)
    cuts += feed(again, rows.slice(min(again_from, at), 150), [])
    assert state_bytes(again) == state_bytes(straight)
    assert [cut.positions[0] for cut in cuts] == [Position(*divmod(n, 3)) for n in range(16, 151, 16)]
    assert [cut.points.sha256() for cut in cuts] == [cut.points.sha256() for cut in expected]
    assert [audit_bytes(cut) for cut in cuts] == [audit_bytes(cut) for cut in expected]


def test_a_row_offered_twice_is_learned_once() -> None:
    """Rows before the position are passed over."""
    rows = rows_of(gaussian(20))
    held = learner()
    held.learn(rows.slice(0, 12))
    assert held.learn(rows.slice(0, 12)) == 12
    assert held.points_accepted == 12


def test_rejected_rows_move_the_leaf_border_but_hold_no_memory() -> None:
    """A leaf seals by rows seen; rejected rows leave no point and no moment behind."""
    points = gaussian(8)
    accepted = np.array([True, False] * 4)
    held = learner(every=1)
    held.learn(rows_of(points, accepted=accepted))
    assert held.cut_due
    cut = held.cut()
    assert cut.learned.rows == 8
    assert cut.moments.count == len(cut.points) == 4
    np.testing.assert_array_equal(cut.points.X, points.X[accepted])


def test_a_leaf_of_rejected_rows_makes_no_cut() -> None:
    """Without a single valid point there is nothing to train on, and nothing falls due."""
    held = learner(every=1)
    assert held.learn(rows_of(gaussian(24), accepted=np.zeros(24, np.bool_))) == 24
    assert not held.cut_due


def test_until_stops_learning_inside_a_record() -> None:
    """Replay goes exactly as far as the newest version's cut."""
    rows = rows_of(gaussian(12), record_rows=np.array([4, 4, 4]))
    held = learner(leaf_rows=100)
    assert held.learn(rows, until=Position(1, 2)) == 6
    assert held.positions == {0: Position(1, 2)}


def test_cut_is_the_union_in_partition_order() -> None:
    """Partitions contribute in ascending order, whichever was read first."""
    a, b = gaussian(8, seed=1), gaussian(8, seed=2)
    one, other = (learner({0: Position(0), 1: Position(0)}, every=2) for _ in range(2))
    for held, order in ((one, (0, 1)), (other, (1, 0))):
        for partition in order:
            held.learn(rows_of((a, b)[partition], partition))
    assert one.cut().points.sha256() == other.cut().points.sha256()
    np.testing.assert_array_equal(one.cut().moments.mean, other.cut().moments.mean)


def test_a_cut_carries_the_audit_sample_of_its_moment() -> None:
    """Points of the whole stream up to the cut, half of each label, with each one's exact weight; then it is fixed."""
    a, b = gaussian(60, seed=1), gaussian(5, seed=2)
    held = learner({0: Position(0), 1: Position(0), 2: Position(0)}, every=100)
    held.learn(rows_of(a.take(slice(40))))
    held.learn(rows_of(b, 1))
    held.call_for_cut()
    cut = held.cut()
    before = audit_bytes(cut)
    held.learn(rows_of(a.take(slice(40, 60)), first_offset=40))
    assert audit_bytes(cut) == before
    assert [len(part.points) for part in cut.audit] == [4, 3, 2, 3, 0, 0]
    assert [part.threshold > 0.0 for part in cut.audit] == [True, True, False, False, False, False]
    for part, label in zip(cut.audit[:2], (-1, 1), strict=True):
        assert set(part.points.y) == {label}
        assert {row.tobytes() for row in part.points.X} <= {row.tobytes() for row in a.X[:40]}
        own = [a.weight[:40][a.y[:40] == s].sum() * (s == label) for s in (-1, 1)]
        np.testing.assert_allclose(part.class_weight, own)
    assert cut.points_held == len(cut.points) + 12
    assert (
        held.points_held
        == held.audit_points
        + sum(len(bucket.points) for buckets in held.buckets().values() for bucket in buckets)
        + (60 % 8)
        + 5
    )


def test_the_audit_sample_has_no_part_in_the_training_set() -> None:
    """Without it, and at any size, the coreset is the same to the byte."""
    cuts = [feed(learner(audit_points=n, train_points=9), rows_of(gaussian(100)), []) for n in (0, 7, 1000)]
    assert len({tuple(cut.points.sha256() for cut in one) for one in cuts}) == 1
    assert [len(one[-1].audit) for one in cuts] == [0, 2, 2]


@settings(max_examples=30, deadline=None)
@given(memory=st.integers(60, 400), partitions=st.integers(1, 3), n=st.integers(100, 700))
@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_more_points_are_held_than_the_memory_allows(structure: str, memory: int, partitions: int, n: int) -> None:
    """Buckets and leaves of all partitions together, at any moment; and a chain fills what it is given."""
    coreset = CoresetConfig(structure=structure, points=memory)
    config = ModelConfig(points=PointsConfig(dimension=3), coreset=coreset)
    held = Learner(config, {partition: Position(0) for partition in range(partitions)}, 1 << 40)
    most = 0
    for partition in range(partitions):
        rows = rows_of(gaussian(n), partition)
        for row in range(n):
            held.learn(rows.slice(row, row + 1))
            most = max(most, held.points_held)
    assert most <= memory * partitions
    if structure == "chain" and partitions == 1 and n >= 2 * memory:
        assert most >= memory - 2


def test_moments_of_a_cut_are_those_of_all_points() -> None:
    """Count, weights, mean and variance agree with numpy over the raw stream, though few points are kept."""
    points = gaussian(500)
    held = learner(every=1)
    cuts = feed(held, rows_of(points), [])
    cut = cuts[-1]
    n = cut.learned.rows
    assert n == 496
    assert len(cut.points) < 64
    weight = points.weight[:n]
    np.testing.assert_allclose(cut.moments.mean, np.average(points.X[:n].astype(float), axis=0, weights=weight))
    expected = np.average((points.X[:n] - cut.moments.mean) ** 2, axis=0, weights=weight)
    np.testing.assert_allclose(cut.moments.square / cut.moments.weight, expected, rtol=1e-9)
    np.testing.assert_allclose(cut.moments.class_weight, [weight[points.y[:n] == s].sum() for s in (-1, 1)])


@pytest.mark.parametrize("reducer", REDUCERS)
def test_a_cut_is_reduced_to_the_training_bound(reducer: str) -> None:
    """A union beyond train_points is reduced to no more; the uniform reducer keeps its weight exactly."""
    held = learner(every=15, train_points=10, reducer=reducer)
    cut = feed(held, rows_of(gaussian(120)), [])[0]
    assert 1 <= len(cut.points) <= 10
    if reducer == "uniform":
        assert len(cut.points) == 10
        assert cut.points.weight.sum() == pytest.approx(cut.moments.weight)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides(seed: int) -> None:
    """Another seed gives another sample; the same one the same."""
    config = small_config().model_copy(update={"seed": seed})
    made = []
    for chosen in (config, small_config()):
        held = Learner(chosen, {0: Position(0)}, 100)
        held.learn(rows_of(gaussian(100)))
        made.append(state_bytes(held))
    assert made[0] != made[1]


def test_a_stream_sorted_by_label_is_learned() -> None:
    """Leaves of one label only are sampled by weight; nothing but finite positive weights comes out."""
    points = gaussian(160)
    order = np.argsort(points.y, kind="stable")
    held = learner(every=5, train_points=9)
    for cut in feed(held, rows_of(points.take(order)), []):
        assert np.isfinite(cut.points.weight).all()
        assert (cut.points.weight > 0).all()


@pytest.mark.parametrize(("by_class", "reducer"), [(False, "calibrated"), (True, "calibrated"), (True, "uniform")])
def test_a_stream_sorted_by_label_is_noticed(by_class: bool, reducer: str) -> None:
    """Reductions without a pilot are counted over all partitions; a shuffled stream has none."""
    points = gaussian(800)
    order = np.argsort(points.y, kind="stable") if by_class else np.arange(800)
    held = learner({0: Position(0), 1: Position(0)}, 10_000, reducer=reducer, leaf_rows=50, bucket_points=40)
    for partition in (0, 1):
        held.learn(rows_of(points.take(order[:753]), partition))
    # Of a leaf that has just begun nothing is said, however few points it has.
    found = held.cut().observed
    assert found is not None
    assert not found.uncalibrated
    counts = held.observed().counts()
    assert (sum(counts.values()) > 30) == (reducer == "calibrated")
    assert (counts["by_weight"] > 0) == (by_class and reducer == "calibrated")


def test_constant_features_are_learned() -> None:
    """Every feature constant: distances are 0, both labels are kept by weight."""
    points = gaussian(160)
    flat = Points(np.full_like(points.X, 3.0), points.y, points.weight)
    cut = feed(learner(every=20), rows_of(flat), [])[0]
    assert np.isfinite(cut.points.weight).all()


def test_uniform_solves_no_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reducer that needs none costs none."""

    def fail(*_: object) -> None:
        raise AssertionError("a pilot was solved")

    monkeypatch.setattr("streamsvm.coreset.pilot.solved", fail)
    feed(learner(every=2, reducer="uniform", train_points=9), rows_of(gaussian(100)), [])
    with pytest.raises(AssertionError, match="a pilot was solved"):
        feed(learner(every=2, train_points=9), rows_of(gaussian(100)), [])


def test_a_cut_can_be_called_for() -> None:
    """It is due at once where anything is sealed, and never before there is something to train on."""
    held = learner(every=100)
    held.call_for_cut()
    assert not held.cut_due
    held.learn(rows_of(gaussian(200)))
    assert not held.cut_due
    held.call_for_cut()
    assert held.cut_due
    held.cut()
    assert not held.cut_due


COMPILED_LATER = """
import importlib, pkgutil, sys
import numpy as np
from numba.core.dispatcher import Dispatcher
import streamsvm
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.learning.learner import Learner, warm_up
from streamsvm.points import Position
from streamsvm.learning.training import train
from tests.streams import gaussian, rows_of

reducer, structure, kernel = sys.argv[1:]
points = gaussian(4_000)
config = ModelConfig(
    points=PointsConfig(dimension=points.dimension),
    coreset=CoresetConfig(reducer=reducer, structure=structure, points=1_650, train_points=200),
    svm=SvmConfig(kernel=kernel),
)
warm_up(config)
modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(streamsvm.__path__, "streamsvm.")]
parts = {
    f"{part.py_func.__module__}.{part.py_func.__name__}": part
    for module in modules for part in vars(module).values() if isinstance(part, Dispatcher)
}
before = {name: len(part.signatures) for name, part in parts.items()}
learner, rows = Learner(config, {0: Position(0)}, 1_000), rows_of(points)
learner.learn(rows)
cut = learner.cut()
train(cut.points, cut.moments, config.svm)
print(len(parts), [name for name, part in parts.items() if len(part.signatures) > before[name]])
"""


@pytest.mark.long(keep=("calibrated-*",))
@pytest.mark.parametrize(
    ("reducer", "structure", "kernel"),
    [("calibrated", "tree", "linear"), ("calibrated", "chain", "rbf"), ("uniform", "counter", "linear")],
)
def test_warming_up_leaves_nothing_to_compile(reducer: str, structure: str, kernel: str) -> None:
    """In a fresh process, learning, a cut and a training after `warm_up` compile nothing more."""
    command = [sys.executable, "-c", COMPILED_LATER, reducer, structure, kernel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parts, compiled = done.stdout.split(maxsplit=1)
    assert int(parts) > 20
    assert compiled.strip() == "[]"


SCREENED = {"reducer": "calibrated", "leaf_rows": 64, "bucket_points": 48, "train_points": 90, "audit_points": 20}
"""Leaves are screened from the tenth on, and thinned."""


@settings(max_examples=15, deadline=None)
@given(taken_at=st.lists(st.integers(1, 2_400), min_size=1, max_size=4, unique=True))
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_cut_that_is_made_later_is_the_one_that_was_taken(structure: str, taken_at: list[int]) -> None:
    """Whatever is learned in between, sealed, merged, screened or thinned: the same bytes as made at once."""
    points = gaussian(2_400)
    points.X[7], points.X[500] = 1e6, -1e6
    rows = rows_of(points), rows_of(gaussian(1_200, seed=4), 1)
    held = learner(dict.fromkeys((0, 1), Position(0)), 1 << 30, structure=structure, **SCREENED)
    pairs, begin = [], 0
    for at in [*sorted(taken_at), 2_400]:
        for part in rows:
            held.learn(part.slice(min(begin, len(part)), min(at, len(part))))
        begin = at
        taken = held.take()
        pairs.append((taken, whole(held.cut()), checkpoint_codec.encode(snapshot_of(held.state()))))
    for taken, expected, state in reversed(pairs):
        saved = taken.saved()
        assert isinstance(saved, LearnerState)
        assert checkpoint_codec.encode(snapshot_of(saved)) == state
        assert whole(TakenCut(saved.partitions, held._config).make()) == expected
        assert whole(taken.make()) == expected
        assert taken.saved() is taken.make()


def whole(cut: Cut) -> tuple[object, ...]:
    """Return everything of a cut, comparable."""
    moments = [part.tobytes() for part in (cut.moments.class_weight, cut.moments.mean, cut.moments.square)]
    facts = (dict(cut.positions), dict(cut.leader_epochs), cut.learned.rows, cut.learned.first_time_ms)
    return (*facts, cut.moments.count, moments, cut.points.sha256(), audit_bytes(cut))


def test_what_a_cut_keeps_besides_the_learner_is_counted() -> None:
    """Nothing when it is taken; then what is merged or changed since; and the cut itself once it is made."""
    held = learner(every=1 << 30, structure="chain", reducer="uniform", leaf_rows=50, bucket_points=30, audit_points=10)
    rows = rows_of(gaussian(300))
    held.learn(rows.slice(0, 120))
    taken = held.take()
    assert held.points_beyond(taken) == 10, "the audit sample was copied before it could change"
    held.learn(rows.slice(120, 160))
    assert held.points_beyond(taken) == 30 + 20 + 10, "bucket, open leaf and audit sample are its own by now"
    cut = taken.make()
    assert held.points_beyond(taken) == cut.points_held == 30 + 20 + 10
    kept = weakref.ref(held.buckets()[0][0].points.X)
    taken = held.take()
    held.learn(rows.slice(160, 300))
    assert kept() is not None
    taken.make()
    gc.collect()
    assert kept() is None, "a cut that is made lets go of what it was made from"


@pytest.mark.parametrize("cut_at", [30, 700, 2_000])
def test_a_witness_sees_what_came_and_what_is_learned(cut_at: int) -> None:
    """Valid points as they came and within their bounds, each once, in order: of a first leaf, too, open or sealed."""
    points = gaussian(cut_at, 5)
    points.X[11, 0], points.X[-5, 1] = 1e9, -1e9
    held, seen = learner(every=10**6, leaf_rows=200), list[tuple[Points, Points]]()
    held.show({0: lambda came, within: seen.append((Points.union([came]), Points.union([within])))})
    feed(held, rows_of(points), sorted(np.random.default_rng(3).integers(0, cut_at, 9).tolist()))
    moments = held.cut().moments
    held.show_open()
    came, shown = (Points.union(each) for each in zip(*seen, strict=True))
    assert np.array_equal(came.X, points.X)
    assert np.array_equal(shown.y, points.y)
    assert np.abs(shown.X).max() < 1e6
    untouched = np.abs(points.X).max(axis=1) < 1e8
    assert np.array_equal(shown.X[untouched], points.X[untouched])
    own = Moments.zero(points.dimension).add(shown)
    assert own.count == moments.count
    assert np.allclose(own.mean, moments.mean, rtol=1e-12)
    assert np.allclose(own.square, moments.square, rtol=1e-9)
