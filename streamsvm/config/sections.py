"""Sections: frozen classes of options, each declared once with type, default, unit and consequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A frozen section that refuses unknown options."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


SectionType = TypeVar("SectionType", bound=Section)


def with_defaults(section: SectionType, values: Mapping[str, object]) -> SectionType:
    """Return a section with other values for options that are not given; they still count as not given."""
    copy = section.model_copy(update=values)
    object.__setattr__(copy, "__pydantic_fields_set__", set(section.model_fields_set))
    return copy


Seed = Annotated[int, Field(ge=0, lt=1 << 64)]
