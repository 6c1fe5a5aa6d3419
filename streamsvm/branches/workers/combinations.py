"""What workers do not go with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import Combinations, Row, above, equal, given, missing

_WORKERS: Final = "Workers and coresets"


def _workers() -> Iterator[Row]:
    for term, remedy in (
        (above("training.workers", 1), "Give training.policy = latest, or training.workers = 1."),
        (given("training.from_coresets"), "Give training.policy = latest, or leave out {without}."),
    ):
        yield Row(
            axis=_WORKERS,
            feature=equal("training.policy", "every"),
            without=term,
            why="where each cut falls is known in one process only",
            remedy=remedy,
            kind="nature",
        )
    yield Row(
        axis=_WORKERS,
        feature=given("training.from_coresets"),
        without=above("training.workers", 1),
        why="either workers of this trainer learn, or those of `streamsvm scale worker`",
        remedy="Give only one of the two.",
        kind="nature",
    )
    for first, second in (("worker.ordinal", "worker.of"), ("worker.of", "worker.ordinal")):
        yield Row(
            axis=_WORKERS,
            feature=given(first),
            without=missing(second),
            why="a worker owns the partitions p with p mod `of` = `ordinal`",
            remedy="Give {without}, or remove {feature}.",
            kind="nature",
        )


ROWS: Final = Combinations(before="Bounds and certificates", rows=tuple(_workers()))
