"""What workers do not go with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import Combinations, Row, equal, given, missing

_WORKERS: Final = "Workers and coresets"


def _workers() -> Iterator[Row]:
    yield Row(
        axis=_WORKERS,
        feature=equal("training.policy", "every"),
        without=given("training.from_coresets"),
        why="where each cut falls is known in one process only",
        remedy="Give training.policy = latest, or leave out {without}.",
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
