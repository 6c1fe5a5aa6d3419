"""What events and their features do not go with."""

from __future__ import annotations

from typing import Final

from streamsvm.supports import FEATURES, Combinations, Row, equal, given, missing, other

EVENTS: Final = "[events]"
FOLLOWING: Final = "an option of `[points]` that follows from `[features]`"
_DECLARED: Final = "Events, features and formats"
_COMMANDS: Final = "Other commands"

DECLARED_ROWS: Final = Combinations(
    before=_DECLARED,
    rows=(
        Row(
            axis=_DECLARED,
            feature=given(EVENTS),
            without=missing(FEATURES),
            why="the fields of events become features by [features] only",
            remedy="Declare the features of an event in [features].",
            kind="nature",
        ),
        Row(
            axis=_DECLARED,
            feature=given(FOLLOWING),
            without=given(FEATURES),
            why="it follows from [features], and is not the same",
            remedy="Remove the option from [points].",
            kind="nature",
        ),
    ),
    phrases={EVENTS: "{name} is given", FOLLOWING: "points.{value} is given"},
)
COMMAND_ROWS: Final = Combinations(
    before="",
    rows=(
        Row(
            axis=_COMMANDS,
            feature=given("--unlabeled"),
            without=missing("events.label"),
            why="the command must know which field is the label",
            remedy="Give --config with a file that has events.label.",
            kind="nature",
        ),
        Row(
            axis=_COMMANDS,
            feature=given("--events"),
            without=other("events.envelope", "none"),
            why="a file's events are sent as they are",
            remedy="Remove events.envelope from the configuration of this command, and of the trainer that reads what "
            "is sent.",
            kind="not built",
        ),
        Row(
            axis=_COMMANDS,
            feature=equal("--format", "protobuf"),
            without=other("--envelope", "none"),
            why="features infer --topic reads Protobuf without an envelope only",
            remedy="Leave out --envelope.",
            kind="not built",
        ),
    ),
)
