"""Who decides what happens next: chance by a seed, a script, or a depth-first search through all short scripts.

Invariant: a run is a pure function of its choices. Choice 0 is always that nothing unusual happens, so a run is named
by its *deviations*, the choices that are not 0, and the calm run has none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

Deviations = Mapping[int, int]
"""Index of a choice to what was chosen there, where that is not 0."""


class Chooser(Protocol):
    """Decides, and remembers what it decided."""

    deviations: dict[int, int]

    def choose(self, what: str, options: Sequence[str]) -> int:
        """Return the index of one of the options; `what` says how usual it is to deviate."""
        ...


class Chance:
    """Decides by a seed.

    `rates`: How often each kind of choice deviates; 0 for a kind that is not named.
    """

    def __init__(self, seed: int, rates: Mapping[str, float]) -> None:
        self.deviations: dict[int, int] = {}
        self._random = random.Random(seed)
        self._rates = rates
        self._index = -1

    def choose(self, what: str, options: Sequence[str]) -> int:
        self._index += 1
        if len(options) < 2 or self._random.random() >= self._rates.get(what, 0.0):
            return 0
        chosen = self.deviations[self._index] = self._random.randrange(1, len(options))
        return chosen


class Script:
    """Decides as written, and calmly wherever nothing is; notes how many options each choice had."""

    def __init__(self, deviations: Deviations) -> None:
        self.deviations: dict[int, int] = dict(deviations)
        self.widths: list[int] = []

    def choose(self, what: str, options: Sequence[str]) -> int:
        self.widths.append(len(options))
        return min(self.deviations.get(len(self.widths) - 1, 0), len(options) - 1)


class Search:
    """Every script with at most so many deviations, each once, the calm one first.

    Iterate and run each script that comes; its widths tell what else there is to try.

    `most`: Deviations of one script at most.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def __iter__(self) -> Iterator[Script]:
        waiting: list[dict[int, int]] = [{}]
        while waiting:
            deviations = waiting.pop()
            script = Script(deviations)
            yield script
            if len(deviations) < self._most:
                first = max(deviations, default=-1) + 1
                waiting += [
                    {**deviations, index: chosen}
                    for index in range(first, len(script.widths))
                    for chosen in range(1, script.widths[index])
                ]
