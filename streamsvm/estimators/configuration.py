"""The configuration of a trainer that learns as a `CoresetSVC` does, and what it refuses in the estimator's words."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec
from pydantic import ValidationError

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig, SvmConfig
from streamsvm.ingest.decoding import decoding_of
from streamsvm.model.described import label_fault
from streamsvm.supports import LABELS, require

PARAMETERS: Final = {"tolerance": "tol"}
"""Parameters whose option has another name."""
SECTION: Final = re.compile(r"\b(svm|coreset|points)\.(?=[A-Za-z])")
"""Sections of the configuration before an option's name, which the estimator does not have."""
SPELLED: Final = {"svm.cost": "cost", "svm.target": "target", "svm.multiclass": "multiclass", LABELS: "y"}
"""Parameters by the names of the options in the table of combinations."""
ALLOWED: Final = {
    "points": "a whole number, at least 16",
    "alpha": "a number from 1e-30 to 1, or None",
    "C": "a number from 1e-100 to 1e100, or None",
    "kernel": "'linear' or 'rbf'",
    "gamma": "'scale', 'auto' or a positive number",
    "tol": "a number above 0, at most 1",
    "class_weight": "a dict of positive numbers, 'balanced' or None",
    "standardize": "True or False",
    "probability": "'sigmoid' or None",
    "memory": "'all', 'window', 'decay' or 'adaptive'",
    "window": "a whole number, at least 8, or None",
    "half_life": "a whole number, at least 8, or None",
    "structure": "'tree', 'chain' or 'counter'",
    "multiclass": "'one_vs_one', 'one_vs_rest' or None",
    "reducer": "'uniform' or 'calibrated'",
    "train_points": "a whole number, at least 2",
    "tune": "'auto' or None",
    "seed": "a whole number, not negative",
}
"""What a parameter may be, where the message of the option's check is not for it."""


def configuration_of(
    estimator: Any, dimension: int, dtype: Literal["float32", "float64"], recipe: msgspec.Struct | None
) -> ModelConfig:
    """Return the configuration of the trainer that would learn as an estimator does.

    Parameters
    ----------
    estimator : CoresetSVC
        With its classes.
    dimension : int
    dtype : str
    recipe : Recipe or None

    Raises
    ------
    ValueError
        If a parameter is not allowed, under its own name; or does not go with another.
    """
    weights = _class_weights(estimator)
    require({"svm.cost": estimator.cost, "svm.target": estimator.target, LABELS: len(estimator.classes_)}, SPELLED)
    try:
        learned = None if recipe is None else _with_a_label_of(recipe, estimator.classes_.tolist())
        own: dict[str, Any] = {"dimension": dimension}
        further: dict[str, Any] = {}
        if learned is not None:
            decoding = decoding_of(learned)
            own, further = {**decoding.points_options(learned)}, {**decoding.model_options(learned)}
        return ModelConfig(
            **further,
            points=PointsConfig(dtype=dtype, **{**_labels(estimator), **own}),
            coreset=CoresetConfig(
                reducer=estimator.reducer,
                memory=estimator.memory,
                window=estimator.window,
                half_life=estimator.half_life,
                structure=estimator.structure if estimator.memory == "all" else None,
                points=estimator.points,
                train_points=estimator.train_points,
            ),
            svm=SvmConfig(
                landmarks=1 << 20 if estimator.kernel == "rbf" else None,  # no message has to have room for it
                kernel=estimator.kernel,
                gamma=estimator.gamma,
                alpha=estimator.alpha,
                C=estimator.C,
                class_weight=weights or "none",
                multiclass=estimator.multiclass,
                standardize=estimator.standardize,
                probability=estimator.probability,
                cost=estimator.cost,
                target=estimator.target,
                tolerance=estimator.tol,
                tune=estimator.tune,
            ),
            seed=estimator.seed,
        )
    except ValidationError as error:
        raise ValueError("; ".join(dict.fromkeys(_said(estimator, one) for one in error.errors()))) from None


def check_unchanged(estimator: Any, begun: ModelConfig, recipe: msgspec.Struct | None) -> None:
    """Refuse parameters that were changed in mid-stream: what was learned so far was learned with the others.

    Parameters
    ----------
    estimator : CoresetSVC
    begun : ModelConfig
        With which its stream began.
    recipe : Struct or None

    Raises
    ------
    ValueError
    """
    config = configuration_of(estimator, begun.points.dimension, begun.points.dtype, recipe)
    config = config.begun_with(begun.canonical())  # newer rules are not a change
    now, before = config.model_dump(), begun.model_dump()
    changed = [
        f"{name} from {before[part][name]!r} to {value!r}"
        for part in ("points", "coreset", "svm")
        for name, value in now[part].items()
        if value != before[part][name]
    ]
    if config.recipe != begun.recipe:
        changed = ["features"]
    if now["seed"] != before["seed"]:
        changed.append(f"seed from {before['seed']} to {now['seed']}")
    if changed:
        raise ValueError(
            f"a parameter was changed in mid-stream: {', '.join(changed)}. Set it back to go on with partial_fit, "
            "or call fit with all rows"
        )


def _class_weights(estimator: Any) -> Any:
    """Return the weights of classes as the configuration takes them, and checks them."""
    if not isinstance(estimator.class_weight, dict):
        return estimator.class_weight
    known = estimator.classes_.tolist()
    for label in estimator.class_weight:
        if label not in known:
            raise ValueError(f"class_weight has the label {label!r}, which is not one of the classes {known}")
    return tuple(float(estimator.class_weight.get(label, 1.0)) for label in estimator.classes_)


def _said(estimator: Any, error: Any) -> str:
    """Return what the configuration refused, under the name that the estimator has for it, and what is allowed."""
    place = [str(part) for part in error["loc"]]
    name = PARAMETERS.get(place[0], place[0]) if place else ""
    own = error["msg"].removeprefix("Value error, ").replace("labels of points.labels", "classes").removesuffix(".")
    own = SECTION.sub("", own)
    for option, parameter in PARAMETERS.items():
        own = own.replace(option, parameter)
    if error["type"] == "value_error" or name not in ALLOWED:
        return f"{name}: {own}" if name else own
    return f"{name} = {getattr(estimator, name)!r}: give {ALLOWED[name]}"


def _labels(estimator: Any) -> dict[str, Any]:
    """Return the labels, if messages can have them; else -1 and 1 stand for them, or of more their numbers."""
    labels = tuple(estimator.classes_.tolist())
    if all(isinstance(label, bool | int | str) for label in labels) and not label_fault(labels):
        return {"labels": labels}
    return {"labels": tuple(range(len(labels)))} if len(labels) > 2 else {}


def _with_a_label_of(recipe: msgspec.Struct, classes: list[Any]) -> msgspec.Struct:
    """Return a recipe without its label where the classes are others: nothing then stands for them in an event."""
    decoding = decoding_of(recipe)
    labels = decoding.labels_of(recipe)
    return recipe if labels is None or classes == [*labels] else decoding.without_labels(recipe)
