"""What deletes of a topic of their own do not go with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import Combinations, Row, above, given, missing

RULE_OF_DELETES: Final = "an option of `[deletes]`"
_DELETES: Final = "Deletes of a topic of their own"


def _rows() -> Iterator[Row]:
    topic = given("deletes.topic")
    yield Row(
        axis=_DELETES,
        feature=given(RULE_OF_DELETES),
        without=missing("deletes.topic"),
        why="it is about deletes of a topic of their own",
        remedy="Name the topic of the deletes in deletes.topic, or remove the option.",
        kind="nature",
    )
    for term in (above("training.workers", 1), given("training.from_coresets"), given("labels.topic")):
        yield Row(
            axis=_DELETES,
            feature=topic,
            without=term,
            why="only one process with labels in the records can pass over erased rows",
            remedy="Use one process with labels in the records, or remove deletes.topic.",
            kind="not built",
        )
    yield Row(
        axis=_DELETES,
        feature=topic,
        without=given("archive.directory"),
        why="a trainer cannot take rows out of its archive while it writes there",
        remedy="Remove one of the two; or give the deletes to `streamsvm history forget`.",
        kind="not built",
    )


ROWS: Final = Combinations(before="Bounds and certificates", rows=tuple(_rows()))
