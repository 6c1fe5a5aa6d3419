"""A version's recipe as ONNX operators, as far as ONNX can: numbers, categories, flags and crosses of them.

Each declared field is an input of shape (n,), named by its path as people write it (`card.country`): of numbers and
flags double, where NaN means missing; of categories string, with integers and booleans as JSON writes them, where
``(missing)`` means missing. The output `rejected`, shape (n,), tells which events the recipe rejects: their decision
value and probability are NaN, and their label means nothing. A value of another type cannot be given, so whoever
fills the inputs has to reject it.

ONNX has no SHA-256, reads neither times nor numbers as text, and has no null: a version with a hash, a time or a number
with `parse` is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from streamsvm.branches.events.combinations import GRAPH_OF_EVENTS, UNKNOWN_TO_ONNX
from streamsvm.branches.events.features.recipe import (
    LARGEST_NUMBER,
    MISSING,
    Category,
    Constant,
    Cross,
    Flag,
    Number,
    OfField,
    Recipe,
)
from streamsvm.field_paths import shown
from streamsvm.model.version import Version
from streamsvm.registry.onnx_graph import ML_DOMAIN, Graph
from streamsvm.supports import FEATURES, require

_LARGEST_UNITS: Final = 1e300
"""As `streamsvm.branches.events.features.columns` has it: a number in tiny units beyond this counts as 0."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a graph makes of raw events.

    Attributes
    ----------
    inputs : mapping of str to int
        The element types of ONNX by the inputs' names.
    columns : str
        Name of the columns, shape (n, d).
    rejected : str
        Name of the truths that say which events are rejected, shape (n,).
    """

    inputs: Mapping[str, int]
    columns: str
    rejected: str


def columns_by(graph: Graph, version: Version) -> Taken:
    """Add the operators that make columns of raw events.

    Raises
    ------
    ConfigurationError
        If the version has no recipe, or one that ONNX cannot evaluate; naming the features.
    """
    recipe = version.recipe
    require({GRAPH_OF_EVENTS: True, FEATURES: recipe}, {FEATURES: f"the recipe of {version.key}"})
    assert isinstance(recipe, Recipe)
    _require_known(recipe, version.key)
    made = _Columns(graph)
    for feature in recipe.features:
        made.add(feature)
    joined = graph.node("Concat", *made.of.values(), axis=1)
    rejected = made.rejected[0]
    for one in made.rejected[1:]:
        rejected = graph.node("Or", rejected, one)
    return Taken(made.inputs, joined, rejected)


def _require_known(recipe: Recipe, key: str) -> None:
    unknown = [
        f"{feature.name} ({feature.__struct_config__.tag})"
        for feature in recipe.features
        if not isinstance(feature, Number | Category | Flag | Cross)
    ]
    unknown += [
        f"{feature.name} (a number with parse)"
        for feature in recipe.features
        if isinstance(feature, Number) and feature.parse is not None
    ]
    kinds: dict[str, type] = {}
    for feature in recipe.of_fields:
        kind = str if isinstance(feature, Category) else float
        if kinds.setdefault(shown(feature.field), kind) is not kind:
            unknown.append(f"{feature.name} (a field that is both text and number)")
    have = f"{key} has {', '.join(unknown)}" if unknown else ""
    require({GRAPH_OF_EVENTS: True, UNKNOWN_TO_ONNX: have})


class _Columns:
    """Adds the operators of one feature after the other.

    Attributes
    ----------
    inputs : dict of str to int
    of : dict of str to str
        Name of the columns of each feature, shape (n, width).
    rejected : list of str
        Names of truths of shape (n,).
    """

    def __init__(self, graph: Graph) -> None:
        from onnx import TensorProto

        self._graph = graph
        self._double, self._string = TensorProto.DOUBLE, TensorProto.STRING
        self._count = 0
        self._last = graph.constant("last_axis", [1], np.int64)
        self.inputs: dict[str, int] = {}
        self.of: dict[str, str] = {}
        self.rejected: list[str] = []

    def add(self, feature: OfField | Cross) -> None:
        """Add a feature."""
        if isinstance(feature, Cross):
            made = self._crossed(*(self.of[name] for name in feature.of))
        elif isinstance(feature, Category):
            made = self._category(feature)
        else:
            made = self._numeric(feature)
        self.of[feature.name] = made

    def _constant(self, value: Any, dtype: type[Any] = np.float64) -> str:
        self._count += 1
        return self._graph.constant(f"recipe_{self._count}", value, dtype)

    def _column(self, values: str) -> str:
        return self._graph.node("Unsqueeze", values, self._last)

    def _one_of(self, at: str, width: int) -> str:
        """Return a column for each index, 1 where it is the one given, shape (n, width)."""
        chosen = self._graph.node("Equal", self._column(at), self._constant([range(width)], np.int64))
        return self._graph.node("Cast", chosen, to=self._double)

    def _crossed(self, first: str, second: str) -> str:
        products = self._graph.node(
            "Mul",
            self._graph.node("Unsqueeze", first, self._constant([2], np.int64)),
            self._graph.node("Unsqueeze", second, self._last),
        )
        return self._graph.node("Flatten", products, axis=1)

    def _category(self, feature: Category) -> str:
        graph, values, name = self._graph, feature.values, shown(feature.field)
        self.inputs[name] = self._string
        index = {value: at for at, value in enumerate(values)}
        other, missing = len(values), len(values) + 1
        if isinstance(feature.missing, Constant):
            missing = index.get(str(feature.missing.constant), other)
        index[MISSING] = missing
        at = graph.node(
            "LabelEncoder",
            name,
            domain=ML_DOMAIN,
            keys_strings=list(index),
            values_int64s=list(index.values()),
            default_int64=other,
        )
        if feature.missing == "reject":
            self.rejected.append(graph.node("Equal", at, self._constant(missing, np.int64)))
        return self._one_of(at, other + 1 + (feature.missing == "indicator"))

    def _numeric(self, feature: OfField) -> str:
        graph, name = self._graph, shown(feature.field)
        self.inputs[name] = self._double
        missing = graph.node("IsNaN", name)
        value = name
        if feature.missing != "reject":
            filler = float(feature.missing.constant) if isinstance(feature.missing, Constant) else 0.0
            value = graph.node("Where", missing, self._constant(filler), name)
        right = self._is_right(feature, value)
        self.rejected.append(graph.node("Not", right))
        value = graph.node("Where", right, value, self._constant(0.0))
        made = self._number(feature, value) if isinstance(feature, Number) else self._column(value)
        if feature.missing != "indicator":
            return made
        absent = self._column(missing)
        kept = graph.node("Where", absent, self._constant(0.0), made)
        return graph.node("Concat", kept, graph.node("Cast", absent, to=self._double), axis=1)

    def _is_right(self, feature: OfField, value: str) -> str:
        """Return truths of the values that the recipe accepts; NaN is none of them."""
        graph = self._graph
        if isinstance(feature, Number):
            return graph.node("LessOrEqual", graph.node("Abs", value), self._constant(LARGEST_NUMBER))
        either = [graph.node("Equal", value, self._constant(truth)) for truth in (0.0, 1.0)]
        return graph.node("Or", *either)

    def _number(self, feature: Number, value: str) -> str:
        graph = self._graph
        if feature.clip is not None:
            value = graph.node("Max", value, self._constant(feature.clip[0]))
            value = graph.node("Min", value, self._constant(feature.clip[1]))
        if feature.unit != 1.0:
            value = graph.node("Div", value, self._constant(feature.unit))
            small = graph.node("LessOrEqual", graph.node("Abs", value), self._constant(_LARGEST_UNITS))
            value = graph.node("Where", small, value, self._constant(0.0))
        if feature.buckets:
            passed = graph.node("GreaterOrEqual", self._column(value), self._constant([feature.buckets]))
            at = graph.node("ReduceSum", graph.integers(passed), self._last, keepdims=0)
            return self._one_of(at, len(feature.buckets) + 1)
        if feature.log1p:
            grown = graph.node("Log", graph.node("Add", graph.node("Abs", value), self._constant(1.0)))
            value = graph.node("Mul", graph.node("Sign", value), grown)
        return self._column(value)
