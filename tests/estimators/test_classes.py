"""`CoresetSVC` with more than two classes: several machines over one shared structure, as a trainer has them."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_sample_weight

from streamsvm import CoresetSVC
from streamsvm.estimators.evaluation import EmpiricalObjective, ReservoirBaseline
from streamsvm.estimators.stream import NoProbabilities
from streamsvm.points import Points

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
Arrays = tuple[np.ndarray, np.ndarray]
REST = "one_vs_rest"


@pytest.fixture(scope="module")
def digits() -> Arrays:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="module")
def clouds() -> Arrays:
    """Five classes, the rarest of one point in fifty."""
    random = np.random.default_rng(2)
    y = random.choice(5, 6_000, p=[0.4, 0.3, 0.2, 0.08, 0.02])
    return random.normal(size=(5, 6))[y] * 1.7 + random.normal(size=(6_000, 6)), y


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.5}])
def test_what_fits_into_memory_is_svcs_one_against_the_rest(kernel, class_weight) -> None:
    """Below `points` decision values are those of SVC on all points, a machine for each class."""
    X, y = load_iris(return_X_y=True)
    options = {"C": 0.7, "kernel": kernel, "gamma": 0.2, "tol": 1e-8}
    ours = CoresetSVC(**options, loss="hinge", class_weight=class_weight, multiclass=REST).fit(X, y)
    Z, weight = StandardScaler().fit_transform(X), compute_sample_weight(class_weight, y)
    machines = [SVC(**options).fit(Z, y == label, weight) for label in range(3)]
    found, expected = ours.decision_function(X), np.column_stack([one.decision_function(Z) for one in machines])
    assert found.shape == (150, 3)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), expected.argmax(axis=1))


def test_planes_are_over_raw_features(digits) -> None:
    """`coef_` has a row for each class, and gives the decision values with `intercept_`."""
    X, y = digits
    machine = CoresetSVC(points=300, multiclass=REST).fit(X, y)
    assert machine.coef_.shape == (10, 64)
    assert machine.intercept_.shape == (10,)
    np.testing.assert_allclose(X @ machine.coef_.T + machine.intercept_, machine.decision_function(X), atol=1e-8)
    assert len(machine.fit_) == machine.model_.machines == 10


def test_sharing_beats_dividing_and_a_reservoir(clouds) -> None:
    """With the same memory the summed objective over all points is nearer the optimum than that of K machines of
    m / K points each, and than that of a uniform sample."""
    X, y = clouds
    memory, points = 400, Points(X, y.astype(np.int8), np.ones(len(y)))
    shared = CoresetSVC(points=memory, multiclass=REST).fit(X, y)
    objective = EmpiricalObjective.over(points, shared.model_config.svm, classes=5)
    divided = OneVsRestClassifier(CoresetSVC(points=memory // 5)).fit(X, y)
    reservoir = ReservoirBaseline(memory, 0)
    reservoir.learn(points)

    best = objective.value(objective.of_few(points))

    def gap(model) -> float:
        return objective.value(model) / best - 1.0

    ours = gap(shared.model_)
    assert ours < 0.2 * gap(objective.task.model([machine.model_ for machine in divided.estimators_]))
    assert ours < 0.5 * gap(objective.of_few(reservoir.points))
    assert ours < 0.1


@pytest.mark.parametrize("multiclass", [None, REST])
def test_additive_machines_are_kept_and_measured(clouds, multiclass) -> None:
    """Through a pickle to the last bit; their objective over the points is what training said."""
    X, y = clouds[0][:1_500], clouds[1][:1_500]
    machine = CoresetSVC(kernel="additive", alpha=1e-4, multiclass=multiclass, points=4_000).fit(X, y)
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
    assert machine.score(X, y) > 0.8
    points = Points(X, y.astype(np.int8), np.ones(len(y)))
    made = machine._stream.made()
    value = EmpiricalObjective.over(points, machine.model_config.svm, classes=5).value(made.model)
    assert value == pytest.approx(sum(one.fit.objective for one in made.machines), rel=1e-9)


@pytest.mark.parametrize("multiclass", [None, REST])
def test_a_class_may_come_late(clouds, multiclass) -> None:
    """A class that was named at first and comes after many reductions is learned; before, its machine says no."""
    X, y = clouds
    early, late = y != 4, y == 4
    machine = CoresetSVC(points=300, multiclass=multiclass)
    machine.partial_fit(X[early], y[early], classes=range(5))
    if multiclass == REST:
        assert (machine.decision_function(X)[:, 4] == -1.0).all()
    else:
        assert not (machine.predict(X) == 4).any()
    machine.partial_fit(X[late], y[late])
    assert (machine.predict(X[late]) == 4).mean() > 0.5


def test_one_class_alone_is_predicted() -> None:
    """Of three classes of which one came, that one is what is predicted."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    machine = CoresetSVC(points=30).partial_fit(X, np.full(100, "b"), classes=["a", "b", "c"])
    assert set(machine.predict(X)) == {"b"}


def test_probabilities_add_up(clouds) -> None:
    """Each machine's probability comes from its own view of one audit sample; together they are distributions, which
    say most of what the label leaves open."""
    X, y = clouds[0][clouds[1] < 4], clouds[1][clouds[1] < 4]
    machine = CoresetSVC(points=4_000, probability="sigmoid").fit(X[:5_000], y[:5_000])
    (sample,) = machine._stream.learner.cut().audit
    np.testing.assert_allclose(sample.class_weight, np.bincount(y[:5_000]))
    P = machine.predict_proba(X[5_000:])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    shares = np.bincount(y) / len(y)
    assert log_loss(y[5_000:], P) < 0.3 * -(shares * np.log(shares)).sum()


def test_too_small_a_sample_has_rough_probabilities(digits) -> None:
    """One warning at training for all machines; classes without a point in the sample leave none."""
    X, y = digits
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = CoresetSVC(points=300, probability="sigmoid").fit(X, y)
    told = [str(one.message)[:30] for one in caught if one.category is NoProbabilities]
    assert told == ["a trainer would publish no pro"]
    P = machine.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert (P.argmax(axis=1) == y).mean() > 0.5


@pytest.mark.long
def test_c_and_gamma_are_chosen_for_all_classes_together() -> None:
    """By what all pairs answer: as well as a grid search by scikit-learn with the same values, on rows left out."""
    X, y = load_digits(return_X_y=True)
    train, test = np.arange(len(y)) % 3 > 0, np.arange(len(y)) % 3 == 0
    machine = CoresetSVC(kernel="rbf", C=1.0, gamma=0.25, tune="auto")
    machine.fit(X[train], y[train])
    assert len(machine.tuning_) == 25
    assert machine.gamma_ == max(machine.tuning_, key=lambda score: score.mean).gamma < 0.25
    scaled = make_pipeline(StandardScaler(), SVC())
    grid = {f"svc__{name}": sorted({getattr(score, name) for score in machine.tuning_}) for name in ("C", "gamma")}
    theirs = GridSearchCV(scaled, grid).fit(X[train], y[train]).score(X[test], y[test])
    assert machine.score(X[test], y[test]) > theirs - 0.01


def test_more_classes_than_there_is_room_for_are_refused() -> None:
    """In a byte, and in a bucket, which holds a point of each."""
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="2 to 128 classes; 129"):
        CoresetSVC().partial_fit(X, y, classes=range(129))
    with pytest.raises(ValueError, match="points gives a bucket 3 points, too few for the 4 classes"):
        CoresetSVC(points=16, structure="tree").fit(X, y + (X[:, 0] > 6))
    assert CoresetSVC().partial_fit(X, y, classes=range(128)).decision_function(X[:2]).shape == (2, 128)
