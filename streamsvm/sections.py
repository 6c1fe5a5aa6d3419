"""Sections of options, each option declared once with type, default, unit and consequence; and what branches add.

A branch has options of its own in a section of the trunk, or a section of its own, as a *mixin*: a class with these
options and the rules among them. The trunk's class is made of its own options and of the mixins that are plugged in
(`streamsvm.sockets`), in the order that the declarations give. Without the folder of the branch the options do not
exist, and are refused as unknown.

Invariant: this module and `streamsvm.option_texts` know no section, so that a branch can declare its options with them
whichever is loaded first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeVar, cast

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, create_model

from streamsvm.errors import ConfigurationError
from streamsvm.sockets import plugged

MODEL_OPTIONS: Final = "model_options"
"""The socket of options that decide what a model is."""


class Section(BaseModel):
    """A frozen section that refuses unknown options."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RecipeOptions(BaseModel):
    """What records become that are not points: what options say of their *recipe*. Here: records are points.

    A branch overrides it in its mixins, which stand before this class: `ModelConfig` and the settings are made of both.
    """

    @property
    def recipe(self) -> Struct | None:
        """What records become; None where they are points."""
        return None

    def recipe_axes(self) -> dict[str, object]:
        """Return what the table of combinations must know of the recipe, by option."""
        return {}

    def recipe_options(self) -> dict[str, Any]:
        """Return the options with which other options have the same recipe."""
        return {}

    def begun_with(self, canonical: Mapping[str, Any]) -> Self:
        """Return these options with what is settled when an incarnation begins, and never changes in it.

        That is what pilots are machines of, and what the computer adds to a recipe: rules of time zones.

        Parameters
        ----------
        canonical : mapping
            The canonical configuration that the incarnation began with.
        """
        del canonical
        return self

    def as_declared(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Return the tables of a configuration file, without what follows from the recipe."""
        return plain


SectionType = TypeVar("SectionType", bound=Section)
Holder = TypeVar("Holder", bound=BaseModel)
Kind = TypeVar("Kind", bound=BaseModel)
Seed = Annotated[int, Field(ge=0, lt=1 << 64)]


def with_defaults(section: SectionType, values: Mapping[str, object]) -> SectionType:
    """Return a section with other values for options that are not given; they still count as not given."""
    copy = section.model_copy(update=values)
    object.__setattr__(copy, "__pydantic_fields_set__", set(section.model_fields_set))
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionOptions:
    """Options that a branch adds to a section.

    Attributes
    ----------
    section : str
        Name of the section; empty for the class that holds the sections.
    mixin : type
        Declares the options. Its rules hold before those of the trunk.
    after : str
        The option behind which they stand where options are listed, one of the trunk; empty: behind all others.
    """

    section: str
    mixin: type[BaseModel]
    after: str


def open_to_branches(name: str) -> Callable[[type[Holder]], type[Holder]]:
    """Return a decorator that adds the options of the branches to a class of options that decide what a model is.

    Parameters
    ----------
    name : str
        The section's.
    """

    def opened(trunk: type[Holder]) -> type[Holder]:
        return extended(trunk, (one for one in plugged(MODEL_OPTIONS, SectionOptions) if one.section == name))

    return opened


def extended(trunk: type[Holder], added: Iterable[SectionOptions]) -> type[Holder]:
    """Return a class of the options of a trunk's class and of mixins, under the same name."""
    added = tuple(added)
    if not added:
        return trunk
    bases: Any = (trunk, *(one.mixin for one in added))
    made: Any = create_model(trunk.__name__, __base__=bases, __module__=trunk.__module__, __doc__=trunk.__doc__)
    order = list(trunk.model_fields)
    for one in added:
        place = order.index(one.after) + 1 if one.after else len(order)
        order[place:place] = one.mixin.model_fields
    in_order(made, order)
    return cast("type[Holder]", made)


def in_order(kind: type[BaseModel], order: Iterable[str]) -> None:
    """Let a class list its options in an order, wherever they come from."""
    fields = dict(kind.model_fields)
    kind.model_fields.clear()
    kind.model_fields.update({name: fields[name] for name in order})
    kind.model_rebuild(force=True)


def find_section(holder: BaseModel, kind: type[Kind]) -> Kind | None:
    """Return the section that is of a class, or that has the options of a mixin; None if there is none.

    A section finds itself.
    """
    if isinstance(holder, kind):
        return holder
    values = (getattr(holder, name) for name in type(holder).model_fields)
    return next((value for value in values if isinstance(value, kind)), None)


def section(holder: BaseModel, kind: type[Kind]) -> Kind:
    """Return the section that is of a class, or that has the options of a mixin.

    Raises
    ------
    ConfigurationError
        If the branch to which the class belongs is not there.
    """
    found = find_section(holder, kind)
    if found is None:
        raise ConfigurationError(
            f"this installation does not have the options of {kind.__name__}",
            f"Install the folder of the branch that declares them: {kind.__module__}.",
        )
    return found
