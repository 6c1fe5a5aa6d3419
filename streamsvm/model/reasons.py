"""Reasons of a score: what each field adds to the decision value of a linear version.

A linear version of two labels decides by f(x) = b + sum_j w_j (x_j - mean_j) / scale_j, so the terms of this sum are
what its columns add, and f of the mean row, all of whose terms are 0, is the baseline b. The columns that features make
of one field count together: which of a category's columns is 1 is one fact. A cross is of two fields, and counts for
itself.

The terms are exact for a decision value. They say what the version makes of an event, not what would happen if a field
were changed in the world; of fields that go together each has what the fit gave to it.

Invariant: baseline, reasons and rest sum to the decision value, but for rounding: within 1e-12 of the sum of their
magnitudes.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.features import features_of
from streamsvm.model.kernels import Float
from streamsvm.model.machine import KernelMachine, Model
from streamsvm.model.recipes import recipes_of
from streamsvm.model.version import Version
from streamsvm.supports import LABELS, REASONS, require


class Reason(msgspec.Struct, frozen=True):
    """What a field adds to a decision value.

    Attributes
    ----------
    field : str
        The path of an event's field, `card.country`; of a cross both, `card.country x channel`; of a version that
        learned points the feature's name, or `x[3]`.
    adds : float
    """

    field: str
    adds: float


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """Why a decision value is what it is.

    Attributes
    ----------
    baseline : float
        The decision value of the mean row.
    fields : tuple of Reason
        The largest by magnitude, largest first; those that add nothing are left out.
    rest : float
        What all other fields add together.
    """

    baseline: float
    fields: tuple[Reason, ...]
    rest: float


class Explainer:
    """Gives the reasons of a version's decision values.

    Parameters
    ----------
    version : Version

    Raises
    ------
    Unsupported
        If the version is not linear, or has more than two labels.
    """

    def __init__(self, version: Version) -> None:
        model = version.model
        adds = isinstance(model, Model) and not isinstance(model.machine, KernelMachine)
        several = len(version.labels) > 2
        require(
            {REASONS: version.key, LABELS: len(version.labels), "svm.kernel": "linear" if adds or several else "rbf"},
            {LABELS: version.key},
        )
        assert isinstance(model, Model)
        assert not isinstance(model.machine, KernelMachine)
        self._model, self._machine = model, model.machine
        fields = _fields_of(version)
        if isinstance(model.machine, AdditiveMachine):
            fields += [f"{fields[one.first]} & {fields[one.second]}" for one in model.machine.surfaces]
        self._fields = tuple(dict.fromkeys(fields))
        places = {field: place for place, field in enumerate(self._fields)}
        self._group = np.array([places[field] for field in fields], np.intp)

    def reasons(self, X: Any, most: int) -> list[Reasons]:
        """Return the reasons of each row.

        Parameters
        ----------
        X : array_like, mapping, sequence of mappings, or data frame
            Raw features, as for `Model.decision_function`; finite.
        most : int
            Of how many fields; the others are the rest.
        """
        features = features_of(X, self._model.dimension, self._model.feature_names)
        parts = self._machine.terms(self._model.scaler.transform(features))
        adds = self._by_field(parts)
        largest = np.argsort(-np.abs(adds), axis=1, kind="stable")[:, :most]
        others = adds.copy()
        np.put_along_axis(others, largest, 0.0, axis=1)
        values, rest = np.take_along_axis(adds, largest, axis=1).tolist(), others.sum(axis=1).tolist()
        return [
            Reasons(
                baseline=self._machine.intercept,
                fields=tuple(Reason(self._fields[at], one) for at, one in zip(places, each, strict=True) if one),
                rest=others_add,
            )
            for places, each, others_add in zip(largest.tolist(), values, rest, strict=True)
        ]

    def _by_field(self, parts: Float) -> Float:
        if len(self._fields) == parts.shape[1]:
            return parts
        adds = np.zeros((len(parts), len(self._fields)))
        for column, place in enumerate(self._group):
            adds[:, place] += parts[:, column]
        return adds


def _fields_of(version: Version) -> list[str]:
    """Return the field of each column."""
    if version.recipe is None:
        return list(version.feature_names) or [f"x[{column}]" for column in range(version.model.dimension)]
    return recipes_of(version.recipe).fields(version.recipe)
