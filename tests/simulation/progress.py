"""How far a long run is: what it says while it runs, and a file by which the next run goes on."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tests.simulation.running import Broken, Tally

SAY_S = 10.0
"""Least time between two lines."""


class Progress:
    """Says how many schedules were run, how many run in a second, and how long the rest takes.

    The rate counts from the first share on, which compiles.

    Parameters
    ----------
    schedules : int
        How many there will be.
    say : callable
        Prints a line.
    clock : callable
        Returns seconds.
    """

    def __init__(self, schedules: int, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._schedules, self._say, self._clock = schedules, say, clock
        self._first: tuple[int, float] | None = None
        self._said_at = clock()

    def ran(self, tally: Tally) -> None:
        """Take note of what was run so far, and say it if the last line is old."""
        now, done = self._clock(), tally.schedules
        if self._first is None:
            self._first = done, now
        if now - self._said_at < SAY_S:
            return
        self._said_at = now
        before, since = self._first
        pace = ""
        if done > before:
            rate = (done - before) / (now - since)
            pace = f", {rate:.1f} a second, {(self._schedules - done) / rate / 60:.0f} min left"
        self._say(f"simulation: {done} of {self._schedules} schedules{pace}, {len(tally.violations)} violations")


def save(path: Path, seed: int, tally: Tally) -> None:
    """Write down what was run of the seeds from one on."""
    violations = [asdict(one) for one in tally.violations]
    path.write_text(json.dumps({"seed": seed, **vars(tally), "violations": violations}))


def load(path: Path) -> tuple[int, Tally]:
    """Return the first seed and what was run from it on, as `save` wrote them."""
    content = json.loads(path.read_text())
    seed: int = content.pop("seed")
    violations = [Broken(**one) for one in content.pop("violations")]
    return seed, Tally(**content | {"happened": Counter(content["happened"]), "violations": violations})
