"""What the module of a part offers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from streamsvm.model.parts.draft import Draft
from streamsvm.model.version import Version


@dataclass(frozen=True, slots=True)
class MessagePart:
    """One named part of a version.

    Attributes
    ----------
    form : type of Struct
        The part as JSON; its tag, in the field `part`, is its name.
    encode : callable of (Version) -> Struct or None
        Returns the part of a version, None where the version has none.
    decode : callable of (Struct, Draft) -> None
        Adds to a draft what the part says; raises `InvalidMessage`.
    """

    form: type[msgspec.Struct]
    encode: Callable[[Version], msgspec.Struct | None]
    decode: Callable[[Any, Draft], None]

    @property
    def name(self) -> str:
        """The part's name."""
        return str(self.form.__struct_config__.tag)
