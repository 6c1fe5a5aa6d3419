"""More than two labels: what machines make of a point, and how answers are judged, beside other implementations."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import jsonschema
import msgspec
import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.coreset import Moments
from streamsvm.learning import naming
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Origin, make, version_of
from streamsvm.learning.training import task_of, train
from streamsvm.model import (
    AdditiveMachines,
    ClassModel,
    ClassSkill,
    LinearMachines,
    Scaler,
    class_complaint,
    class_doubt,
    message as model_codec,
    shares_of,
    skill_header,
)
from streamsvm.points import Points, Position
from streamsvm.quality import LEAST_OF_A_LABEL, Answered, Baseline, Evidence, judge, skill_of
from tests.config.sizes import sized
from tests.schemas import model_schema
from tests.streams import rows_of


def blobs(n: int, classes: int = 4, seed: int = 0, dimension: int = 3) -> Points:
    """Return weighted points around as many centres as there are labels."""
    random = np.random.default_rng(seed)
    centres = 2.5 * np.random.default_rng(99).normal(size=(classes, dimension))
    y = random.integers(0, classes, n)
    X = (centres[y] + random.normal(size=(n, dimension))).astype(np.float32)
    return Points(X, y.astype(np.int8), random.uniform(0.5, 2.0, n))


def config_of(classes: int = 4, **svm: object) -> ModelConfig:
    return ModelConfig(
        points=PointsConfig(dimension=3, labels=tuple(f"l{index}" for index in range(classes))),
        coreset=sized(leaf_rows=5_000, bucket_points=5_000),
        svm=SvmConfig.model_validate(svm),
    )


def model_of(points: Points, config: ModelConfig) -> ClassModel:
    learner = Learner(config, {0: Position(0)}, 1)
    learner.learn(rows_of(points))
    model = make(learner.cut(), config).model
    assert isinstance(model, ClassModel)
    return model


# ---------------------------------------------------------------- machines


def test_pairs_vote_as_scikit_learns_do() -> None:
    """The decision value of a label is that of `decision_function_shape="ovr"`, for any values of the machines."""
    random = np.random.default_rng(0)
    values = random.normal(size=(200, 10)) * random.choice([1e-3, 1.0, 1e3], (200, 10))
    values[0] = 0.0
    machines = LinearMachines(np.zeros((10, 1)), np.zeros(10))
    found = ClassModel(Scaler.identity(1), machines, 5, "one_vs_one").label_values(values)
    assert np.allclose(found, _ovr_decision_function(values > 0.0, values, 5), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("class_weight", "atol"), [("none", 2e-3), ("balanced", 3e-3)])
def test_pairs_answer_as_svc_does(class_weight: str, atol: float) -> None:
    """Machines of all points, of one C, are LIBSVM's up to its tolerance; balanced weights weigh each label alike."""
    points, test = blobs(1_500), blobs(2_000, seed=1)
    if class_weight == "balanced":
        points = points.take(np.flatnonzero((points.y != 2) | (np.arange(len(points)) % 10 == 0)))
        points = points.reweighted(np.ones(len(points)))
    model = model_of(points, config_of(class_weight=class_weight, tolerance=1e-6))
    scaler = StandardScaler().fit(points.X, sample_weight=points.weight)
    weights = None if class_weight == "none" else class_weight
    machine = SVC(kernel="linear", C=1.0 / (1e-4 * points.weight.sum()), tol=1e-6, class_weight=weights)
    machine.fit(scaler.transform(points.X), points.y, sample_weight=points.weight)
    answered = machine.predict(scaler.transform(test.X))
    decision = SVC.decision_function(machine.set_params(decision_function_shape="ovo"), scaler.transform(test.X))
    assert np.allclose(-model.machine_values(test.X), decision, atol=atol)
    assert np.mean(model.predict_codes(test.X) == answered) > 0.995


def test_probabilities_of_consistent_pairs_are_those_that_they_are_of() -> None:
    """Where each pair says p_i / (p_i + p_j), coupling gives p back."""
    p = np.array([[0.5, 0.3, 0.15, 0.05], [0.25, 0.25, 0.25, 0.25]])
    pairs = np.column_stack([p[:, j] / (p[:, i] + p[:, j]) for i, j in combinations(range(4), 2)])
    assert np.allclose(shares_of(pairs, 4, "one_vs_one"), p)
    assert np.allclose(shares_of(p * 0.5, 4, "one_vs_rest"), p)
    assert np.allclose(shares_of(np.zeros((1, 4)), 4, "one_vs_rest"), 0.25)
    assert np.isfinite(shares_of(np.array([[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]), 4, "one_vs_one")).all()


@pytest.mark.parametrize("kernel", ["linear", "additive"])
def test_a_label_that_never_came_is_never_answered_by_pairs(kernel: str) -> None:
    """Whoever was there wins every pair with it; a pair of two such labels has a machine that reads nothing."""
    points = blobs(600)
    points = points.take(np.flatnonzero(points.y != 1))
    far = 100.0 * np.random.default_rng(3).normal(size=(2_000, 3))
    assert not (model_of(points, config_of(kernel=kernel)).predict_codes(far) == 1).any()
    of_two = model_of(points.take(np.flatnonzero(points.y > 1)), config_of(kernel=kernel))
    assert not of_two.machine_values(far)[:, 0].any()
    assert set(of_two.predict_codes(far)) == {2, 3}


@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
def test_each_additive_machine_is_trained_as_one_of_two_labels(scheme: str) -> None:
    """To the last bit, with knots and pairs of its own; so it answers where no plane does."""
    random = np.random.default_rng(5)
    X = random.normal(size=(4_000, 3)).astype(np.float32)
    y = (2 * (X[:, 0] * X[:, 1] > 0.0) + (np.abs(X[:, 2]) > 0.7)).astype(np.int8)
    points = Points(X, y, np.ones(len(y)))
    config = config_of(kernel="additive", multiclass=scheme)
    seen = Moments.zero(3, 4).add(points)
    task, model = task_of(config), model_of(points, config)
    machines = [
        train(own, moments, task.machine_config(config.svm)).model for own, moments in task.problems(points, seen)
    ]
    values = np.column_stack([one.decision_function(X) for one in machines])
    assert isinstance(model.machine, AdditiveMachines)
    assert np.array_equal(model.machine_values(X), values)
    assert any(one.surfaces for one in model.machine.machines)
    assert np.mean(model.predict_codes(X[::7]) == y[::7]) > 0.9
    assert np.mean(model_of(points, config_of(multiclass=scheme)).predict_codes(X[::7]) == y[::7]) < 0.5


def test_the_default_is_pairs_up_to_32_labels() -> None:
    """And a machine for each label beyond, or where that is asked for."""
    of = [config_of(32), config_of(33), config_of(3, multiclass="one_vs_rest")]
    assert [task_of(config).in_pairs for config in of] == [True, False, False]


@pytest.mark.parametrize("kernel", ["linear", "rbf", "additive"])
@pytest.mark.parametrize("scheme", ["one_vs_one", "one_vs_rest"])
@pytest.mark.parametrize("probability", ["sigmoid", None])
def test_what_is_written_obeys_the_schema(kernel: str, scheme: str, probability: str | None) -> None:
    """Of every kind; and is read back as it was."""
    config = config_of(kernel=kernel, multiclass=scheme, probability=probability)
    learner = Learner(config, {0: Position(0)}, 1)
    learner.learn(rows_of(blobs(400)))
    origin = Origin(name="m", number=1, parent=None, links=(), topic="t", topic_id="", base={0: Position(0)}, build={})
    version = version_of(make(learner.cut(), config), config, origin)
    value = model_codec.encode(version)
    jsonschema.Draft202012Validator(model_schema()).validate(json.loads(value))
    read = model_codec.decode(value)
    assert model_codec.encode(read) == value
    assert len(value) <= naming.largest_bytes(config)
    assert read.audit is not None
    assert read.fit.objective == pytest.approx(sum(one.objective for one in read.machines))
    assert read.audit.low <= read.audit.objective <= read.audit.high


# ---------------------------------------------------------------- judging


def test_the_baseline_takes_the_steps_of_the_one_of_two_labels() -> None:
    """Each of its machines is the two-label baseline of its label against the rest."""
    points = blobs(9_000)
    values, frequent = Baseline(3, 4, rates=(0.01,), classes=4).add(points)
    for label in range(4):
        (alone,), _ = Baseline(3, 4, rates=(0.01,)).add(points.against_the_rest(label))
        assert np.isfinite(alone).sum() > 6_000
        np.testing.assert_allclose(values[label], alone, rtol=1e-9, atol=1e-9)
    before = np.cumsum(np.eye(4)[points.y] * points.weight[:, None], axis=0)[:-1]
    assert (frequent[1:] == before.argmax(axis=1)).all()


def skill(classes: int, y: np.ndarray, said: np.ndarray, own: np.ndarray | None = None, number: int = 1) -> ClassSkill:
    """Return the skill of answers to new points, and of a version's own to its audit sample."""
    newest, audit = (
        None if one is None else Answered(y=y.astype(np.int8), said=one.astype(np.int8), weight=np.ones(len(y)))
        for one in (said, own)
    )
    found = skill_of(newest, audit, number, classes=classes)
    assert isinstance(found, ClassSkill)
    return found


def test_skill_is_judged_against_one_over_the_number_of_labels() -> None:
    """Half right of five labels is skill, of two it is none; a constant answer is none; few points are not clear."""
    random = np.random.default_rng(0)
    y = random.integers(0, 5, 5_000)
    half = np.where(random.random(5_000) < 0.4, y, random.integers(0, 5, 5_000))
    assert skill(5, y, half).state == "some"
    constant = skill(5, y, np.full(5_000, 3))
    assert constant.state == "none"
    assert "it knows nothing" in class_complaint(constant, "abcde", weighted=False)
    few = skill(5, y[:110], random.integers(0, 5, 110))
    assert few.state == "unknown"
    assert "may be chance" in class_doubt(few)
    nobody = skill(5, y[:20], y[:20])
    assert nobody.figures is None
    assert "too few points of two labels" in class_doubt(nobody)


def test_a_rare_label_that_is_never_answered_is_named() -> None:
    """With what to do, which is another thing where classes are weighted already."""
    random = np.random.default_rng(0)
    y = random.choice(3, 10_000, p=[0.6, 0.395, 0.005])
    told = skill(3, y, np.where(y == 2, 0, y))
    assert told.silent == (2,)
    assert 'never answers "c"' in class_complaint(told, "abc", weighted=False)
    assert "svm.class_weight = balanced" in class_complaint(told, "abc", weighted=False)
    assert "although classes are weighted" in class_complaint(told, "abc", weighted=True)


def test_skill_survives_its_header() -> None:
    """Of 128 labels, too; what is too long is passed over."""
    y = np.tile(np.arange(128), 40)
    told = skill(128, y, np.roll(y, 7), y, 3)
    content = skill_header.encode(told).encode()
    read = skill_header.decode([(skill_header.HEADER, content)])
    assert isinstance(read, ClassSkill)
    assert read.state == told.state
    assert read.audit is not None
    assert read.audit.balanced_accuracy.value == 1.0
    assert skill_header.decode([(skill_header.HEADER, b" " * 40_000 + content)]) is None
    assert msgspec.json.decode(content)["state"] == told.state


def test_the_gate_judges_by_the_labels_that_have_enough_points() -> None:
    """A ruined version is refused; a label of few points has no say; one label alone says nothing."""
    points, model = blobs(2_000, seed=5), model_of(blobs(1_000), config_of())
    ruined = replace(model, machine=replace(model.machine, intercepts=-model.machine.intercepts - 5.0))
    bad, good = ruined.predict_codes, model.predict_codes
    assert judge(bad, good, Evidence(points), None, 0.05).outcome == "refused"
    assert judge(good, bad, Evidence(points), None, 0.05).outcome == "passed"
    few = np.flatnonzero((points.y != 2) | (np.cumsum(points.y == 2) < LEAST_OF_A_LABEL))
    evidence = Evidence(points.take(few))
    assert sorted(evidence.judged.tolist()) == [0, 1, 3]
    assert judge(good, good, evidence, None, 0.05).points == int(np.count_nonzero(points.y != 2))
    alone = Evidence(points.take(np.flatnonzero(points.y == 0)))
    assert judge(good, good, alone, None, 0.05).outcome == "unscored"
