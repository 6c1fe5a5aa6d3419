"""The part `recipe`: what a raw event becomes, with examples by which a reader checks its own code.

See `streamsvm.branches.events.features.recipe` and `streamsvm.branches.events.features.examples`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.branches.events.features.examples import Example, disagreement, examples_of
from streamsvm.branches.events.features.recipe import Recipe, check
from streamsvm.errors import InvalidMessage
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version


class RecipePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="recipe"):
    """A recipe, and events with the columns that a reader must make of them."""

    recipe: Recipe
    examples: tuple[Example, ...]


def encode(version: Version) -> RecipePart | None:
    """Return the part; None of a version that learned points."""
    recipe = version.recipe
    if not isinstance(recipe, Recipe):
        return None
    from streamsvm.branches.events.features.columns import columns_of

    return RecipePart(recipe, examples_of(recipe, columns_of(recipe)))


def decode(part: RecipePart, draft: Draft) -> None:
    """Add the recipe.

    Raises
    ------
    InvalidMessage
        If it cannot be evaluated, is not that of the lineage, or gives other columns for an example.
    """
    from streamsvm.branches.events.features.columns import columns_of

    recipe, label = part.recipe, part.recipe.label
    try:
        check(recipe)
        columns = columns_of(recipe)
    except ValueError as error:
        raise InvalidMessage(f"the recipe cannot be evaluated: {error}") from None
    if columns.names != draft.names:
        raise InvalidMessage(f"the recipe makes {len(columns.names)} columns, which are not those of features.names")
    if label is not None and label.classes != draft.labels:
        raise InvalidMessage(f"the recipe's labels are not the version's, {', '.join(map(repr, draft.labels))}")
    if recipe.plain() != draft.lineage.configuration.get("features"):
        raise InvalidMessage("the recipe is not the one in lineage.configuration")
    if fault := disagreement(columns, part.examples):
        raise InvalidMessage(fault)
    draft.recipe = recipe


PART: Final = MessagePart(RecipePart, encode, decode)
