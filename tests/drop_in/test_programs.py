"""Our classes in the places of scikit-learn's: programs of the kind that its documentation has give the same scores.

A program gets the class and returns its scores; the class is the only difference, and it is what `python -m
streamsvm.drop_in` puts into a program. Data: scikit-learn's own small sets and HTRU2, and texts and pictures that are
drawn from a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_friedman1
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.feature_selection import RFE, SelectKBest, f_classif
from sklearn.metrics import accuracy_score, balanced_accuracy_score, brier_score_loss, f1_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, learning_curve, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

from streamsvm import STDASVC, STDASVR, STDAOneClassSVM
from streamsvm.datasets import load_htru2

Scores = dict[str, float]
PULSAR_ROWS: Final = 4_000


@cache
def pulsars() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of HTRU2, one pulsar in eleven, in an order drawn once."""
    X, y, _ = load_htru2()
    chosen = np.random.default_rng(0).permutation(len(y))[:PULSAR_ROWS]
    return X[chosen].astype(np.float64), (y[chosen] > 0).astype(int)


def pipeline(classifier: type) -> Scores:
    """A scaler and a machine, cross-validated on two sets."""
    scores = {}
    for name, load in {"breast cancer": load_breast_cancer, "wine": load_wine}.items():
        X, y = load(return_X_y=True)
        y = (y == 1).astype(int)
        machine = make_pipeline(StandardScaler(), classifier(C=1.0))
        scores[f"{name}, accuracy"] = float(cross_val_score(machine, X, y, cv=5).mean())
        scores[f"{name}, AUC"] = float(cross_val_score(machine, X, y, cv=5, scoring="roc_auc").mean())
    return scores


def grid_search(classifier: type) -> Scores:
    """C, gamma and the kernel chosen by a grid; what was chosen is a score, too."""
    X, y = load_breast_cancer(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    machine = make_pipeline(StandardScaler(), classifier())
    name = machine.steps[-1][0]
    grid = [
        {f"{name}__kernel": ["rbf"], f"{name}__C": [0.1, 1.0, 10.0, 100.0], f"{name}__gamma": [1e-3, 1e-2, 1e-1]},
        {f"{name}__kernel": ["linear"], f"{name}__C": [0.1, 1.0, 10.0]},
    ]
    search = GridSearchCV(machine, grid, cv=StratifiedKFold(5, shuffle=True, random_state=0)).fit(train, y_train)
    return {
        "best C": search.best_params_[f"{name}__C"],
        "best gamma (0: linear)": search.best_params_.get(f"{name}__gamma", 0.0),
        "accuracy in search": float(search.best_score_),
        "test accuracy": accuracy_score(y_test, search.predict(test)),
    }


def one_versus_rest(classifier: type) -> Scores:
    """Handwritten digits, one machine a digit; and iris."""
    X, y = load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.5, shuffle=False)
    machine = OneVsRestClassifier(classifier(gamma=0.26)).fit(train, y_train)
    iris = OneVsRestClassifier(classifier(kernel="linear"))
    return {
        "digits, accuracy": accuracy_score(y_test, machine.predict(test)),
        "digits, macro F1": f1_score(y_test, machine.predict(test), average="macro"),
        "iris, accuracy": float(cross_val_score(iris, *load_iris(return_X_y=True), cv=5).mean()),
    }


def class_weights(classifier: type) -> Scores:
    """Pulsars among eleven times as much noise: no weights, balanced ones, and ones of the writer's choice."""
    X, y = pulsars()
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    scaler = StandardScaler().fit(train)
    scores = {}
    weightings: dict[str, Any] = {"none": None, "balanced": "balanced", "1 : 10": {1: 10.0}}
    for name, weights in weightings.items():
        for kernel in ("linear", "rbf"):
            machine = classifier(kernel=kernel, class_weight=weights).fit(scaler.transform(train), y_train)
            predicted = machine.predict(scaler.transform(test))
            scores[f"{name}, {kernel}, balanced accuracy"] = balanced_accuracy_score(y_test, predicted)
    return scores


def calibration(classifier: type) -> Scores:
    """Probabilities by Platt's sigmoid and by isotonic regression over cross-validated decision values."""
    X, y = pulsars()
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    scores = {}
    for method in ("sigmoid", "isotonic"):
        machine = make_pipeline(StandardScaler(), classifier(gamma=0.1))
        calibrated = CalibratedClassifierCV(machine, method=method, cv=5).fit(train, y_train)
        probability = calibrated.predict_proba(test)[:, 1]
        scores[f"{method}, Brier score"] = brier_score_loss(y_test, probability)
        scores[f"{method}, AUC"] = roc_auc_score(y_test, probability)
        scores[f"{method}, log loss"] = log_loss(y_test, np.clip(probability, 1e-6, 1 - 1e-6))
    return scores


def digits(classifier: type) -> Scores:
    """Handwritten digits, one machine for each of the 45 pairs, by decision values and by votes."""
    X, y = load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.5, shuffle=False)
    machine = classifier(gamma=0.26).fit(train, y_train)
    votes = classifier(kernel="linear", decision_function_shape="ovo").fit(train, y_train)
    return {
        "rbf, accuracy": accuracy_score(y_test, machine.predict(test)),
        "rbf, macro F1": f1_score(y_test, machine.predict(test), average="macro"),
        "linear, accuracy": accuracy_score(y_test, votes.predict(test)),
    }


@cache
def texts() -> tuple[tuple[str, ...], np.ndarray]:
    """Return texts on four subjects: most words are everyone's, some are a subject's."""
    random = np.random.default_rng(0)
    subject = random.integers(0, 4, 1_200)
    common = random.zipf(1.4, size=(len(subject), 60)) % 3_000
    own = 3_000 + 400 * subject[:, None] + random.zipf(1.3, size=(len(subject), 2)) % 400
    return tuple(" ".join(f"w{word}" for word in line) for line in np.hstack((common, own))), subject


def text(classifier: type) -> Scores:
    """Texts as 65,536 hashed columns, sparse, and a linear machine: cross-validated, and one test."""
    documents, y = texts()
    machine = make_pipeline(HashingVectorizer(n_features=1 << 16), TfidfTransformer(), classifier(kernel="linear"))
    train, test, y_train, y_test = train_test_split(documents, y, test_size=0.5, random_state=0, stratify=y)
    predicted = machine.fit(train, y_train).predict(test)
    return {
        "accuracy": accuracy_score(y_test, predicted),
        "macro F1": f1_score(y_test, predicted, average="macro"),
        "accuracy in folds": float(cross_val_score(machine, train, y_train, cv=3).mean()),
    }


@cache
def faces() -> tuple[np.ndarray, np.ndarray]:
    """Return pictures of 32 by 32 of twelve persons: a smooth face each, light from a side, and noise."""
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(12), 40)
    waves = np.cos(np.outer(np.linspace(0.0, np.pi, 32), np.arange(6)))
    face = np.einsum("ai,bj,pij->pab", waves, waves, random.normal(size=(12, 6, 6)))
    light = np.einsum("n,a->na", random.normal(scale=3.0, size=len(person)), np.linspace(-1.0, 1.0, 32))
    pictures = face[person] + light[:, :, None] + random.normal(scale=24.0, size=(len(person), 32, 32))
    return pictures.reshape(len(person), -1), person


def eigenfaces(classifier: type) -> Scores:
    """Main components of faces, then C and gamma by a grid over balanced classes."""
    X, y = faces()
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    components = PCA(n_components=40, whiten=True, svd_solver="full").fit(train)
    grid = {"C": [1.0, 10.0, 100.0], "gamma": [0.003, 0.01, 0.03]}
    search = GridSearchCV(classifier(class_weight="balanced"), grid, cv=3).fit(components.transform(train), y_train)
    return {
        "best C": search.best_params_["C"],
        "best gamma": search.best_params_["gamma"],
        "accuracy in search": float(search.best_score_),
        "test accuracy": accuracy_score(y_test, search.predict(components.transform(test))),
    }


def learning_curves(classifier: type) -> Scores:
    """Accuracy on pulsars over the number of rows that were learned."""
    X, y = pulsars()
    machine = make_pipeline(StandardScaler(), classifier(gamma=0.1))
    sizes, train, test = learning_curve(machine, X, y, cv=3, train_sizes=[0.1, 0.3, 0.6, 1.0])
    scores = {f"{size} rows, train": float(value) for size, value in zip(sizes, train.mean(axis=1), strict=True)}
    return scores | {f"{size} rows, test": float(value) for size, value in zip(sizes, test.mean(axis=1), strict=True)}


def feature_selection(classifier: type) -> Scores:
    """The features of largest F, and those left when the least coefficient goes again and again."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    scores = {}
    for count in (3, 10, 30):
        machine = make_pipeline(SelectKBest(f_classif, k=count), classifier())
        scores[f"{count} by F, accuracy"] = float(cross_val_score(machine, X, y, cv=5).mean())
    left = RFE(classifier(kernel="linear", tol=1e-6), n_features_to_select=5).fit(X, y)
    scores["sum of the ranks of even features"] = float(left.ranking_[::2].sum())
    scores["5 left, accuracy"] = float(cross_val_score(classifier(), X[:, left.support_], y, cv=5).mean())
    return scores


def one_class(classifier: type) -> Scores:
    """The border of ordinary pulsar candidates, and who falls outside of it."""
    X, y = pulsars()
    kind = STDAOneClassSVM if issubclass(classifier, STDASVC) else OneClassSVM
    scores = {}
    for nu in (0.02, 0.1, 0.3):
        machine = make_pipeline(StandardScaler(), kind(nu=nu, gamma=0.1)).fit(X[y == 0][:2_500])
        values = machine.decision_function(X)
        scores[f"nu {nu}, AUC"] = float(roc_auc_score(y, -values))
        # Points nearer to the border than the tolerance may fall on either side of it.
        scores[f"nu {nu}, outside"] = float(np.count_nonzero(values < -1e-2))
    return scores


def regression(classifier: type) -> Scores:
    """A function of ten features with noise, by three kernels, cross-validated."""
    X, y = make_friedman1(900, noise=1.0, random_state=0)
    kind = STDASVR if issubclass(classifier, STDASVC) else SVR
    scores = {}
    for kernel in ("linear", "poly", "rbf"):
        machine = make_pipeline(StandardScaler(), kind(kernel=kernel, coef0=1.0))
        scores[f"{kernel}, R2"] = float(cross_val_score(machine, X, y, cv=3).mean())
    return scores


PROGRAMS: Final[dict[str, Callable[[type], Scores]]] = {
    "pipeline": pipeline,
    "grid search": grid_search,
    "one versus rest": one_versus_rest,
    "class weights": class_weights,
    "calibration": calibration,
    "digits": digits,
    "text": text,
    "faces": eigenfaces,
    "learning curves": learning_curves,
    "feature selection": feature_selection,
    "one class": one_class,
    "regression": regression,
}
SAME = 1e-9
"""Scores that count points are equal, up to the order of a sum."""
CLOSE = 1e-3
"""Probabilities, ranks and predictions follow decision values, which differ by what tolerances of 1e-3 leave."""
CONTINUOUS = ("calibration", "one class", "regression")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_scores_are_svcs(name: str) -> None:
    """The same program text gives the scores of SVC, and grid search the same choice."""
    ours, theirs = PROGRAMS[name](STDASVC), PROGRAMS[name](SVC)
    assert ours == pytest.approx(theirs, rel=0.0, abs=CLOSE if name in CONTINUOUS else SAME)
