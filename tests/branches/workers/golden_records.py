"""The golden records of the coresets topic: an opening, a manifest with its key, and newest rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from streamsvm.branches.workers.coreset_records import FORMAT, Manifest, Opening, PartEntry, encode_rows, place
from streamsvm.coreset import decode_state
from streamsvm.model import decode_record
from streamsvm.points import Position
from tests.golden.record import Kept, parted, whole
from tests.streams import gaussian, rows_of

OPENING: Final = Opening(
    format=FORMAT,
    name="m",
    incarnation=1,
    topic="points",
    topic_id="AAAAAAAAAAAAAAAAAAAAAQ",
    partition=1,
    base=(2, 0),
    configuration={"seed": 11, "points": {"dimension": 2, "labels": [-1, 1]}},
    configuration_sha256="ef" * 32,
)
WHERE: Final = place(Position(7, 2))
MANIFEST: Final = Manifest(
    position=(7, 2),
    rows=9,
    buckets=(PartEntry(f"b/{place(Position(2))}-{WHERE}#{'cd' * 32}", 800_000),),
    rest=PartEntry(f"l/{WHERE}#{'ab' * 32}", 3),
    newest=PartEntry(f"n/{WHERE}#{'12' * 32}", 90),
)


def newest() -> bytes:
    """Return rows, one of which was rejected."""
    rows = rows_of(gaussian(4))
    return encode_rows(replace(rows, accepted=np.array([True, True, False, True])), OPENING.names)


def manifest() -> bytes:
    """Return a manifest under its key, with its headers."""
    headers = (("watermark", b"9"), ("read_to", b"8"))
    return whole(f"{OPENING.prefix}{MANIFEST.key}".encode(), headers, MANIFEST.encode())


def read_manifest(content: bytes) -> object:
    """Return key, headers and what the manifest names, with the keys of all pieces."""
    key, headers, value = parted(content)
    found = decode_record(value, Manifest)
    return [key.decode(), [[name, text.decode()] for name, text in headers], found, [one.pieces for one in found.parts]]


RECORDS: Final[Mapping[str, Kept]] = {
    "coresets-opening": Kept(
        lambda: whole(OPENING.key, (), OPENING.encode()), lambda content: decode_record(parted(content)[2], Opening)
    ),
    "coresets-manifest": Kept(manifest, read_manifest),
    "coresets-newest": Kept(newest, decode_state),
}
