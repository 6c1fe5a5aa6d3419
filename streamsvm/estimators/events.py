"""Raw events in scikit-learn: by the same `[features]` as a trainer, a scorer and every reader of a version.

`CoresetSVC(features=...)` learns raw events; `EventVectorizer` makes the same columns for any other estimator.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from streamsvm.config import PointsConfig, points_of, recipe_from
from streamsvm.features.frames import events_of
from streamsvm.features.recipe import Recipe
from streamsvm.ingest.decoding import decoding_of
from streamsvm.model.features import InvalidFeatures
from streamsvm.model.recipes import recipes_of

_SENT_OTHERWISE: Final = (
    "Send the field as the trainer's events have it, or let the feature's option missing allow for it."
)


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


@dataclass(frozen=True, slots=True)
class PointsGiven:
    """Raw events as points.

    Attributes
    ----------
    X : ndarray of shape (n, d), float64
    y : array-like of shape (n,)
        As given, or read from the label's field.
    weight : ndarray of shape (n,), float64
    classes : tuple or None
        The negative and the positive label, where labels were read from the events.
    """

    X: NDArray[np.floating[Any]]
    y: Any
    weight: NDArray[np.float64]
    classes: tuple[Any, Any] | None


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
    made = decoding_of(recipe).read(recipe, config, events_of(events), labeled=y is None)
    if made.faults:
        row = min(made.faults)
        raise InvalidFeatures(f"event {row}: {made.faults[row].what}", _SENT_OTHERWISE)
    if not len(made.points):
        raise ValueError("0 events were given; at least one is needed")
    if y is not None or label is None:
        return PointsGiven(made.points.X, y, made.points.weight, None)
    classes = (label.negative[0], label.positive[0])
    labels = np.array(classes)[(made.points.y > 0).astype(np.intp)]
    return PointsGiven(made.points.X, labels, made.points.weight, classes)


class EventVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Makes columns of raw events by declared features; nothing is learned.

    Parameters
    ----------
    features : mapping, str, Path or Recipe
        See `recipe_given`.

    Examples
    --------
    >>> from streamsvm import EventVectorizer
    >>> made = EventVectorizer({"amount": "number", "channel": {"as": "category", "values": ["web", "app"]}})
    >>> made.fit_transform([{"amount": 12.5, "channel": "app"}])
    array([[12.5,  0. ,  1. ,  0. ]])
    >>> made.get_feature_names_out()
    array(['amount', 'channel=web', 'channel=app', 'channel=(other)'],
          dtype=object)
    """

    def __init__(self, features: Recipe | Mapping[str, Any] | str | Path) -> None:
        self.features = features

    def fit(self, events: Any = None, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn passes both
        """Read the declaration.

        Raises
        ------
        ValueError
            If it has no meaning.
        """
        recipe = recipe_given(self.features)
        self._columns = recipes_of(recipe).compiled(recipe)
        return self

    def transform(self, events: Any) -> NDArray[np.float64]:
        """Return the columns of events, shape (n, n_columns).

        Parameters
        ----------
        events : sequence of mappings, or data frame

        Raises
        ------
        InvalidFeatures
            A `ValueError`, naming the first event that cannot be evaluated, and the field.
        """
        if not self.__sklearn_is_fitted__():
            self.fit()
        return self._columns.features(events)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002 - scikit-learn passes it
        """Return the names of the columns, shape (n_columns,)."""
        if not self.__sklearn_is_fitted__():
            self.fit()
        return np.array(self._columns.names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the declaration was read."""
        return hasattr(self, "_columns")

    def __sklearn_tags__(self) -> Any:
        """Say that rows are mappings, and that nothing needs to be fitted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.requires_fit = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters: what was compiled of them is compiled again."""
        return {name: value for name, value in super().__getstate__().items() if name != "_columns"}
