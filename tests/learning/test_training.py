"""Training: the optimum by outside oracles, and defined answers to degenerate sets."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from streamsvm.choices import Loss
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments, Reservoir, Sampled
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamsvm.learning import training
from streamsvm.learning.training import Task, Trained, audited, train, warm_up, with_probability
from streamsvm.model import LinearMachine
from streamsvm.points import Points
from streamsvm.svm import primal_objective
from tests.streams import gaussian, rows_of


def compiled() -> dict[str, int]:
    """Return how many specialisations each compiled function of the solvers has."""
    modules = [module for name, module in sys.modules.items() if name.startswith("streamsvm.svm.")]
    parts = [part for module in modules for part in vars(module).values() if isinstance(part, Dispatcher)]
    return {f"{part.py_func.__module__}.{part.py_func.__name__}": len(part.signatures) for part in parts}


def fit(points: Points, config: SvmConfig) -> Trained:
    return train(points, Moments.zero(points.dimension).add(points), config)


def audit_sample(points: Points, size: int, seed: int = 0, partition: int = 0) -> Sampled:
    shape = PointsConfig(dimension=points.dimension, dtype=points.X.dtype.name)
    reservoir = Reservoir(size, partition, ModelConfig(points=shape, seed=seed))
    reservoir.add(rows_of(points, partition))
    return reservoir.sample


@pytest.mark.parametrize(("kernel", "loss"), [("linear", "hinge"), ("rbf", "squared_hinge")])
def test_an_audit_of_every_point_is_the_objective(kernel: str, loss: Loss) -> None:
    """The sample holds the training set: the estimate is what the training reports, from two partitions as from one."""
    points, config = gaussian(300), SvmConfig(C=2.0, kernel=kernel, class_weight=(1.0, 3.5))
    made = fit(points, config)
    halves = [audit_sample(points.take(part), 300, 0, p) for p, part in enumerate((slice(100), slice(100, 300)))]
    for sample in ([audit_sample(points, 300)], halves):
        audit = audited(made, sample, loss)
        assert audit is not None
        assert audit.objective == pytest.approx(made.fit.objective, rel=1e-6)
        assert (audit.low, audit.high, audit.points) == (audit.objective, audit.objective, 300)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_an_audit_sees_the_whole_stream_not_the_training_set(kernel: str) -> None:
    """A model of few points looks better to them than it is: most intervals hold the stream's objective, not theirs."""
    stream = gaussian(3_000)
    few, config = stream.take(slice(12)), SvmConfig(alpha=1e-3, kernel=kernel, loss="hinge")
    few = few.reweighted(few.weight * stream.weight.sum() / few.weight.sum())
    made = train(few, Moments.zero(3).add(stream), config)
    hinge = np.maximum(0.0, 1.0 - stream.y * made.model.decision_function(stream.X))
    truth = 0.5 * made.squared_norm + made.fit.C * float(stream.weight @ hinge)
    audits = [audited(made, [audit_sample(stream, 1_000, seed)], "hinge") for seed in range(100)]
    assert sum(audit is not None and audit.low <= truth <= audit.high for audit in audits) >= 90
    assert sum(audit is not None and audit.low <= made.fit.objective <= audit.high for audit in audits) <= 10


def test_without_a_point_there_is_no_audit() -> None:
    """No sample, or an empty one."""
    made = fit(gaussian(50), SvmConfig())
    assert audited(made, (), "hinge") is None
    assert audited(made, [audit_sample(gaussian(0), 5)], "hinge") is None


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_probabilities_come_true(kernel: str) -> None:
    """Of fresh points that are as probably positive as the model says, about that share is positive."""
    stream = gaussian(20_000)
    config = SvmConfig(alpha=1e-3, kernel=kernel, probability="sigmoid")
    few = stream.take(slice(500))
    made = with_probability(train(few, Moments.zero(3).add(stream), config), [audit_sample(stream, 2_000)], config)
    fresh = gaussian(20_000, seed=1)
    said = made.model.predict_proba(fresh.X)
    np.testing.assert_allclose(said.sum(axis=1), 1.0)
    for low in (0.05, 0.35, 0.65):
        within = (said[:, 1] >= low) & (said[:, 1] < low + 0.3)
        assert within.sum() > 500
        assert (fresh.y[within] > 0).mean() == pytest.approx(said[within, 1].mean(), abs=0.06)


def test_probabilities_are_of_the_stream_whatever_the_class_weights() -> None:
    """A machine that was told to prefer the rare label still says how rare it is."""
    stream = gaussian(20_000)
    share = float(stream.weight[stream.y > 0].sum() / stream.weight.sum())
    for class_weight in ("none", "balanced", (1.0, 30.0)):
        config = SvmConfig(alpha=1e-3, probability="sigmoid", class_weight=class_weight)
        trained = train(stream.take(slice(500)), Moments.zero(3).add(stream), config)
        made = with_probability(trained, [audit_sample(stream, 2_000)], config)
        said = made.model.predict_proba(stream.X)[:, 1]
        assert float(stream.weight @ said / stream.weight.sum()) == pytest.approx(share, abs=0.03)


def test_without_ground_there_are_no_probabilities() -> None:
    """No sample, too few points of a label, or one label only: a reason in place of them, and the same machine."""
    config = SvmConfig(probability="sigmoid")
    points = gaussian(300)
    negative = points.take(np.flatnonzero(points.y < 0))
    for learned, sample, said in (
        (points, (), "empty"),
        (points, [audit_sample(gaussian(0), 5)], "empty"),
        (points, [audit_sample(points, 12)], "label, but 10 are needed"),
        (negative, [audit_sample(negative, 200)], "0 points of the positive label"),
    ):
        trained = fit(learned, config)
        made = with_probability(trained, sample, config)
        assert said in made.no_probability
        assert made.model == trained.model
        with pytest.raises(ConfigurationError, match=r"has no probabilities.*svm\.probability"):
            made.model.predict_proba(points.X)


def test_nobody_who_asked_for_none_gets_probabilities() -> None:
    """Nor a reason for their absence."""
    points = gaussian(300)
    trained = fit(points, SvmConfig())
    assert with_probability(trained, [audit_sample(points, 200)], SvmConfig()) is trained


def test_alpha_sets_c_by_the_weight_of_the_whole_stream() -> None:
    """C = 1 / (alpha U), U exact even where the training set is a sample."""
    points = gaussian(200)
    moments = Moments.zero(3).add(gaussian(1000))
    assert pytest.approx(1 / (1e-3 * moments.weight)) == train(points, moments, SvmConfig(alpha=1e-3)).fit.C
    assert pytest.approx(1 / (1e-4 * moments.weight)) == train(points, moments, SvmConfig()).fit.C


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_one_label_only_gives_its_constant(sign: int, kernel: str) -> None:
    """Without a second label the optimum is w = 0 and the label itself; its loss is 0."""
    points = gaussian(20)
    alone = Points(points.X, np.full(20, sign, np.int8), points.weight)
    made = fit(alone, SvmConfig(C=1.0, kernel=kernel))
    assert made.model.decision_function(points.X).tolist() == [float(sign)] * 20
    assert made.fit.objective == made.fit.kkt_gap == 0.0


@pytest.mark.parametrize("n", [1, 2])
def test_few_points(n: int) -> None:
    """One point, or one of each label, is a training set like any other."""
    points = Points(np.array([[1.0], [-1.0]], np.float32)[:n], np.array([1, -1], np.int8)[:n], np.ones(n))
    assert (fit(points, SvmConfig(C=10.0)).model.predict_sign(points.X) == points.y).all()


def test_constant_and_huge_features_do_no_harm() -> None:
    """A constant feature counts for nothing; an offset of 1e6 is what scaling is for."""
    points = gaussian(300)
    X = np.column_stack([points.X.astype(np.float64) * 1e4 + 1e6, np.full(300, 7.0)])
    config = SvmConfig(C=1.0, tolerance=1e-6)
    plain = fit(points, config)
    made = fit(Points(X, points.y, points.weight), config)
    np.testing.assert_allclose(made.model.decision_function(X), plain.model.decision_function(points.X), atol=2e-3)
    assert isinstance(made.model.machine, LinearMachine)
    assert made.model.machine.coefficients[3] == 0.0


def test_duplicates_that_contradict_each_other() -> None:
    """The same place under both labels has a finite answer."""
    points = Points(np.ones((4, 2), np.float32), np.array([1, 1, -1, -1], np.int8), np.ones(4))
    made = fit(points, SvmConfig(C=1.0))
    assert np.isfinite(made.model.decision_function(points.X)).all()
    assert made.fit.objective == pytest.approx(4.0)


def test_an_exhausted_solver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on iterations shows as not converged, with the true gap."""
    monkeypatch.setattr(training, "LEAST_ITERATIONS", 5)
    monkeypatch.setattr(training, "ITERATIONS_A_POINT", 0)
    made = fit(gaussian(300), SvmConfig(C=100.0, tolerance=1e-6))
    assert not made.fit.converged
    assert made.fit.kkt_gap is not None
    assert made.fit.kkt_gap > 1e-6


def test_raw_features_far_from_the_origin_do_no_harm() -> None:
    """Without scaling, an offset of 1e6 moves the intercept and nothing else, in solver, measures and machine."""
    points = gaussian(300)
    for kernel in ("linear", "rbf"):
        config = SvmConfig(C=1.0, kernel=kernel, gamma=0.3, standardize=False, tolerance=1e-5)
        near, far = (
            fit(Points(points.X.astype(np.float64) + shift, points.y, points.weight), config) for shift in (0.0, 1e6)
        )
        assert far.fit.converged
        assert far.fit.objective == pytest.approx(near.fit.objective, rel=1e-5)
        fresh = gaussian(100, seed=8).X.astype(np.float64)
        moved = far.model.decision_function(fresh + 1e6)
        np.testing.assert_allclose(moved, near.model.decision_function(fresh), atol=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_warming_up_compiles_all_that_training_runs(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it, whatever the size, dimension or tolerance, nothing is compiled any more."""
    monkeypatch.setattr(training, "LEAST_ITERATIONS", 3_000)
    monkeypatch.setattr(training, "ITERATIONS_A_POINT", 0)
    warm_up(SvmConfig(kernel=kernel))
    before = compiled()
    for n, dimension, tolerance in ((600, 3, 1e-3), (30, 1, 1e-8), (500, 60, 1e-3), (500, 60, 1e-7)):
        fit(gaussian(n, dimension=dimension), SvmConfig(kernel=kernel, C=1e3, tolerance=tolerance))
    assert len(before) > 10
    assert compiled() == before


def test_warming_up_says_what_it_compiles_once() -> None:
    """A sentence before each part that is not ready, none when all is."""
    said: list[str] = []
    for kernel in ("linear", "rbf"):
        warm_up(SvmConfig(kernel=kernel))
        warm_up(SvmConfig(kernel=kernel), said.append)
    assert said == []


@pytest.mark.parametrize(
    "weights", [[SMALLEST_WEIGHT] * 4, [LARGEST_WEIGHT] * 4, [LARGEST_WEIGHT] * 3 + [SMALLEST_WEIGHT]]
)
def test_the_outermost_weights_can_be_trained_on(weights: list[float]) -> None:
    """Whatever the decoder lets through gives a finite model."""
    points = Points(
        np.array([[0.0], [1.0], [2.0], [3.0]], np.float32), np.array([-1, -1, -1, 1], np.int8), np.array(weights)
    )
    found = fit(points, SvmConfig()).fit
    assert np.isfinite([found.C, found.objective, found.dual_objective]).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("class_weight", ["none", (1.0, 7.0), (0.25, 1.0), "balanced"])
def test_a_model_is_the_one_scikit_learn_finds(kernel: str, class_weight: str | tuple[float, float]) -> None:
    """StandardScaler and SVC with the same weights give the same decision values and class weights.

    The box is C u cw(y); the objectives are the weighted problem's, F by its definition from the decision values.
    `gamma = scale` counts weights, which SVC's does not: the variance of standardised features is 1, so it is 1 / d.
    """
    points = gaussian(400)
    if class_weight == "balanced":
        points = points.reweighted(np.ones(400))  # scikit-learn counts points, not their weights
    made = fit(points, SvmConfig(C=0.5, kernel=kernel, loss="hinge", class_weight=class_weight, tolerance=1e-6))
    scaler = StandardScaler().fit(points.X.astype(float), sample_weight=points.weight)
    foreign = {"none": None, "balanced": "balanced"}
    weights = foreign[class_weight] if isinstance(class_weight, str) else dict(zip((-1, 1), class_weight, strict=True))
    machine = SVC(C=0.5, kernel=kernel, gamma="auto", tol=1e-6, class_weight=weights)
    oracle = machine.fit(scaler.transform(points.X.astype(float)), points.y, sample_weight=points.weight)
    fresh = gaussian(200, seed=8).X
    expected = oracle.decision_function(scaler.transform(fresh.astype(float)))
    atol = 2e-5 if class_weight == "none" else 5e-5
    np.testing.assert_allclose(made.model.decision_function(fresh), expected, atol=atol)
    np.testing.assert_allclose(made.fit.class_weight, oracle.class_weight_, rtol=1e-12)
    assert made.fit.converged
    assert made.fit.kkt_gap is not None
    assert made.fit.kkt_gap <= 1e-6
    assert made.fit.dual_objective is not None
    assert made.fit.dual_objective <= made.fit.objective
    assert made.fit.objective == pytest.approx(made.fit.dual_objective, rel=1e-5)
    if kernel == "linear":
        assert isinstance(made.model.machine, LinearMachine)
        norm = float(made.model.machine.coefficients @ made.model.machine.coefficients)
        upper = 0.5 * points.class_weighted(made.fit.class_weight).weight
        direct = primal_objective(made.model.decision_function(points.X), points.y, upper, norm)
        assert made.fit.objective == pytest.approx(direct, rel=1e-10)


def test_balanced_weights_come_from_the_whole_stream() -> None:
    """Exact totals up to the cut decide, whatever the coreset's own share; one class alone: none."""
    points = gaussian(200)
    moments = Moments.zero(3).add(gaussian(1_000))
    negative, positive = fit_weights = train(points, moments, SvmConfig(class_weight="balanced")).fit.class_weight
    assert moments.class_weight @ np.array(fit_weights) == pytest.approx(moments.weight)
    assert negative * moments.class_weight[0] == pytest.approx(positive * moments.class_weight[1])
    assert SvmConfig(class_weight="balanced").class_weights((3.0, 0.0)) == (1.0, 1.0)


@pytest.mark.parametrize(("labels", "tune", "same"), [(2, None, False), (2, "auto", True), (3, None, True)])
def test_additive_machines_choose_c_only_where_a_version_can_say_it(labels: int, tune: str | None, same: bool) -> None:
    """Pure noise asks for a smaller one; what is tuned, or of several machines, has the C of alpha."""
    random = np.random.default_rng(12)
    y = random.integers(0, labels, 400)
    points = Points(random.normal(size=(400, 3)), (2 * y - 1 if labels == 2 else y).astype(np.int8), np.ones(400))
    task = Task(labels, SvmConfig(kernel="additive", tune=tune).settled(labels))
    svm = task.machine_config(task.svm)
    problems = task.problems(points, Moments.zero(3, labels).add(points))
    found = {train(part, seen, svm).fit.C for part, seen in problems}
    assert (found == {1.0 / (SvmConfig.DEFAULT_ALPHA * 400)}) == same
