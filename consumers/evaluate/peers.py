"""Peers: classifiers by their dotted names, fitted on all training points; what they raise becomes a note."""

from __future__ import annotations

import importlib
import inspect
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from consumers.evaluate.plan import EvaluationRow, Plan, Step
from streamsvm.errors import ConfigurationError
from streamsvm.estimators.evaluation import Objectives, ProbabilityScores, decisions_of, probability_scores, scores
from streamsvm.learning.tasks import OneVsRest
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import Model
from streamsvm.points import Features, Points


def resolve(name: str) -> Any:
    """Return a new classifier by the dotted name of its class, with that class's own defaults.

    Raises
    ------
    ConfigurationError
        If it cannot be imported, is not a classifier, or cannot be made without parameters.
    """
    module, _, attribute = name.rpartition(".")
    remedy = "Give the dotted name of a classifier, such as sklearn.svm.SVC."
    if not (module and all(part.isidentifier() for part in name.split("."))):
        raise ConfigurationError(f"--against {name!r} is not a dotted name", remedy)
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except Exception as error:  # noqa: BLE001 - foreign code: what its import raises is not ours to know
        raise ConfigurationError(f"--against {name} cannot be imported: {one_line(error)}", remedy) from None
    if found is None:
        raise ConfigurationError(f"--against {name}: {module} has no {attribute}", remedy)
    if not (inspect.isclass(found) and issubclass(found, BaseEstimator) and hasattr(found, "fit")):
        raise ConfigurationError(f"--against {name} is not a scikit-learn classifier", remedy)
    try:
        made = found()
    except Exception as error:  # noqa: BLE001 - the same
        what = f"--against {name} cannot be made without parameters: {one_line(error)}"
        raise ConfigurationError(what, remedy) from None
    if not is_classifier(made):
        raise ConfigurationError(f"--against {name} is not a classifier", remedy)
    return made


def peer(name: str, classifier: Any, plan: Plan, objective: Objectives, test: Points, step: Step) -> EvaluationRow:
    """Fit a peer on all training points, scaled; what goes wrong in foreign code becomes a note."""
    step(name, 0, None)
    given = _given(classifier, plan, objective)
    note = ", ".join(f"{key}={value:.6g}" if key == "C" else f"{key}={value}" for key, value in given.items())
    note = f"all training points, scaled; {note or 'its own defaults'}"
    knows_classes = "class_weight" in given
    train = objective.points if knows_classes else class_weighted(objective)
    Z = objective.scaler.transform(train.X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            classifier.set_params(**given)
            begun = time.perf_counter()
            if (train.weight == 1.0).all():
                classifier.fit(Z, train.y)
            else:
                classifier.fit(Z, train.y, sample_weight=train.weight)
            seconds = time.perf_counter() - begun
            aside = objective.scaler.transform(test.X)
            scored, judged = scores(test, decisions_of(classifier, aside)), _judged(classifier, plan, aside, test)
        except Exception as error:  # noqa: BLE001 - foreign code: what it raises is not ours to know
            return EvaluationRow(name=name, note=f"failed: {one_line(error)}")
    note += "".join(f"; {one_line(text)}" for text in dict.fromkeys(str(warning.message) for warning in caught))
    machines = objective.machines_of(classifier)
    models = None if machines is None else [Model(objective.scaler, machine) for machine in machines]
    reached = None if models is None else objective.value(models)
    return EvaluationRow(
        name=name,
        objective=reached,
        gap=None,
        scores=scored,
        points_per_s=len(train) / max(seconds, 1e-9),
        seconds=seconds,
        points_held=len(train),
        note=note,
        probabilities=judged,
    )


def _judged(classifier: Any, plan: Plan, Z: Features, test: Points) -> ProbabilityScores | None:
    """Score a peer's own probabilities of two labels, if probabilities are asked for and it has any."""
    if plan.probability is None or not hasattr(classifier, "predict_proba"):
        return None
    return probability_scores(test, np.asarray(classifier.predict_proba(Z)[:, 1], np.float64))


def _given(classifier: Any, plan: Plan, objective: Objectives) -> dict[str, Any]:
    """Return the parameters that a peer shares with the objective: C and what goes with it, and the seed."""
    known, given = classifier.get_params(deep=False), dict[str, Any]()
    if "C" in known:
        given["C"] = objective.penalty
        if "kernel" in known:
            given["kernel"] = plan.kernel
        if "gamma" in known and isinstance(objective.kernel, RbfKernel):
            given["gamma"] = objective.kernel.gamma
    if "class_weight" in known and plan.class_weight is not None:
        given["class_weight"] = plan.weights_of_labels
    if "random_state" in known:
        given["random_state"] = plan.seed
    return given


def class_weighted(objective: Objectives) -> Points:
    """Return the training points, those of each label weighed as the objective does: for who knows no class weights."""
    points, task = objective.points, objective.task
    if task.classes > 2:
        seen = np.bincount(points.y, weights=points.weight, minlength=task.classes).astype(np.float64)
        return points.class_weighted(task.class_weights(seen)) if isinstance(task, OneVsRest) else points
    return points.reweighted(objective.each[0].weight)


def one_line(what: object) -> str:
    """Return a message of foreign code on one line of bounded length."""
    text = " ".join(str(what).split()) or type(what).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."
