"""The scenarios: one table, a row some ten lines of data. How a row is written is told in `tests/live/__init__.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streamsvm.crashpoints import POINTS
from tests.live.scenario import Scenario
from tests.live.strikes import (
    RESET,
    WATCHFUL,
    Step,
    amid,
    begin,
    crash,
    cut,
    delete_topic,
    feed,
    healthy,
    kill_at_random,
    lean,
    lose_disk,
    mend,
    mend_disk,
    not_ready,
    published,
    reach,
    ready,
    recreate,
    refused,
    same,
    see,
    stop,
    through,
)
from tests.live.upgrades import UPGRADES

LIFE: Final = 80
"""Rows of one life that is killed: two versions' worth, one of them for the dead letters."""
AMID: Final = 1_000
"""Rows of a stream that a fault meets in its midst, where every training takes a tenth of a second."""
OTHERS: Final = ("scores.", "settle.", "coresets.", "erase.", "renew.")
TRAINERS: Final = [point for point in POINTS if not point.startswith(OTHERS)]
"""The points that any trainer passes. Those of a settlement are passed only after a broker lost a marker:
`tests/consumers/streams/test_settling.py`."""
PARTS: Final = 4
"""Streams over which the named points are spread."""


def killed_at(points: Sequence[str]) -> Iterator[Step]:
    """One life for each point, each with new records to learn."""
    for number, point in enumerate(points):
        yield feed(LIFE, number, bad=(7,))
        yield crash(point)
    yield feed(LIFE, len(points), bad=(7,))


KILLS: Final = (
    *(
        Scenario(
            name=f"a kill at any named point changes nothing, part {part}",
            steps=(*killed_at(TRAINERS[part::PARTS]),),
            end=same(),
            quick=part == 0,
        )
        for part in range(PARTS)
    ),
    Scenario(
        name="a kill at a random moment changes nothing",
        steps=(feed(2_000), kill_at_random(3)),
        end=same(),
    ),
    Scenario(
        name="a restart that forgets points is found",
        steps=(feed(90), through(), feed(30, seed=1)),
        end=same(),
        planted=("forgets-the-leaf",),
        found="not the models of a clean run",
    ),
)

NETWORK: Final = (
    Scenario(
        name="a short cut only delays",
        steps=(feed(AMID), begin(), amid(), lean(cut(), not_ready("broker")), mend()),
        end=same(),
        on="own",
        planted=("steady",),
        quick=True,
    ),
)

TOPICS: Final = (
    Scenario(
        name="a topic that is made again is refused or begun anew",
        steps=(
            feed(90),
            through(),
            recreate(120),
            begin(**WATCHFUL),
            refused("{input}", "--reset m/1"),
            through(**WATCHFUL, **RESET),
        ),
        end=published(5),
        but=frozenset({"refused-to-start"}),
        quick=True,
    ),
    Scenario(
        name="a topic that goes while it is read ends the process",
        steps=(feed(90), begin(**WATCHFUL), reach(), delete_topic(), refused("{input}")),
        end=published(2),
        but=frozenset({"refused-to-start"}),
        quick=True,
    ),
)

DISK: Final = (
    Scenario(
        name="a disk that answers EIO delays checkpoints and no version",
        steps=(
            feed(60),
            begin(MOST_CHECKPOINT_AGE_S=1),
            reach(),
            lose_disk(),
            see("checkpoint_failed", times=2),
            feed(140, seed=1),
            reach(),
            not_ready("checkpoint"),
            healthy(),
            mend_disk(),
            ready(),
            stop(),
        ),
        end=same(),
        planted=("loses-its-disk",),
    ),
)

SCENARIOS: Final = (*KILLS, *NETWORK, *TOPICS, *DISK, *UPGRADES)
