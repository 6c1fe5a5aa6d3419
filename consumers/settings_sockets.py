"""The socket of settings: sections, and options in sections of the trunk, that exist only where their branch is.

Invariant: this module knows no section, so that a branch can declare its own with it whichever is loaded first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model

from streamsvm.sections import Section, SectionOptions, extended
from streamsvm.sockets import DAEMONS, plugged

SOCKET: Final = "settings"
PAGES: Final = "reference"
"""The socket of pages of the configuration's reference."""
Kind = TypeVar("Kind", bound=BaseModel)
Whole: TypeAlias = Any
"""The `Settings`, whose class is made with what stands here, so that it has no name yet."""


def _nothing(_: Whole) -> None:
    pass


def _no_values(_: Whole) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOptions(SectionOptions):
    """Options that a branch adds to the settings; each function takes the whole settings.

    Attributes
    ----------
    check : callable
        Refuses what is wrong, while the settings are made.
    settle : callable
        Fills in what follows from other options, after all checks.
    axes : callable
        Returns what the table of combinations must know (`streamsvm.supports`), by option.
    models : callable
        Returns fields of `ModelConfig`.
    labels_topic : callable
        Returns the topic of labels that do not come with the points; empty where they do.
    uses : callable
        Returns the trainer's further topics, by what each is for; no topic has two uses.
    dead_letters : callable
        Returns the trainer's further topics of dead letters.
    short : mapping of str to str
        Shorter flags, by ``section__option``, of options that are given by hand.
    """

    check: Callable[[Whole], None] = _nothing
    settle: Callable[[Whole], None] = _nothing
    axes: Callable[[Whole], Mapping[str, object]] = _no_values
    models: Callable[[Whole], Mapping[str, object]] = _no_values
    labels_topic: Callable[[Whole], str] = lambda _: ""
    uses: Callable[[Whole], Mapping[str, str]] = _no_values
    dead_letters: Callable[[Whole], tuple[str, ...]] = lambda _: ()
    short: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPage:
    """What the configuration's reference says of a section beside its options, at the socket `PAGES`.

    Attributes
    ----------
    section : str
    before : str
        Text before the section.
    decides : bool
        Whether the options decide what a model is, though `ModelConfig` has them under another name.
    """

    section: str
    before: str
    decides: bool


def settings_section(
    name: str, model: type[Section], description: str, *, after: str, **functions: Any
) -> SettingsOptions:
    """Return a section of its own, which stands behind another one; the functions are those of `SettingsOptions`."""
    declared: Any = {name: (model, Field(default=model(), description=description))}
    return SettingsOptions(section="", mixin=create_model(model.__name__, **declared), after=after, **functions)


def added() -> tuple[SettingsOptions, ...]:
    """Return what the branches add, in the order of their names."""
    return plugged(SOCKET, SettingsOptions, DAEMONS)


def open_to_branches(name: str) -> Callable[[type[Kind]], type[Kind]]:
    """Return a decorator that adds the options of the branches to a section; the empty name is the whole settings."""

    def opened(trunk: type[Kind]) -> type[Kind]:
        return extended(trunk, (one for one in added() if one.section == name))

    return opened
