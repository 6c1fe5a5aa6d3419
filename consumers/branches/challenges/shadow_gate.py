"""Which versions wait for a challenge: the quality gate, and what stands behind it under output.gate = shadow."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec
import numpy as np

from consumers.metrics import Metrics
from consumers.trainer.gatekeeping import CurrentVersion, Gatekeeper
from streamsvm.learning.cutting import Cut
from streamsvm.model.pointers import Alias, Gate, Head
from streamsvm.model.version import Version
from streamsvm.points import Rows

TIMES: Final = 101
"""Rows whose times tell how late it is: fewer than half of them may be strange."""


class ShadowGate:
    """The quality gate, after which a version that may be compared with the current one waits for a challenge.

    Parameters
    ----------
    gate : Gatekeeper
        The margin's; what it refuses challenges nobody.
    head : Head or None
        The newest at the start: it may wait.
    metrics : Metrics
    """

    def __init__(self, gate: Gatekeeper, head: Head | None, metrics: Metrics) -> None:
        self._gate, self._metrics = gate, metrics
        self.waiting: Alias | None = None
        """The newest version that waits for a challenge."""
        self._times: deque[int] = deque(maxlen=TIMES)
        if head is not None and head.gate is not None and head.gate.outcome == "waits":
            self.waiting = head.alias

    @property
    def present(self) -> CurrentVersion | None:
        """What is current."""
        return self._gate.present

    @property
    def time_ms(self) -> int:
        """The (lower) median of the times of the newest `TIMES` rows that were learned; -1 before any has a time.

        A few records of a strange time, a day in the next century, neither end a challenge nor keep it from ending.
        """
        return int(np.sort(self._times)[(len(self._times) - 1) // 2]) if self._times else -1

    def note(self, rows: Rows) -> None:
        """Take in rows that were learned."""
        newest = rows.time_ms[-TIMES:]
        self._times.extend(newest[newest >= 0].tolist())
        self._gate.note(rows)

    def judge(self, version: Version, cut: Cut) -> Gate | None:
        """Return the margin's verdict; of a version that passes it and can be compared, that it waits."""
        said, present = self._gate.judge(version, cut), self.present
        if said is None or said.holds_back or present is None or not _comparable(version, present.version):
            return said
        return msgspec.structs.replace(said, outcome="waits")

    def published(self, version: Version, gate: Gate | None, alias: Alias) -> None:
        """Note a version that waits; any other is the margin's."""
        if gate is not None and gate.outcome == "waits":
            self.waiting = alias
            self._metrics.increase("streamsvm_gate_verdicts", outcome="waits")
            return
        if gate is None or not gate.holds_back:
            self.waiting = None  # whatever waits is older than what became current without a challenge
        self._gate.published(version, gate, alias)

    def promoted(self, version: Version, alias: Alias) -> None:
        """Note that a version became current after it was published."""
        self._gate.promoted(version, alias)


def _comparable(version: Version, present: Version | None) -> bool:
    return (
        present is not None
        and version.model.dimension == present.model.dimension
        and version.labels == present.labels
        and version.recipe == present.recipe
    )
