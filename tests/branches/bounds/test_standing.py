"""Bounds that a version has of its own totals: they hold, cost nothing of what is learned, and survive restarts."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC

from streamsvm.branches.bounds import certified as header
from streamsvm.branches.bounds import totals
from streamsvm.branches.bounds.certified import Certified
from streamsvm.branches.bounds.epochs import Epoch, merged
from streamsvm.branches.bounds.frames import seen_from
from streamsvm.branches.bounds.proving import certified
from streamsvm.checkpoint import format as codec
from streamsvm.checkpoint.records import decode_bucket, decode_partition, encode_bucket, encode_partition
from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import CorruptCheckpoint
from streamsvm.estimators.coresetsvc import CoresetSVC
from streamsvm.learning.cutting import Cut
from streamsvm.learning.learner import Learner
from streamsvm.learning.partition_state import PartitionState
from streamsvm.learning.recipe import Made, make
from streamsvm.model.fit import Audit
from streamsvm.model.machine import LinearMachine
from streamsvm.model.version_bounds import read_bounds
from streamsvm.points import Points, Position
from streamsvm.verification.differences import certificate_difference
from tests.branches.bounds.learned import bounds, learned, stream, violations
from tests.sizes import sized
from tests.streams import rows_of, snapshot_of

Float = NDArray[np.float64]

CASES = 120
SHAPE = {"structure": "chain", "leaf_rows": 300, "bucket_points": 400, "train_points": 100_000}


@pytest.mark.long(keep=("0",))  # the first tenth of the hostile streams
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("first", range(0, CASES, 12))
def test_no_bound_is_wrong(first: int) -> None:
    """Against exact fractions; `python -m tests.benchmarks.certificate --learned 10000` is the long form."""
    assert [wrong for number in range(first, first + 12) for wrong in violations(number)[0]] == []


def test_rows_that_are_held_for_the_bounds_alone_count() -> None:
    """Also those of an open leaf that holds no point yet, beside which nothing was condensed."""
    random = np.random.default_rng(0)
    held, near = (Points(random.normal(size=(2, 3)), np.array([1, -1], np.int8), np.ones(2)) for _ in range(2))
    nothing = held.take(slice(0, 0))
    ledger = totals.Ledger.of(
        [(held, totals.Totals(np.ones(2), nothing)), (nothing, totals.Totals(np.ones(0), near))], held
    )
    assert len(ledger.rows) == 4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_row_of_hostile_streams_is_lost() -> None:
    """As it is held, beside that, or in an epoch's sums."""
    for number in range(40):
        cut = learned(stream(number))[0].cut
        if cut.ledger is not None:
            counted = len(cut.ledger.rows) + sum(epoch.rows for epoch in cut.ledger.totals.epochs)
            assert counted == cut.moments.count, number


@pytest.mark.long(keep=("nearest",))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("defect", ["nearest", "sums", "weight"])
def test_a_planted_defect_is_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances that are too great, sums of other rows, weights that are too small: each makes some bound wrong."""
    sound = totals.Condensed.epoch

    def spoilt(self: totals.Condensed) -> Epoch | None:
        epoch = sound(self)
        if epoch is None:
            return None
        return {
            "nearest": replace(epoch, nearest=epoch.nearest * 100 + 10),
            "sums": replace(epoch, sums=epoch.sums * 1.2),
            "weight": replace(epoch, weight=epoch.weight * 0.9),
        }[defect]

    monkeypatch.setattr(totals.Condensed, "epoch", spoilt)
    assert any(violations(number)[0] for number in range(40))


def points(n: int, d: int = 4, seed: int = 0, noise: float = 0.5) -> Points:
    """Return rows of two labels, in no order."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)).astype(np.float32)
    y = np.where(X.sum(axis=1) + noise * random.standard_normal(n) > 0, 1, -1).astype(np.int8)
    return Points(X, y, np.ones(n))


def config(**coreset: object) -> ModelConfig:
    """Return a configuration with a small chain."""
    return ModelConfig(
        points=PointsConfig(dimension=4),
        coreset=sized(**{**SHAPE, **coreset}),
        svm=SvmConfig(C=1.0, tolerance=1e-7),
    )


def learner_of(rows: Points, config: ModelConfig, batch: int = 1_000) -> Learner:
    """Return what has learned some rows in one partition."""
    learner, laid = Learner(config, {0: Position(0)}, 1 << 40), rows_of(rows)
    for start in range(0, len(rows), batch):
        learner.learn(laid.slice(start, min(start + batch, len(rows))))
    return learner


def made_of(rows: Points, config: ModelConfig, batch: int = 1_000) -> Made:
    """Return what is made of some rows."""
    return make(learner_of(rows, config, batch).cut(), config)


def test_a_shuffled_stream_is_certified_near_the_optimum() -> None:
    """LIBSVM's machine of all rows lies between the bounds, and they are close."""
    rows = points(8_000, noise=0.2)
    made = made_of(rows, config(leaf_rows=1_000, bucket_points=1_000))
    found, scaler = made.certified, made.trained.model.scaler
    assert found is not None
    Z = scaler.transform(rows.X)
    svc = SVC(kernel="linear", C=1.0, tol=1e-8).fit(Z, rows.y)
    w, b = svc.coef_[0], svc.intercept_[0]
    best = 0.5 * w @ w + np.maximum(0.0, 1.0 - rows.y * (Z @ w + b)).sum()
    assert found.kind == "proven"
    assert found.lower <= best * (1 + 1e-9)
    machine = made.trained.model.machine
    assert isinstance(machine, LinearMachine)
    hinges = np.maximum(0.0, 1.0 - rows.y * (Z @ machine.coefficients + machine.intercept))
    assert found.upper >= (0.5 * machine.coefficients @ machine.coefficients + hinges.sum()) * (1 - 1e-12)
    assert found.gap is not None
    assert found.gap < 1e-3
    assert found.rows == len(rows) > found.held


def test_totals_change_nothing_that_is_learned() -> None:
    """Training set, machine and audit are the same bytes with totals and without."""
    rows = points(4_000)
    one, other = made_of(rows, config()), made_of(rows, config(totals=False))
    assert other.certified is None
    assert one.certified is not None
    assert one.training_set_sha256 == other.training_set_sha256
    assert one.audits == other.audits
    own, its = one.trained.model.machine, other.trained.model.machine
    assert isinstance(own, LinearMachine)
    assert isinstance(its, LinearMachine)
    assert own.coefficients.tobytes() == its.coefficients.tobytes()


@pytest.mark.parametrize("batch", [1, 77, 4_096])
def test_batches_do_not_matter(batch: int) -> None:
    """Every byte of the state is the same, the totals' among it."""
    rows = points(2_500)
    states = [codec.encode(snapshot_of(learner_of(rows, config(), size).state())) for size in (1_000, batch)]
    assert states[0] == states[1]


def by_records(state: PartitionState) -> PartitionState:
    """Return a state as whoever is handed its records has it."""
    records = [encode_bucket(bucket) for bucket in state.buckets]
    value = encode_partition(0, state, [record.name for record in records])
    return decode_partition(value, dict(decode_bucket(record.value) for record in records))[1]


@pytest.mark.parametrize("structure", ["chain", "tree"])
@pytest.mark.parametrize("at", [150, 1_234, 2_099])
def test_a_restart_changes_nothing(at: int, structure: str) -> None:
    """Within a first leaf, and within screened ones; by a checkpoint, and by records of buckets."""
    rows, made = points(3_000), config(structure=structure)
    before = learner_of(rows.take(slice(0, at)), made)
    content = codec.encode(snapshot_of(before.state()))
    assert codec.encode(codec.decode(content)) == content
    after = Learner(made, {0: Position(0)}, 1 << 40)
    after.restore(codec.decode(content).learner)
    state = before.state().partitions[0]
    sent = by_records(state)
    assert codec.encode(snapshot_of(replace(before.state(), partitions={0: sent}))) == content
    after.learn(rows_of(rows).slice(at, len(rows)))
    assert make(after.cut(), made).certified == made_of(rows, made).certified


def with_outliers(rows: Points, every: int = 40) -> Points:
    """Return the rows with values, and here and there a weight, far beyond all others."""
    random = np.random.default_rng(1)
    X, weight = rows.X.copy(), rows.weight.copy()
    far = random.permutation(len(rows))[: len(rows) // every]
    X[far, random.integers(0, rows.dimension, len(far))] += random.choice(np.float32([-300.0, 300.0]), len(far))
    weight[far[::4]] *= 1e6
    return Points(X, rows.y, weight)


OUTLYING = [
    pytest.param({}, id="screened"),
    pytest.param({"screening": 0.0}, id="whole leaves"),
    pytest.param({"structure": "tree", "clip_sd": 4.0}, id="clipped"),
    pytest.param({"screening": 0.0, "max_leverage": None, "clip_sd": 4.0}, id="clipped whole leaves"),
]


@pytest.mark.parametrize("coreset", OUTLYING)
@pytest.mark.parametrize("at", [150, 299, 1_234, 2_099])
def test_a_restart_among_outliers_changes_nothing(at: int, coreset: dict[str, object]) -> None:
    """In a first leaf, which is bounded when it is sealed, and in later ones, whose rows are when they come."""
    rows, made = with_outliers(points(2_400)), config(**coreset)
    before = learner_of(rows.take(slice(0, at)), made, batch=77)
    content = codec.encode(snapshot_of(before.state()))
    after = Learner(made, {0: Position(0)}, 1 << 40)
    after.restore(codec.decode(content).learner)
    assert codec.encode(snapshot_of(after.state())) == content
    sent = by_records(before.state().partitions[0])
    assert codec.encode(snapshot_of(replace(before.state(), partitions={0: sent}))) == content
    after.learn(rows_of(rows).slice(at, len(rows)))
    whole = learner_of(rows, made)
    assert codec.encode(snapshot_of(after.state())) == codec.encode(snapshot_of(whole.state()))
    found, straight = make(after.cut(), made).certified, make(whole.cut(), made).certified
    assert found == straight
    assert found is not None
    assert found.bounded > 20


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("coreset", OUTLYING)
@pytest.mark.parametrize("rows_seen", [200, 450, 2_400])
def test_outliers_count_once_and_as_they_came(rows_seen: int, coreset: dict[str, object]) -> None:
    """At a cut within a first leaf, too: what was bounded weighs what it came with, and the bounds hold."""
    rows = with_outliers(points(2_400, noise=0.2)).take(slice(0, rows_seen))
    made = made_of(rows, config(**coreset))
    ledger, found, fit = made.cut.ledger, made.certified, made.trained.fit
    assert ledger is not None
    assert found is not None
    for label in (-1, 1):
        held = ledger.rows.weight[ledger.rows.y == label].sum()
        strata = sum(epoch.weight[epoch.label == label].sum() for epoch in ledger.totals.epochs)
        assert held + strata == pytest.approx(rows.weight[rows.y == label].sum(), rel=1e-12)
    assert len(ledger.rows) + sum(epoch.rows for epoch in ledger.totals.epochs) == len(rows)
    # Where clip_sd alone bounds, an open first leaf is cut as it is.
    assert found.bounded or (rows_seen == 200 and "max_leverage" in coreset)
    assert (f"all {rows_seen:,} rows as they came (of these {found.bounded:,} w" in str(found)) == (found.bounded > 0)
    Z, cost = made.trained.model.scaler.transform(rows.X), fit.C * rows.class_weighted(fit.class_weight).weight
    svc = SVC(kernel="linear", C=1.0, tol=1e-8, max_iter=100_000).fit(Z, rows.y, sample_weight=cost)
    machine = made.trained.model.machine
    assert isinstance(machine, LinearMachine)
    other = LinearMachine(svc.coef_[0], float(svc.intercept_[0]))
    own, its = (objective_over(rows, made, each) for each in (machine, other))
    assert found.lower <= min(own, its) * (1 + 1e-9)
    assert own * (1 - 1e-9) <= found.upper


def objective_over(rows: Points, made: Made, machine: LinearMachine) -> float:
    """Return the objective of a machine over rows, plainly in float64."""
    fit, Z = made.trained.fit, made.trained.model.scaler.transform(rows.X)
    losses = np.maximum(0.0, 1.0 - rows.y * (Z @ machine.coefficients + machine.intercept))
    cost = fit.C * rows.class_weighted(fit.class_weight).weight
    return float(0.5 * machine.coefficients @ machine.coefficients + (cost * losses).sum())


def test_an_estimate_is_charged_for_what_was_bounded() -> None:
    """An audit that is exact, of rows within their bounds, is below the objective over the rows that came."""
    rows, settings = with_outliers(points(2_400)), config()
    learner, seen, charged = Learner(settings, {0: Position(0)}, 1 << 40), list[Points](), 0
    learner.show({0: lambda _, learned: seen.append(Points.union([learned]))})
    learner.learn(rows_of(rows))
    made = make(learner.cut(), settings)
    learner.show_open()
    as_learned, ledger, scaler = Points.union(seen), made.cut.ledger, made.trained.model.scaler
    assert ledger is not None
    random = np.random.default_rng(3)
    for _ in range(20):
        machine = LinearMachine(random.normal(size=4), float(random.normal()))
        came, high = (objective_over(each, made, machine) for each in (rows, as_learned))
        audit = Audit(objective=high, low=high, high=high, points=100)
        found = certified(ledger, scaler, machine, made.trained.fit, len(rows), audit)
        assert found.upper >= came * (1 - 1e-12)
        charged += found.kind == "estimated" and high < came
    assert charged > 5


def test_a_pending_cut_keeps_its_totals() -> None:
    """A cut that is found whole in a checkpoint gives the same bounds; also where the training set is another."""
    rows = points(3_000)
    for train_points in (100_000, 100):
        made = config(train_points=train_points)
        learner = learner_of(rows, made)
        cut = learner.cut()
        found = codec.decode(codec.encode(snapshot_of(learner.state(), cut))).pending
        assert isinstance(found, Cut)
        assert make(found, made).certified == make(cut, made).certified


def test_every_row_is_counted_once() -> None:
    """Weights of held rows and strata add up to what was learned, by label; here they are whole numbers."""
    one = learned(replace(stream(5), config=config(), parts=[points(2_000)], batch=100, restarts=(777,)))[0]
    ledger = one.cut.ledger
    assert ledger is not None
    for place, label in enumerate((-1, 1)):
        held = ledger.rows.weight[ledger.rows.y == label].sum()
        strata = sum(epoch.weight[epoch.label == label].sum() for epoch in ledger.totals.epochs)
        assert held + strata == one.cut.moments.class_weight[place]


def test_merged_epochs_bound_more_and_never_less() -> None:
    """The excess of an older epoch, in the newer one's frame, is at least what it was, for any machine."""
    rows = points(5_000)
    made = made_of(rows, config())
    assert made.cut.ledger is not None
    epochs = made.cut.ledger.totals.epochs
    older, newer = epochs[0], epochs[1]
    whole = merged(older, newer)
    assert whole.rows == older.rows + newer.rows
    np.testing.assert_allclose(whole.weight.sum(), older.weight.sum() + newer.weight.sum(), rtol=1e-14)
    random = np.random.default_rng(1)

    def excess(epoch: Epoch, machine: Float, scaling: Float) -> float:
        (change,), (lost,) = seen_from([epoch.frame], machine, scaling)
        return float((np.maximum(0.0, epoch.frame.dual_norm(change, lost) - epoch.nearest) * epoch.length).sum())

    for size in (1e-3, 1e-1, 1.0, 10.0):
        machine = newer.frame.machine + size * random.standard_normal(5)
        apart = excess(older, machine, newer.frame.scaling) + excess(newer, machine, newer.frame.scaling)
        assert excess(whole, machine, newer.frame.scaling) >= apart * (1 - 1e-9)


def test_a_machine_far_from_all_gets_a_weaker_bound() -> None:
    """The proof is of the machine that is asked about: far from where rows were condensed, less is known.

    The lower bound is of all machines: where its solution begins makes no more than a thousandth of difference.
    """
    made = made_of(points(4_000), config())
    own = made.trained.model.machine
    assert isinstance(own, LinearMachine)
    near, far = (bounds(made, LinearMachine(own.coefficients * size, own.intercept)) for size in (1.0, -3.0))
    assert near.gap is not None
    assert far.gap is not None
    assert far.gap > 1.0 > near.gap
    assert far.lower == pytest.approx(near.lower, rel=1e-3)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"svm": SvmConfig(kernel="rbf")}, "svm.kernel = rbf: in a kernel's space"),
        ({"coreset": CoresetConfig(memory="window", window=100_000)}, "coreset.memory = window: "),
        (
            {"points": PointsConfig(dimension=4, labels=("a", "b", "c"))},
            "has 3 labels: totals are of two",
        ),
    ],
)
def test_where_there_are_none_the_reason_has_a_name(changed: dict[str, object], why: str) -> None:
    """Kernels, forgetting, and more than two labels."""
    one = ModelConfig.model_validate({"points": PointsConfig(dimension=4), **changed})
    assert not one.totals
    assert why in one.no_totals


def test_one_label_proves_nothing_and_says_so() -> None:
    """The best objective is 0, and no share of it is known."""
    rows = points(700)
    found = made_of(Points(rows.X, np.ones(700, np.int8), rows.weight), config()).certified
    assert found is not None
    assert found.gap is None
    assert "nothing is proven over all 700 rows" in str(found)


def test_a_header_is_read_back_or_left() -> None:
    """What makes no sense is nothing, and no reader fails by it."""
    one = Certified(lower=10.0, upper=10.00002, kind="proven", rows=1_000, held=10, strata=3)
    name, content = one.header()
    assert read_bounds([(name, content.encode())]) == one
    assert str(one) == "proven within 2.0e-04 % of the best possible model over all 1,000 rows"
    assert read_bounds([]) is None
    plain = msgspec.to_builtins(one)
    for wrong in ({"lower": 11.0}, {"kind": "sure"}, {"held": 2_000}, {"upper": None}, {"more": 1}, {"lower": -1.0}):
        content = msgspec.json.encode({**plain, **wrong})
        assert read_bounds([(header.HEADER, content)]) is None, wrong
    assert read_bounds([(header.HEADER, b"\xff")]) is None
    assert read_bounds([(header.HEADER, b" " * 10_000)]) is None


def test_verify_names_a_header_that_differs() -> None:
    """One that claims more than the log gives, one that is gone, and one that should not be there."""
    one = Certified(lower=10.0, upper=10.5, kind="proven", rows=1_000, held=10, strata=3)
    right = (header.HEADER, one.header()[1].encode())
    assert certificate_difference([right], one) == ()
    assert certificate_difference([("other", b"")], None) == ()
    wrong = (header.HEADER, right[1].replace(b"10.5", b"10.1"))
    for published, recomputed in (([wrong], one), ([], one), ([right], None)):
        (said,) = certificate_difference(published, recomputed)
        assert header.HEADER in said


@pytest.mark.parametrize("field", ["own", "stratum", "sums", "factor"])
def test_totals_of_another_shape_are_refused(field: str) -> None:
    """A checkpoint with a valid checksum, and totals that do not fit the points."""
    state = learner_of(points(2_000), config()).state()
    bucket = state.partitions[0].buckets[0]
    assert bucket.totals is not None
    epoch = bucket.totals.epochs[0]
    spoilt = {
        "own": replace(bucket.totals, own=bucket.totals.own[1:]),
        "stratum": replace(bucket.totals, epochs=(replace(epoch, stratum=epoch.stratum + 1_000),)),
        "sums": replace(bucket.totals, epochs=(replace(epoch, sums=epoch.sums[:, 1:]),)),
        "factor": replace(
            bucket.totals, epochs=(replace(epoch, frame=replace(epoch.frame, factor=epoch.frame.factor[1:])),)
        ),
    }[field]
    partition = replace(state.partitions[0], buckets=(replace(bucket, totals=spoilt),))
    with pytest.raises(CorruptCheckpoint):
        codec.decode(codec.encode(snapshot_of(replace(state, partitions={0: partition}))))


@pytest.mark.parametrize("wrong", ["own", "beside", "changed", "moved"])
def test_totals_of_an_open_leaf_must_fit_its_points(wrong: str) -> None:
    """A weight for each point, a row that came for each that does not count, and how far these were moved."""
    state = learner_of(with_outliers(points(500)), config(screening=0.0, clip_sd=4.0)).state()
    partition = state.partitions[0]
    there = partition.leaf_totals
    assert there is not None
    assert there.changed is not None
    spoilt = {
        "own": replace(there, own=there.own[1:]),
        "beside": replace(there, beside=there.beside.take(slice(1, None))),
        "changed": replace(there, changed=None),
        "moved": replace(there, changed=replace(there.changed, moved=there.changed.moved[:, 1:])),
    }[wrong]
    with pytest.raises(CorruptCheckpoint):
        codec.decode(codec.encode(snapshot_of(replace(state, partitions={0: replace(partition, leaf_totals=spoilt)}))))


def test_an_estimator_says_how_near_it_is() -> None:
    """`certificate_` costs no pass over the rows, survives pickling, and is None where there are no totals."""
    rows = points(4_000, noise=0.2)
    machine = CoresetSVC(points=2_000, C=1.0, tol=1e-6).fit(rows.X, rows.y)
    found, read = machine.certificate_, machine.certify(rows.X, rows.y)
    assert found is not None
    assert found.rows == len(rows)
    assert found.lower <= read.objective * (1 + 1e-12)
    assert read.bound <= found.upper * (1 + 1e-12)
    assert copy.deepcopy(machine).certificate_ == found
    assert pickle.loads(pickle.dumps(machine)).certificate_ == found
    assert CoresetSVC(points=500, kernel="rbf").fit(rows.X[:600], rows.y[:600]).certificate_ is None
    three = np.digitize(rows.X[:, 0], [-0.5, 0.5])
    assert CoresetSVC(points=500).fit(rows.X[:2_000], three[:2_000]).certificate_ is None
