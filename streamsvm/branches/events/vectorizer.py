"""Raw events for any estimator of scikit-learn, by the same `[features]` as a trainer and every reader of a version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from streamsvm.branches.events.estimating import recipe_given
from streamsvm.branches.events.features.recipe import Recipe
from streamsvm.branches.events.recipes import EVENTS


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
        self._columns = EVENTS.compiled(recipe)
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
