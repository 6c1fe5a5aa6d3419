"""The socket `recipes`: what a version makes of rows that are not features yet.

To the trunk a recipe is any Struct: the branch that is plugged in evaluates it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError
from streamsvm.model.kernels import Float
from streamsvm.sockets import plugged

SOCKET: Final = "recipes"


class Compiled(Protocol):
    """A recipe that is ready to be evaluated."""

    @property
    def columns(self) -> Any:
        """What evaluates it, for callers that know the kind of the recipe."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        ...

    def features(self, rows: Any) -> Float:
        """Return what the recipe makes of rows, shape (n, d).

        Raises
        ------
        InvalidFeatures
            Naming the first row that the recipe rejects, and the field.
        """
        ...

    def features_of_either(self, X: Any) -> Any:
        """Return the features of rows; what has no names, or those of the features, is features already.

        Raises
        ------
        InvalidFeatures
            If `X` can be read as both, and the features differ; else as `features` does.
        """
        ...


class Columns(NamedTuple):
    """How columns follow from earlier ones: column j is `factor[j]` times column `source[j]`, plus `constant[j]`."""

    source: NDArray[np.int64]  # (d,)
    factor: Float  # (d,), 0 of a constant
    constant: Float  # (d,)

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of rows, or their means, shape (..., d)."""
        found = values[..., self.source]
        other = (self.factor != 1.0) | (self.constant != 0.0)
        found[..., other] = found[..., other] * self.factor[other] + self.constant[other]
        return found


class NeededField(NamedTuple):
    """A field that a version reads: where it stands, such as `card.country`, as what, and whether each row has it."""

    path: str
    kind: str
    required: bool


class Recipes(ABC):
    """What a branch plugs in."""

    @abstractmethod
    def evaluates(self, recipe: object) -> bool:
        """Return whether a recipe is one of these."""

    @abstractmethod
    def compiled(self, recipe: Any) -> Compiled:
        """Return a recipe, ready to be evaluated."""

    @abstractmethod
    def fields(self, recipe: Any) -> list[str]:
        """Return for each feature the field that it is made of, as people write it."""

    @abstractmethod
    def needed(self, recipe: Any) -> tuple[NeededField, ...]:
        """Return the fields that a recipe reads, one for each feature of them."""

    @abstractmethod
    def places(self, recipe: Any) -> Mapping[str, slice]:
        """Return the columns of what a recipe declares, by the names that people gave."""

    @abstractmethod
    def described(self, recipe: Any) -> str:
        """Return what a recipe evaluates, for people."""

    @abstractmethod
    def of_plain(self, plain: Mapping[str, Any]) -> Struct:
        """Return the recipe of a canonical configuration; raises ValueError where this build cannot evaluate it."""

    @abstractmethod
    def columns_between(self, before: Any, recipe: Any) -> Columns:
        """Return how the columns of a recipe follow from those of the one before it.

        Raises
        ------
        ValueError
            Naming the option by which they do not, and what to do.
        """

    @abstractmethod
    def largest_bytes(self, recipe: Any) -> int:
        """Return a bound on what a recipe adds to a version's value."""


def recipes_of(recipe: object) -> Recipes:
    """Return what evaluates a recipe; for None the first that is plugged in.

    Raises
    ------
    ConfigurationError
        If this installation has none.
    """
    for one in plugged(SOCKET, Recipes):  # type: ignore[type-abstract]
        if recipe is None or one.evaluates(recipe):
            return one
    raise ConfigurationError(
        "this installation cannot evaluate recipes", "Install the folder of the branch that does, or pass features."
    )


def compiled(recipe: object | None) -> Compiled | None:
    """Return a version's recipe, ready to be evaluated; None of a version that learned features."""
    return None if recipe is None else recipes_of(recipe).compiled(recipe)
