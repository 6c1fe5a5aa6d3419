"""CHECKPOINT.md and the golden files against trunk and branches together: the page is of all of them."""

from __future__ import annotations

import re

from streamsvm.checkpoint import Snapshot, decode
from streamsvm.coreset import KINDS, field_names
from streamsvm.model import Alias, Gate, GatePart, GateRival, PartitionCut, TuningInForce
from streamsvm.points import LookedUp
from tests.checkpoint.test_checkpoint import table
from tests.golden import HERE
from tests.golden.every_checkpoint import HANDMADE

HEAD = {
    "version": Alias,
    "tuning": TuningInForce,
    "gate": Gate,
    "rival": GateRival,
    "part of a window": GatePart,
    "part of a cut": PartitionCut,
}
"""What a head is made of, as the page has it."""


def test_the_document_has_every_field_of_every_kind() -> None:
    """Each class is listed with the fields that a state has of it, in their order."""
    assert Snapshot.__name__ in KINDS, f"{decode} registers them"
    objects = {name: list(kind.__struct_fields__) for name, kind in HEAD.items()}
    for name, kind in KINDS.items():
        objects[name] = [] if kind.of is LookedUp else field_names(kind.of)
    listed = {row[0]: [f for f in re.findall(r"`([^`]+)`", row[1]) if f.isidentifier()] for row in table("kind")}
    assert listed == objects


def test_the_document_has_every_part() -> None:
    """Each part of a branch is listed with the class that it is of."""
    assert {row[0].strip("`"): row[1] for row in table("part")} == {
        kind.part: name for name, kind in KINDS.items() if kind.part
    }


def test_every_golden_file_is_made_by_somebody() -> None:
    """No branch's cases are lost on the way to the trunk's tests, and each of its parts is among them."""
    assert {path.stem for path in HERE.glob("*.ssvm")} == HANDMADE.keys()
    assert {part for make in HANDMADE.values() for part in make().parts} == {row[0].strip("`") for row in table("part")}
