"""`CoresetSVC` against scikit-learn's checks and against the full data; `tests/conformance` has it beside a trainer."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamsvm import CoresetSVC
from streamsvm.config import SvmConfig
from streamsvm.estimators.evaluation import EmpiricalObjective, optimum
from streamsvm.estimators.stream import REMEDIES, CoresetWarning
from streamsvm.learning import MEANINGS
from streamsvm.model import Grid, KernelMachine, Packing, RbfKernel
from streamsvm.points import Points
from tests.estimators.checks import LEAST, REASONS, failed_seeds

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")


@pytest.mark.long(keep=("CoresetSVC(C=1.0,tol=1e-08)-*",))  # one linear machine
@parametrize_with_checks(
    [
        CoresetSVC(C=1.0, tol=1e-8),
        CoresetSVC(C=1.0, kernel="rbf", tol=1e-10),
        CoresetSVC(C=1.0, tol=1e-8, class_weight="balanced", structure="tree"),
    ]
)
def test_scikit_learns_checks(estimator: CoresetSVC, check: object) -> None:
    """scikit-learn's checks pass; their sets are smaller than the memory, so that nothing is reduced."""
    check(estimator)  # type: ignore[operator]


@pytest.mark.long(keep=("smallest0",))
@pytest.mark.parametrize(
    "smallest",
    [
        {"points": LEAST},
        {"points": LEAST, "kernel": "rbf"},
        {"points": LEAST, "structure": "tree"},
        {"points": 3 * LEAST, "structure": "tree"},
    ],
)
def test_what_reduction_breaks_is_listed(smallest) -> None:
    """With the least memory, where the checks' sets are reduced, only those fail that the list gives a reason for."""
    assert failed_seeds(CoresetSVC(C=1.0, tol=1e-8, **smallest), range(2)).keys() <= REASONS.keys()


BROKEN_BY_PROBABILITIES = {
    "check_classifiers_train": "It asks that `predict` is the more probable class; ours goes by the decision value,"
    " and for a point between the two borders they differ, as with SVC's own `probability`.",
    "check_sample_weight_equivalence_on_dense_data": "How sure a sigmoid may be goes by the number of points, and a"
    " point of weight 2 is one point; SVC's own `probability` fails it, too.",
}


def test_what_probabilities_break_is_listed() -> None:
    """With `predict_proba`, only those of scikit-learn's checks fail that the list gives a reason for."""
    machine = CoresetSVC(C=1.0, tol=1e-8, probability="sigmoid")
    assert failed_seeds(machine, range(1)).keys() <= BROKEN_BY_PROBABILITIES.keys()


def test_the_least_memory_is_the_least() -> None:
    """A point less is refused, so that the list is of the smallest machines there are."""
    X, y = [[0.0], [1.0]], [0, 1]
    for structure in ("chain", "tree"):
        CoresetSVC(points=LEAST, structure=structure).fit(X, y)
        with pytest.raises(ValueError, match="points"):
            CoresetSVC(points=LEAST - 1, structure=structure).fit(X, y)


@pytest.mark.long(keep=("200-options0-2", "1000-options2-2"))
@pytest.mark.parametrize("centers", [2, 3])
@pytest.mark.parametrize(
    ("points", "options"),
    [
        (200, {"points": 48}),
        (200, {"points": 48, "kernel": "rbf"}),
        (1_000, {"points": 246, "structure": "tree"}),
    ],
)
def test_accuracy_holds_on_average(points, options, centers) -> None:
    """Where points are reduced (m < n / 4), the accuracy that scikit-learn's check asks of one fit holds on average
    over seeds, and the average is near that of all the points: within two hundredths, but for three classes in a tree.
    """
    X, y = make_blobs(points, centers=centers, random_state=0)
    whole = CoresetSVC(C=1.0).fit(X, y).score(X, y)
    mean = np.mean([CoresetSVC(C=1.0, seed=seed, **options).fit(X, y).score(X, y) for seed in range(10)])
    assert mean > 0.83
    assert mean > whole - (0.02 if centers == 2 or "structure" not in options else 0.1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_what_fits_into_memory_is_not_reduced(htru2, kernel) -> None:
    """Below `points` the machine is that of all points, of which none is an outlier."""
    X, y = htru2[0][:2_000].astype(float), htru2[1][:2_000]
    X = np.clip(X, *np.percentile(X, [1, 99], axis=0))
    Z = StandardScaler().fit_transform(X)
    ours = CoresetSVC(C=1.0, kernel=kernel, loss="hinge", gamma=0.1, tol=1e-6).fit(X, y)
    grid = Grid.of(Z, 0.1)
    learned = grid.rounded(Z) if kernel == "rbf" else Z
    theirs = SVC(C=1.0, kernel=kernel, gamma=0.1, tol=1e-6).fit(learned, y)
    expected = theirs.decision_function(Z)
    if kernel == "rbf":  # written down in few bits
        terms = theirs.support_vectors_, np.ravel(theirs.dual_coef_), float(theirs.intercept_[0])
        expected = KernelMachine(RbfKernel(0.1), *terms).packed(Packing(grid, len(terms[1]), 0.0, 0.0)).decide(Z)
    np.testing.assert_allclose(ours.decision_function(X), expected, atol=1e-4)


def test_a_weight_is_worth_repetitions_on_average(htru2) -> None:
    """Where points are reduced (m < n / 4), weights of 1 to 3 and repetitions are both within two per cent of the
    optimum: scikit-learn's check cannot hold bit for bit, because other rows are drawn."""
    X, y = htru2[0][:6_000], htru2[1][:6_000]
    times = np.random.default_rng(1).integers(1, 4, len(y))
    points = Points(X.astype(float), y.astype(np.int8), times.astype(float))
    objective = EmpiricalObjective.over(points, SvmConfig(C=1.0))
    best = optimum(objective).objective
    shuffled = np.random.default_rng(2).permutation(int(times.sum()))
    repeated = np.repeat(X, times, axis=0)[shuffled], np.repeat(y, times)[shuffled]
    for given in ((X, y, times), repeated):
        for seed in range(5):
            machine = CoresetSVC(C=1.0, points=1_400, tol=1e-6, seed=seed).fit(*given)
            assert objective.value(machine.model_) <= 1.02 * best


PERSISTED = [
    {"class_weight": {-1: 1.0, 1: 3.0}, "points": 2_000, "probability": "sigmoid"},
    {"kernel": "rbf", "gamma": 0.3, "structure": "tree"},
    {"points": 4_000, "probability": "sigmoid"},
    {"reducer": "uniform", "class_weight": "balanced"},
]


@pytest.mark.long(keep=("True-options0", "False-options2"))
@pytest.mark.parametrize("options", PERSISTED)
@pytest.mark.parametrize("asked", [False, True])
def test_a_copy_goes_on_to_the_last_bit(htru2, options, asked) -> None:
    """A copy, made before or after the model was asked for, predicts and learns on as the original, and for itself;
    through skops, too, where the estimator is the only type to trust."""
    X, y = htru2[0][:6_000], htru2[1][:6_000]
    machine = CoresetSVC(**{"points": 600, **options}).partial_fit(X[:4_123], y[:4_123])
    if asked:
        machine.predict(X[:3])
    skops = pytest.importorskip("skops.io")
    kept = skops.dumps(machine)
    trusted = skops.get_untrusted_types(data=kept)
    assert trusted == ["streamsvm.estimators.coresetsvc.CoresetSVC"]
    for copied in (copy.deepcopy(machine), copy.copy(machine), skops.loads(kept, trusted=trusted)):
        assert copied.model_config == machine.model_config
        assert copied.fit_ == machine.fit_
        assert probabilities(copied, X) == probabilities(machine, X)
        assert copied.decision_function(X).tobytes() == machine.decision_function(X).tobytes()
        copied.partial_fit(X[4_123:], y[4_123:])
        assert machine._stream.rows == 4_123
        whole = CoresetSVC(**{"points": 600, **options}).fit(X, y)
        assert copied.training_set_sha256_ == whole.training_set_sha256_
        assert copied.decision_function(X).tobytes() == whole.decision_function(X).tobytes()
        assert probabilities(copied, X) == probabilities(whole, X)


def probabilities(machine: CoresetSVC, X: np.ndarray) -> bytes | None:
    return machine.predict_proba(X).tobytes() if machine.probability else None


def test_damaged_state_is_refused(htru2) -> None:
    """A byte that was lost or changed is noticed before anything is learned from it."""
    state = CoresetSVC(points=600).fit(htru2[0][:2_000], htru2[1][:2_000]).__getstate__()
    learned = bytearray(state["_stream"]["learned"])
    learned[len(learned) // 2] ^= 1
    for damaged in (bytes(learned), b""):
        state["_stream"]["learned"] = damaged
        with pytest.raises(ValueError, match="cannot be read"):
            CoresetSVC().__setstate__(state)


def test_feature_names_are_kept_and_checked(htru2) -> None:
    """Names of a table's columns are kept through the stream; columns in another order are refused."""
    X, y = htru2[0][:1_000], htru2[1][:1_000]
    names = [f"feature {column}" for column in range(X.shape[1])]
    table = pa.table(dict(zip(names, X.T.astype(np.float64), strict=True)))
    machine = CoresetSVC(points=200).partial_fit(table.slice(0, 500), y[:500], classes=[-1, 1])
    machine.partial_fit(table.slice(500), y[500:])
    assert machine.feature_names_in_.tolist() == copy.deepcopy(machine).feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="same order"):
        machine.predict(table.select(names[::-1]))


@pytest.mark.parametrize(
    ("kernel", "offset", "unit"), [("linear", 1e9, 1.0), ("rbf", 1e5, 1.0), ("rbf", 0.0, 1e6), ("linear", 0.0, 1e-9)]
)
def test_features_that_are_not_standardised_may_lie_anywhere(kernel: str, offset: float, unit: float) -> None:
    """As at the origin: neither the coreset, nor the machine, nor 16 bits lose what tells the rows apart."""
    chance = np.random.default_rng(3)
    Z = chance.normal(size=(1_500, 3))
    y = Z @ [1.0, -2.0, 0.5] + 0.5 * chance.normal(size=len(Z)) > 0.0
    X = unit * Z + offset
    scaled = {"C": 1.0 / unit**2} if kernel == "linear" else {"C": 1.0, "gamma": 0.3 / unit**2}
    machine = CoresetSVC(points=400, standardize=False, kernel=kernel, **scaled)
    assert machine.fit(X[:1_000], y[:1_000]).score(X[1_000:], y[1_000:]) > 0.9
    scaler = machine.model_.scaler
    np.testing.assert_array_equal(scaler.scale, 1.0)
    np.testing.assert_allclose(scaler.mean, X[:1_000].mean(axis=0), rtol=1e-9, atol=1e-9 * unit)


def test_weights_are_routed(htru2) -> None:
    """Inside a search over a pipeline, weights that were asked for reach `fit` and `score`, and the search chooses."""
    X, y = htru2[0][:2_000].astype(float), htru2[1][:2_000]
    weight = np.where(y > 0, 5.0, 1.0)
    with config_context(enable_metadata_routing=True):
        machine = CoresetSVC(points=300, standardize=False)
        machine = machine.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        machine.set_partial_fit_request(classes=True, sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine)
        grid = {"coresetsvc__alpha": [1e-4, 1e-1], "coresetsvc__points": [300, 600]}
        search = GridSearchCV(pipeline, grid, cv=3).fit(X, y, sample_weight=weight)
    assert search.best_params_["coresetsvc__alpha"] == 1e-4
    assert search.best_score_ > 0.9
    best = search.best_estimator_[-1]
    assert best._stream.learner.cut().moments.weight == pytest.approx(weight.sum())


def test_labels_from_nowhere_and_other_classes_are_refused(htru2) -> None:
    """By name, and nothing is learned of them."""
    X, y = htru2[0][:50], htru2[1][:50]
    machine = CoresetSVC().partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="not one of the classes"):
        machine.partial_fit(X, np.full(50, 7))
    with pytest.raises(ValueError, match="first call"):
        machine.partial_fit(X, y, classes=[0, 1])
    assert machine._stream.rows == 50


@pytest.mark.long(keep=("linear",))
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_probabilities_come_near_those_of_all_the_data(htru2, kernel) -> None:
    """From 5,000 points held, 500 of them the audit sample, with 45 pulsars, Brier score and log loss on fresh rows
    are those of cross-validation over all 12,000 but for the sample's noise."""
    X, y = htru2[0].astype(float), htru2[1]
    ours = CoresetSVC(points=5_000, kernel=kernel, probability="sigmoid").fit(X[:12_000], y[:12_000])
    whole = make_pipeline(StandardScaler(), SVC(C=1.0 / (1e-4 * 9_600), kernel=kernel))
    theirs = CalibratedClassifierCV(whole, method="sigmoid").fit(X[:12_000], y[:12_000])
    fresh = slice(12_000, None)
    said = [one.predict_proba(X[fresh])[:, 1] for one in (ours, theirs)]
    for loss in (brier_score_loss, log_loss):
        found, oracle = (loss(y[fresh], one) for one in said)
        assert found < 1.4 * oracle
    assert list(ours.predict_proba(X[:3]).sum(axis=1)) == pytest.approx([1.0] * 3)


def test_probabilities_exist_only_where_they_were_asked_for(htru2) -> None:
    """As with SVC; of few points of a class they are rough, with a warning, and of none asking says why not."""
    X, y = htru2[0], htru2[1]
    assert not hasattr(CoresetSVC(), "predict_proba")
    rare = np.flatnonzero(y < 0)[:500]
    X, y = np.concatenate((X[rare], X[y > 0][:3])), np.concatenate((y[rare], y[y > 0][:3]))
    with pytest.warns(UserWarning, match=r"no probabilities: .* points of the positive label, but 10 are needed"):
        machine = CoresetSVC(probability="sigmoid").fit(X, y)
    assert set(machine.predict(X)) <= {-1, 1}
    rough = machine.predict_proba(X)[:, 1]
    assert rough[y > 0].mean() > 3 * rough[y < 0].mean()
    assert np.isfinite(rough).all()
    assert machine.model_.probability is not None
    machine = CoresetSVC(probability="sigmoid").partial_fit(X[:500], y[:500], classes=[-1, 1])
    with pytest.warns(UserWarning, match="the audit sample holds 0 points of the positive label"):
        machine.predict(X)
    with pytest.raises(ValueError, match="this classifier has no probabilities: the audit sample holds 0 points"):
        machine.predict_proba(X)


@pytest.mark.filterwarnings("error::streamsvm.estimators.stream.CoresetWarning")
def test_a_sorted_stream_is_warned_of_and_a_shuffled_one_is_not(htru2) -> None:
    """What a trainer logs of its coreset, the estimator warns of, and says for each condition what to do."""
    assert REMEDIES.keys() == MEANINGS.keys()
    X, y = htru2
    CoresetSVC(points=2_000).fit(X, y)
    order = np.argsort(y, kind="stable")
    with pytest.warns(CoresetWarning, match=r"points of one label only.* \(count so far: \d+\)\. What to do: shuffle"):
        CoresetSVC(points=2_000).fit(X[order], y[order])


@pytest.mark.filterwarnings("error::streamsvm.estimators.stream.CoresetWarning")
def test_a_stream_that_drifts_is_warned_of_once() -> None:
    """With the feature's name; one that goes on as it was is not."""
    random, machine = np.random.default_rng(0), CoresetSVC(points=2_000)
    said = []
    for portion in range(24):
        X = pd.DataFrame(random.normal(size=(4_000, 2)), columns=["age", "height"])
        y = np.where(X["height"] + random.normal(size=4_000) > 0.0, "tall", "small")
        X["age"] += portion >= 12
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            machine.partial_fit(X, y, classes=["small", "tall"])
        said += [(portion, str(one.message)) for one in caught if issubclass(one.category, CoresetWarning)]
    assert len(said) == 1
    assert said[0][0] > 12
    assert re.search(r"the feature age had the mean .* before and has .* now.* What to do: .*'adaptive'", said[0][1])


def test_an_end_before_the_tolerance_is_warned_of(htru2) -> None:
    """A tolerance below what float64 holds is not met, and the estimator says so, as SVC does."""
    X, y = htru2
    with pytest.warns(ConvergenceWarning, match="the solver ended before the KKT gap met tol = 1e-18"):
        CoresetSVC(tol=1e-18).fit(X[:2_000], y[:2_000])


@pytest.mark.parametrize(
    ("changed", "said", "classes"),
    [
        ({"train_points": 300}, "train_points from 20000 to 300", 2),
        ({"points": 500}, "points from 400 to 500", 3),
        ({"seed": 4}, "seed from 0 to 4", 2),
    ],
)
def test_a_parameter_changed_in_mid_stream_is_refused(htru2, changed, said, classes) -> None:
    """`partial_fit` of a copy names what was changed; set back, the stream goes on; `fit` takes the new one."""
    X, y = htru2[0][:1_200], np.arange(1_200) % classes
    machine = pickle.loads(pickle.dumps(CoresetSVC(points=400).partial_fit(X[:600], y[:600])))
    before = {name: getattr(machine, name) for name in changed}
    machine.set_params(**changed)
    with pytest.raises(ValueError, match=f"changed in mid-stream: .*{said}"):
        machine.partial_fit(X[600:], y[600:])
    machine.set_params(**before).partial_fit(X[600:], y[600:])
    assert machine.training_set_sha256_ == CoresetSVC(points=400).fit(X, y).training_set_sha256_
    machine.set_params(**changed).fit(X, y)


@pytest.mark.parametrize(
    ("changed", "classes"),
    [
        ({"C": 3.0, "probability": "sigmoid"}, 2),
        ({"kernel": "rbf", "loss": "squared_hinge"}, 2),
        ({"class_weight": {1: 2.0}}, 3),
        ({"tune": "auto"}, 2),
    ],
)
def test_parameters_of_training_change_without_forgetting(htru2, changed, classes) -> None:
    """`retrain` needs no row; what is learned stays what it was, in copies, too; set back, all is as before."""
    X, y = htru2[0][:1_800], np.arange(1_800) % classes
    one, same = (CoresetSVC(points=400).fit(X[:1_200], y[:1_200]) for _ in range(2))
    before = {name: getattr(one, name) for name in changed}
    one = pickle.loads(pickle.dumps(one)).set_params(**changed).retrain()
    assert one.training_set_sha256_ == same.training_set_sha256_
    assert (one.decision_function(X) != same.decision_function(X)).any()
    one = pickle.loads(pickle.dumps(one))
    one.partial_fit(X[1_200:], y[1_200:])
    same.partial_fit(X[1_200:], y[1_200:])
    assert one.training_set_sha256_ == same.training_set_sha256_
    assert one.model_config.learned_sha256() == same.model_config.learned_sha256()
    one.set_params(**before).retrain()
    np.testing.assert_array_equal(one.decision_function(X), same.decision_function(X))
    assert one.model_config.canonical() == same.model_config.canonical()


def test_a_linear_coreset_serves_an_rbf_machine() -> None:
    """What a plane cannot tell apart a machine with another kernel does, of the same points."""
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 4))
    y = X[:, 0] * X[:, 1] > 0
    machine = CoresetSVC(points=2_000).fit(X, y)
    assert machine.score(X, y) < 0.6
    assert machine.set_params(kernel="rbf", alpha=1e-3).retrain().score(X, y) > 0.9


def test_an_rbf_coreset_serves_a_tuned_linear_machine(htru2) -> None:
    """Which is tuned by folds: the pilots' landmarks are of another kernel."""
    machine = CoresetSVC(kernel="rbf").fit(htru2[0][:2_000], htru2[1][:2_000])
    assert machine.model_config.coreset.landmarks
    machine.set_params(kernel="linear", tune="auto").retrain()
    assert machine.score(*htru2) > 0.97


def test_attributes_are_of_what_was_learned(htru2) -> None:
    """The class lists each; before anything was learned none exists, and none can be set."""
    names = {name for name, one in vars(CoresetSVC).items() if isinstance(one, property)}
    assert {"C_", "alpha_", "coef_", "coreset_", "fit_", "gamma_", "horizons_", "intercept_", "model_"} < names
    machine = CoresetSVC()
    for name in names:
        with pytest.raises(NotFittedError):  # an AttributeError, too
            getattr(machine, name)
        with pytest.raises(AttributeError):
            setattr(machine, name, 1)
    machine.fit(htru2[0][:200], htru2[1][:200])
    assert names - {*dir(machine)} == {"shapes_"}  # of another kernel
    assert not hasattr(machine.set_params(kernel="rbf").fit(htru2[0][:200], htru2[1][:200]), "coef_")


def test_probability_set_after_learning_is_named(htru2) -> None:
    """`predict_proba` says that the machine has learned without it."""
    machine = CoresetSVC().fit(htru2[0][:200], htru2[1][:200]).set_params(probability="sigmoid")
    with pytest.raises(ValueError, match="probability was set after it had learned"):
        machine.predict_proba(htru2[0][:2])


def test_the_estimators_load_no_kafka_client() -> None:
    """Importing them is for notebooks: neither the client library nor the package that knows it is loaded."""
    code = "import sys, streamsvm.estimators; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"confluent_kafka", "streamsvm.kafka"} & set(done.stdout.split())


def test_a_pickle_that_lacks_a_part_is_named(htru2) -> None:
    """Whoever asks, the part of the estimator that is missing is named; so is one of its stream, at loading."""
    X, y = htru2[0][:200], htru2[1][:200]
    kept = pickle.dumps(CoresetSVC(probability="sigmoid").fit(X, y))
    for part in ("features", "probability", "points", "classes_", "n_features_in_"):
        half = pickle.loads(kept)
        del vars(half)[part]
        for ask in (half.predict, half.predict_proba, lambda X, half=half: half.partial_fit(X, y)):
            with pytest.raises(ValueError, match=f"of CoresetSVC was altered: {part} is missing; fit it again"):
                ask(X)
    for part in ("learned", "made", "weight"):
        state = pickle.loads(kept).__getstate__()
        for parts in (state["_stream"], state["_stream"]["made"]):
            parts.pop(part, None)
        with pytest.raises(ValueError, match=f"the saved state of this CoresetSVC lacks '{part}'"):
            CoresetSVC.__new__(CoresetSVC).__setstate__(state)


TUNED = [
    CoresetSVC(points=600, tune="auto"),
    CoresetSVC(points=600, tune="auto", kernel="rbf"),
    CoresetSVC(points=600, tune="auto", C=1.0, class_weight="balanced"),
]


@pytest.mark.parametrize("estimator", TUNED, ids=["linear", "rbf", "C"])
def test_the_table_says_what_was_chosen(estimator: CoresetSVC, htru2) -> None:
    """The best of the table is in force, and the attributes are those of a machine that is given it; a copy has it."""
    X, y = htru2[0][:3_000], htru2[1][:3_000]
    machine = clone(estimator).fit(X, y)
    best = max(machine.tuning_, key=lambda score: score.mean)
    assert pytest.approx(best.C, rel=1e-12) == machine.C_
    assert machine.alpha_ == pytest.approx(best.alpha, rel=1e-12)
    assert machine.gamma_ == best.gamma
    given = {"C": best.C} if estimator.C else {"alpha": best.alpha}
    width = {} if best.gamma is None else {"gamma": best.gamma}
    trained = clone(estimator).set_params(tune=None, **given, **width).fit(X, y)
    agree = machine.predict(X) == trained.predict(X)
    assert agree.mean() > 0.98  # pilots go by what is configured: the coresets are two samples of the same rows
    copied = pickle.loads(pickle.dumps(machine))
    assert (copied.tuning_, copied.alpha_) == (machine.tuning_, machine.alpha_)
    assert np.array_equal(copied.decision_function(X), machine.decision_function(X))


def test_the_shapes_of_an_additive_machine() -> None:
    """By the names of the columns, exact, and drawn; another kernel has none."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2)) * [1.0, 10.0]
    y = np.abs(X[:, 0]) > 0.7
    machine = CoresetSVC(points=500, kernel="additive").fit(pd.DataFrame(X, columns=["amount", "age"]), y)
    first = machine.shapes_[0]
    assert first.names == ("amount",)
    assert (first.values[0] > 0.0, first.values[-1] > 0.0) == (True, True)
    added = sum(
        float(one.on([X[0, [["amount", "age"].index(name)]] for name in one.names]).squeeze())
        for one in machine.shapes_
    )
    frame = pd.DataFrame(X[:1], columns=["amount", "age"])
    assert added + machine.model_.machine.intercept == pytest.approx(machine.decision_function(frame)[0])
    assert CoresetSVC(points=500, kernel="additive").fit(X, y).shapes_[0].names == ("x[0]",)
    straight = CoresetSVC(points=500).fit(X, y)
    for asked in (lambda: straight.shapes_, straight.plot_shapes):
        with pytest.raises(AttributeError, match='shapes_ exists with kernel="additive" only'):
            asked()
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install '.[plot]'")
    matplotlib.use("Agg")
    assert [one.get_xlabel() for one in machine.plot_shapes(most=1)] == ["amount"]
