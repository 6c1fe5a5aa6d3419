"""What checkpoints that are kept for erasures do not go with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import Combinations, Row, given

KEEP_BYTES: Final = "checkpoint.keep_bytes"
_KEPT: Final = "Kept checkpoints"


def _rows() -> Iterator[Row]:
    yield Row(
        axis=_KEPT,
        feature=given(KEEP_BYTES),
        without=given("labels.topic"),
        why="of a kept checkpoint nobody knows whether the log of the labels still goes on from it",
        remedy="Remove one of the two: after an erasure everything is learned again.",
        kind="not built",
    )
    yield Row(
        axis=_KEPT,
        feature=given(KEEP_BYTES),
        without=given("svm.tune"),
        why="C and gamma are chosen anew",
        remedy="Remove one of the two: after an erasure everything is learned again.",
        kind="nature",
    )


ROWS: Final = Combinations(before="Certificates", rows=tuple(_rows()))
