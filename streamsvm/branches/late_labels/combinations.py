"""What labels of a log of their own do not go with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import Combinations, Row, given, missing, other

RULE_OF_LABELS: Final = "an option of `[labels]`"
_LATE: Final = "Labels of a log of their own"
_JOINED: Final = "rows and labels are joined in one process"


def _rows() -> Iterator[Row]:
    topic = given("labels.topic")
    yield Row(
        axis=_LATE,
        feature=topic,
        without=missing("labels.horizon"),
        why="a row waits so long for its label",
        remedy="Give labels.horizon, such as 36h.",
        kind="nature",
    )
    yield Row(
        axis=_LATE,
        feature=given(RULE_OF_LABELS),
        without=missing("labels.topic"),
        why="it is about labels of a log of their own",
        remedy="Name the topic of the labels in labels.topic, or remove the option.",
        kind="nature",
    )
    yield Row(
        axis=_LATE,
        feature=topic,
        without=given("events.label"),
        why="labels come with the events or later",
        remedy="Remove one of the two.",
        kind="nature",
    )
    yield Row(
        axis=_LATE,
        feature=topic,
        without=other("coreset.memory", "all"),
        why="joined points are learned under `all` only",
        remedy="Give coreset.memory = all, or remove labels.topic.",
        kind="not built",
    )
    yield Row(
        axis=_LATE,
        feature=topic,
        without=other("points.format", "auto", "json", "arrow"),
        why="labels are joined to points in JSON and Arrow only",
        remedy="Give points.format = json or arrow, or remove labels.topic.",
        kind="not built",
    )
    yield Row(
        axis=_LATE,
        feature=topic,
        without=given("registry.url"),
        why="labels are joined to points in JSON and Arrow only",
        remedy="Remove registry.url, or labels.topic.",
        kind="not built",
    )
    yield Row(
        axis=_LATE,
        feature=topic,
        without=given("training.from_coresets"),
        why=_JOINED,
        remedy="Leave out {without}, or labels.topic.",
        kind="not built",
    )


LATE_ROWS: Final = Combinations(
    before="Events, features and formats", rows=tuple(_rows()), phrases={RULE_OF_LABELS: "{value} is given"}
)
_EVALUATE: Final = Row(
    axis="streamsvm evaluate",
    feature=given("--config"),
    without=given("labels.topic"),
    why="a file of rows has its labels in them",
    remedy="Evaluate with a copy of the file that has events.label instead of [labels].",
    kind="nature",
)
EVALUATE_ROWS: Final = Combinations(before="Other commands", rows=(_EVALUATE,))
