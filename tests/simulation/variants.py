"""Variants of worlds, which branches add: how the trainer is set, what stands in the logs, what a clean run reads.

A world of no variant is the trunk's: points of the smallest stream, all of which count for ever. What a branch has
stands in `tests/branches/NAME/worlds.py`: `VARIANTS`, and as `SMALLEST` those of its worlds that are searched in full.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tests.plugged import of_branches

if TYPE_CHECKING:
    from streamsvm.config import ModelConfig
    from streamsvm.points import Rows
    from tests.simulation.broker import Entry
    from tests.simulation.world import Profile, World

RECORDS: Final = "records"
MEMORY: Final = "memory"
LOGS: Final = "logs"
"""What a variant may change; no two of a world change the same."""


class Producers:
    """Who writes the input, where that is not done record by record as the trunk does it."""

    def append(self) -> bool:
        """Produce the next record, if there are any left."""
        raise NotImplementedError


class Reading:
    """How a clean run reads a partition of the input, in place of records each of which has all that it needs.

    The next records of a log may decide what is learned of those before them.
    """

    def rows(self, partition: int, entries: Sequence[Entry | None], start: int) -> Sequence[Rows]:
        """Return the rows of a whole partition from an offset on."""
        raise NotImplementedError

    def letters(self, partition: int, entries: Sequence[Entry | None]) -> Mapping[str, Set[int]]:
        """Return the offsets of which each topic of dead letters must have one at rest, and of no others."""
        raise NotImplementedError


class Variant:
    """A variant; this one changes nothing.

    `changes`: Those of `RECORDS`, `MEMORY` and `LOGS` that it changes. `share`: How many of the worlds in which nothing
    else changes these are of this variant.
    """

    logs: tuple[str, ...] = ()
    """Topics that are read beside the input, with as many partitions."""
    letters: tuple[str, ...] = ()
    """Topics of dead letters beside that of the input."""

    def __init__(self, name: str, *changes: str, share: float) -> None:
        self.name, self.changes, self.share = name, frozenset(changes), share

    def settle(self, sections: dict[str, Any]) -> None:
        """Change the sections of the settings; `points`, `coreset` and `svm` are options by name."""

    def drawn(self, profile: Profile) -> Profile:
        """Return what becomes of a world that was drawn to be of this variant."""
        return profile

    def producers(self, world: World) -> Producers | None:
        """Return who writes the input; None for the trunk's producer."""
        return None

    def reading(self, config: ModelConfig) -> Reading | None:
        """Return how a clean run reads; None for the trunk's way."""
        return None


class Lean(Variant):
    """Learners without an audit sample and without tuning: such a world costs a fifth less."""

    def settle(self, sections: dict[str, Any]) -> None:
        """Leave both out."""
        sections["coreset"]["audit_points"] = 0
        del sections["svm"]["tune"]


class Forgetting(Variant):
    """A memory that forgets.

    One row seals a leaf: so few rows come that none would be forgotten.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, MEMORY, share=0.07)
        self._options = options

    def settle(self, sections: dict[str, Any]) -> None:
        """Give the memory, and the boxes that do not depend on how much is remembered."""
        del sections["coreset"]["structure"]
        sections["coreset"] |= {"leaf_rows": 1, **self._options}
        sections["svm"] = {name: value for name, value in sections["svm"].items() if name != "C"} | {"alpha": 1e-4}


FORGETTING: Final = (
    Forgetting("window", memory="window", window=8),
    Forgetting("window of time", memory="window", window="0.004s"),
    Forgetting("decay", memory="decay", half_life=8),
    Forgetting("adaptive", memory="adaptive"),
)
LEAN: Final = Lean("lean", RECORDS, MEMORY, LOGS, share=0.7)
"""Only of worlds that are of no other variant: it comes last."""


@cache
def all_variants() -> Mapping[str, Variant]:
    """Return all variants by name."""
    of_others = (one for found in of_branches("worlds", "VARIANTS") for one in found)
    return {one.name: one for one in (*FORGETTING, *of_others, LEAN)}


def variants_of(names: Sequence[str]) -> list[Variant]:
    """Return the variants of these names."""
    return [all_variants()[name] for name in names]


def draw(seed: int) -> list[Variant]:
    """Draw the variants of a world, each by itself: what one branch has does not depend on which others are there."""
    drawn: list[Variant] = []
    taken = set[str]()
    for one in all_variants().values():
        if random.Random(f"{seed} {one.name}").random() < one.share and not one.changes & taken:
            drawn.append(one)
            taken |= one.changes
    return drawn
