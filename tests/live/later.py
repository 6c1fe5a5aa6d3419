"""streamsvm 0.1.1, as it might be: `python -m tests.live.later optional|required COMMAND ...`.

It is this build with another version, and with one part more in every version and in every partition of a checkpoint
and of the coresets topic, at the sockets where a branch would plug it in. The part's name says that builds before it
may pass over it, or that they must not.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any, Final

import msgspec

from consumers.cli import main as command_line
from streamsvm import build
from streamsvm.checkpoint import PARTITION_PARTS, Form, OptionalPart
from streamsvm.model import MessagePart, parts

VERSION: Final = "0.1.1"
NAMES: Final = {"optional": "info_later", "required": "later"}
"""Of the part that each kind of release adds."""


def become(kind: str) -> None:
    """Make this process a later build."""
    name = NAMES[kind]
    form = msgspec.defstruct("Later", [("note", str)], tag_field="part", tag=name, frozen=True)
    placed: Any = msgspec.defstruct("PlacedLater", [("note", str)], bases=(Form,), tag_field="part", tag=name)
    own = MessagePart(form, lambda _: form("a word more"), lambda *_: None)
    parts.OWN = (*parts.OWN, own)  # type: ignore[misc]
    parts.every_part.cache_clear()
    parts.names.cache_clear()
    PARTITION_PARTS[name] = OptionalPart(
        form=placed, has=lambda _: True, of=lambda _: {"note": "a word more"}, joined=lambda value, **_: value
    )
    build.version = lambda library: VERSION if library == "streamsvm" else version(library)  # type: ignore[assignment, attr-defined]
    build.build.cache_clear()


def main() -> None:
    """Run a command of it."""
    kind = sys.argv.pop(1)
    become(kind)
    command_line()
