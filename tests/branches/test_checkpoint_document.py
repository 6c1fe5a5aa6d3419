"""CHECKPOINT.md and the golden files against trunk and branches together: the page is of all of them."""

from __future__ import annotations

import re

import msgspec
from streamsvm.branches.memories import checkpoint_parts as memories

from streamsvm.branches.late_labels import checkpoint_parts as join
from streamsvm.checkpoint import Form, PlacedArray, PlacedLearned, PlacedScreen, format as codec, parts_of
from streamsvm.model import Alias, Gate, GatePart, GateRival, Head, PartitionCut, TuningInForce
from tests.checkpoint.test_checkpoint import table
from tests.golden import HERE
from tests.golden.every_checkpoint import HANDMADE, PARTS


def test_the_document_has_every_field() -> None:
    """Each object of the header is listed with the fields that the decoder wants, in their order."""
    objects: dict[str, type[msgspec.Struct]] = {
        "snapshot": codec.PlacedSnapshot,
        "head": Head,
        "version": Alias,
        "tuning": TuningInForce,
        "gate": Gate,
        "rival": GateRival,
        "part of a window": GatePart,
        "part of a cut": PartitionCut,
        "partition": codec.PlacedPartition,
        "bucket": codec.PlacedBucket,
        "screened": codec.PlacedScreened,
        "screen": PlacedScreen,
        "audit": codec.PlacedReservoir,
        "points": codec.PlacedPoints,
        "extent": codec.PlacedExtent,
        "moments": codec.PlacedMoments,
        "cut": codec.PlacedCut,
        "taken": codec.PlacedTaken,
        "sample": codec.PlacedSampled,
        "array": PlacedArray,
        "learned": PlacedLearned,
        "voting": memories.PlacedVoting,
        "expert": memories.PlacedExpert,
        "shares": memories.PlacedShares,
        "held of a partition": memories.PlacedCoverage,
        "join": join.PlacedJoin,
        "log": join.PlacedJoinLog,
        "waiting": join.PlacedWaiting,
    }
    listed = {row[0]: [f for f in re.findall(r"`([^`]+)`", row[1]) if f.isidentifier()] for row in table("object")}
    assert listed == {name: list(kind.__struct_fields__) for name, kind in objects.items()}


def test_the_document_has_every_part() -> None:
    """Each part is listed with the object that it belongs to and its fields."""
    objects: dict[str, type[Form]] = {
        "snapshot": codec.PlacedSnapshot,
        "partition": codec.PlacedPartition,
        "taken": codec.PlacedTaken,
        "bucket": codec.PlacedBucket,
        "screened": codec.PlacedScreened,
        "cut": codec.PlacedCut,
    }
    listed = {
        (name, part.strip("`")): re.findall(r"`([^`]+)`", fields)
        for part, of, fields in table("part")
        for name in of.split(", ")
    }
    known = {
        (name, part): list(own.form.__struct_fields__)
        for name, form in objects.items()
        for part, own in parts_of(form).items()
    }
    assert listed == known


def test_every_golden_file_is_made_by_somebody() -> None:
    """No branch's cases are lost on the way to the trunk's tests, and each of its parts is among them."""
    assert {path.stem for path in HERE.glob("*.ssvm")} == HANDMADE.keys()
    assert {part for _, _, part in PARTS} == {row[0].strip("`") for row in table("part")}
