"""What the gate and the quality as served do not go with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import MORE_LABELS, Combinations, Row, equal, given, missing

TOPICS_APART: Final = "scores of other points than the labels'"
SERVED: Final = "quality as served"
_GATE: Final = "Shadow gate"
_SERVED: Final = "Quality as served"


def _gate() -> Iterator[Row]:
    shadow = equal("output.gate", "shadow")
    yield Row(
        axis=_GATE,
        feature=shadow,
        without=missing("output.gate_margin"),
        why="a challenger passes the margin first",
        remedy="Give output.gate_margin: how much worse a challenger may be.",
        kind="nature",
    )
    yield Row(
        axis=_GATE,
        feature=shadow,
        without=MORE_LABELS,
        why="two versions are compared by answers to two labels",
        remedy="Give output.gate = margin.",
        kind="not built",
    )
    yield Row(
        axis=_GATE,
        feature=shadow,
        without=given(TOPICS_APART),
        why="the labels of scores are found in the input",
        remedy="Let the scorer score the input, or give labels.topic.",
        kind="nature",
    )
    yield Row(
        axis=_GATE,
        feature=shadow,
        without=given("registry.url"),
        why="the gate reads labels in JSON and Arrow only",
        remedy="Remove registry.url, or give output.gate = margin.",
        kind="not built",
    )
    yield Row(
        axis=_GATE,
        feature=equal("output.gate_figure", "cost"),
        without=missing("svm.cost"),
        why="versions are compared by these costs",
        remedy="Give the two costs in svm.cost.",
        kind="nature",
    )
    yield Row(
        axis=_GATE,
        feature=equal("output.gate_figure", "log_loss"),
        without=missing("svm.probability"),
        why="the log loss is of probabilities",
        remedy="Give svm.probability = sigmoid.",
        kind="nature",
    )


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


GATE_ROWS: Final = Combinations(before="Certificates", rows=tuple(_gate()), phrases={TOPICS_APART: "{value}"})
SERVED_ROWS: Final = Combinations(
    before="Reasons of a score",
    rows=tuple(_served()),
    phrases={SERVED: "the quality as served was asked for"},
)
