"""Raw events as an estimator is given them, by the same `[features]` as a trainer."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.branches.events.event_features import SENT_OTHERWISE
from streamsvm.branches.events.event_points import EventReader
from streamsvm.branches.events.features.frames import events_of
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.ingest.decoding import PointsGiven
from streamsvm.ingest.row import LARGEST_FEATURE
from streamsvm.model.features import InvalidFeatures


def recipe_given(features: Recipe | Mapping[str, Any] | str | Path) -> Recipe:
    """Return the recipe that the parameter `features` means.

    Parameters
    ----------
    features : Recipe, mapping, str or Path
        A version's recipe; the table `[features]`; or the path of a configuration file, of which `[features]` and
        `[events]` are read.

    Raises
    ------
    ValueError
        If it is something else, the file cannot be read, or an option has no meaning; the message says which.
    """
    if isinstance(features, Recipe):
        return features
    if isinstance(features, Mapping):
        return recipe_from(features, {})
    if not isinstance(features, str | Path):
        raise ValueError(
            f"features is a {type(features).__name__}: give a table of features, the path of a configuration file, or "
            "the recipe of a version"
        )
    try:
        tables = tomllib.loads(Path(features).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"features: the configuration file {features} cannot be read: {error}") from None
    if "features" not in tables:
        raise ValueError(f"features: the configuration file {features} has no [features]: declare them there")
    return recipe_from(tables["features"], tables.get("events", {}))


def points_given(events: Any, y: Any, recipe: Recipe) -> PointsGiven:
    """Make points of raw events, as a trainer does.

    Parameters
    ----------
    events : sequence of mappings, or data frame
    y : array-like of shape (n,) or None
        None: the labels are read from the field that the recipe names.
    recipe : Recipe

    Raises
    ------
    InvalidFeatures
        A `ValueError`, naming the first event that a trainer would reject, and the field.
    ValueError
        If there are no labels, or no events.
    """
    label = recipe.label
    if y is None and label is None:
        raise ValueError("y is missing: pass labels, or name their field by events.label in the configuration file")
    config = PointsConfig(dtype="float64", **points_of(recipe))
    made = EventReader(recipe, config, LARGEST_FEATURE[config.dtype], labeled=y is None).read(events_of(events))
    if made.faults:
        row = min(made.faults)
        raise InvalidFeatures(f"event {row}: {made.faults[row].what}", SENT_OTHERWISE)
    if not len(made.points):
        raise ValueError("0 events were given; at least one is needed")
    if y is not None or label is None:
        return PointsGiven(made.points.X, y, made.points.weight, None)
    classes = label.classes
    of_points = made.points.y if len(classes) > 2 else made.points.y > 0
    labels = np.array(classes)[of_points.astype(np.intp)]
    return PointsGiven(made.points.X, labels, made.points.weight, classes)
