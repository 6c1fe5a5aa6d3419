"""streamsvm 0.1.1, as it might be: `python -m tests.live.later optional|required COMMAND ...`.

It is this build with another version, and with one part more in every version, at the socket where a branch would plug
it in. The part's name says that builds before it may pass over it, or that they must not: then the states of partitions
in checkpoints and in the coresets topic are of another kind, too.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any, Final

import msgspec

from consumers.cli import main as command_line
from streamsvm import build
from streamsvm.coreset import KINDS, StateWriter
from streamsvm.model import MessagePart, parts

VERSION: Final = "0.1.1"
NAMES: Final = {"optional": "info_later", "required": "later"}
"""Of the part that each kind of release adds."""


def become(kind: str) -> None:
    """Make this process a later build."""
    name = NAMES[kind]
    form = msgspec.defstruct("Later", [("note", str)], tag_field="part", tag=name, frozen=True)
    own = MessagePart(form, lambda _: form("a word more"), lambda *_: None)
    parts.OWN = (*parts.OWN, own)  # type: ignore[misc]
    parts.every_part.cache_clear()
    parts.names.cache_clear()
    if kind == "required":
        plain, KINDS[name] = StateWriter._plain, KINDS["PartitionState"]

        def of_another_kind(self: StateWriter, value: Any) -> Any:
            tree = plain(self, value)
            return ["@", name, tree[2]] if isinstance(tree, list) and tree[:2] == ["@", "PartitionState"] else tree

        StateWriter._plain = of_another_kind  # type: ignore[method-assign]
    build.version = lambda library: VERSION if library == "streamsvm" else version(library)  # type: ignore[assignment, attr-defined]
    build.build.cache_clear()


def main() -> None:
    """Run a command of it."""
    kind = sys.argv.pop(1)
    become(kind)
    command_line()
