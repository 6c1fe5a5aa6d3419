"""What the quality as served does not go with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import MORE_LABELS, Combinations, Row, given

TOPICS_APART: Final = "scores of other points than the labels'"
SERVED: Final = "quality as served"
_SERVED: Final = "Quality as served"


def _served() -> Iterator[Row]:
    yield Row(
        axis=_SERVED,
        feature=given(SERVED),
        without=MORE_LABELS,
        why="the figures are of two labels",
        remedy="For more labels see the quality before learning, on the trainer's page.",
        kind="not built",
    )
    yield Row(
        axis=_SERVED,
        feature=given(SERVED),
        without=given(TOPICS_APART),
        why="no score would find its label",
        remedy="Give labels.topic if labels come later; or scoring.topic = input.topic if the scorer scores the very "
        "points that have labels.",
        kind="nature",
    )


SERVED_ROWS: Final = Combinations(
    before="Reasons of a score",
    rows=tuple(_served()),
    phrases={SERVED: "the quality as served was asked for", TOPICS_APART: "{value}"},
)
