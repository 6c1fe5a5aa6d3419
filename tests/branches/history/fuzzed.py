"""Readers of archives and of records of erased rows, for the fuzzers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from streamsvm.branches.history import forgotten
from streamsvm.branches.history.erased import Erased, decode_erased, encode_erased
from streamsvm.branches.history.forgotten import Listed
from streamsvm.branches.history.forgotten import encode as encode_forgotten
from streamsvm.branches.history.store import Identity
from streamsvm.branches.history.stretches import archived
from streamsvm.config import ModelConfig, PointsConfig, SvmConfig
from streamsvm.errors import CorruptCheckpoint
from streamsvm.points import Position
from tests.fuzz.targets import MODEL_WORDS, Target, kept, messages, plain_record
from tests.streams import DIMENSION


def _archive(value: bytes) -> str:
    """Read what says of what an archive is, and the list of rows that it must not remember."""
    found = "refused"
    with suppress(CorruptCheckpoint):
        identity = Identity.decode(value)
        assert Identity.decode(identity.encode()) == identity
        found = "accepted"
    with suppress(CorruptCheckpoint):
        listed = forgotten.decode(value)
        kept = {partition: own for partition, own in listed.rows.items() if own}
        assert forgotten.decode(forgotten.encode(listed)) == replace(listed, rows=kept)
        found = "accepted"
    return found


def archives() -> list[bytes]:
    """Return what says of what an archive is, and lists of rows that it must not remember."""
    model = ModelConfig(points=PointsConfig(dimension=DIMENSION), svm=SvmConfig(alpha=1e-3), seed=11)
    config = archived(model, leaf_rows=16, span_rows=64, bucket_points=12)
    identity = Identity(name="m", topic="t", topic_id="i", config=config, base={0: Position(0), 3: Position(5, 2)})
    rows = {0: frozenset([Position(3), Position(7, 2)]), 2: frozenset([Position(1 << 40)])}
    return [identity.encode(), encode_forgotten(Listed(rows, "ab" * 32)), b"{}"]


def erased() -> list[bytes]:
    """Return a record of erased rows."""
    return [
        encode_erased(Erased(topic="t", topic_id="i", incarnation=2, continues=1, rows=((0, 5, 0, 3), (1, 9, 2, 4))))
    ]


TARGETS: Final = (
    Target("erased", kept("erased"), MODEL_WORDS, messages(plain_record(decode_erased))),
    Target("archive", kept("archive"), MODEL_WORDS, messages(_archive)),
)
CORPORA: Final = {"erased": erased, "archive": archives}
