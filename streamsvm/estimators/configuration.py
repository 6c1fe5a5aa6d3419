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
OF_THE_CORESET: Final = ("reducer", "memory", "window", "half_life", "points", "train_points")
OF_THE_MACHINE: Final = (
    *("kernel", "loss", "gamma", "alpha", "C", "multiclass"),
    *("standardize", "probability", "cost", "target", "tune"),
)
"""Parameters that are options of the same name."""
ALLOWED: Final = {
    "points": "a whole number, at least 16",
    "alpha": "a number from 1e-30 to 1, or None",
    "C": "a number from 1e-100 to 1e100, or None",
    "kernel": "'linear', 'rbf' or 'additive'",
    "loss": "'hinge', 'squared_hinge' or None",
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
    """Return the configuration of the trainer that would learn as a `CoresetSVC` with classes does.

    Raises
    ------
    ValueError
        If a parameter is not allowed, under its own name; or does not go with another.
    """
    classes, weights = estimator.classes_.tolist(), estimator.class_weight
    if isinstance(weights, dict):
        for label in weights:
            if label not in classes:
                raise ValueError(f"class_weight has the label {label!r}, which is not one of the classes {classes}")
        weights = tuple(float(weights.get(label, 1.0)) for label in estimator.classes_)
    require({"svm.cost": estimator.cost, "svm.target": estimator.target, LABELS: len(classes)}, SPELLED)
    points: dict[str, Any] = {"dimension": dimension}
    if all(isinstance(label, bool | int | str) for label in classes) and not label_fault(classes):
        points["labels"] = tuple(classes)
    elif len(classes) > 2:  # messages cannot have these labels: their numbers stand for them, of two -1 and 1
        points["labels"] = tuple(range(len(classes)))
    try:
        further: dict[str, Any] = {}
        if recipe is not None:
            decoding = decoding_of(recipe)
            if decoding.labels_of(recipe) not in (None, tuple(classes)):  # nothing in an event stands for these
                recipe = decoding.without_labels(recipe)
            points |= decoding.points_options(recipe)
            further = {**decoding.model_options(recipe)}
        return ModelConfig(
            **further,
            points=PointsConfig(dtype=dtype, **points),
            coreset=CoresetConfig(
                **{name: getattr(estimator, name) for name in OF_THE_CORESET},
                structure=estimator.structure if estimator.memory == "all" else None,
            ),
            svm=SvmConfig(
                **{name: getattr(estimator, name) for name in OF_THE_MACHINE},
                landmarks=1 << 20 if estimator.kernel == "rbf" else None,  # no message has to have room for it
                class_weight=weights or "none",
                tolerance=estimator.tol,
            ),
            seed=estimator.seed,
        )
    except ValidationError as error:
        raise ValueError("; ".join(dict.fromkeys(_said(estimator, one) for one in error.errors()))) from None


def continued(estimator: Any, begun: ModelConfig, recipe: msgspec.Struct | None) -> ModelConfig:
    """Return the configuration that goes on from `begun` with an estimator's parameters: of training any may change.

    Raises
    ------
    ValueError
        If one of those changed by which rows are learned.
    """
    config = configuration_of(estimator, begun.points.dimension, begun.points.dtype, recipe)
    config = config.begun_with(begun.canonical())  # newer rules are not a change
    now, before = config.model_dump(), begun.model_dump()
    changed = [
        f"{name} from {before[part][name]!r} to {value!r}"
        for part in ("points", "coreset")
        for name, value in now[part].items()
        if value != before[part][name]
    ]
    if config.recipe != begun.recipe:
        changed = ["features"]
    if now["seed"] != before["seed"]:
        changed.append(f"seed from {before['seed']} to {now['seed']}")
    if changed:
        raise ValueError(
            f"a parameter was changed in mid-stream: {', '.join(changed)}. Rows are learned by it: set it back to go "
            "on, or call fit with all rows"
        )
    return config


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
