"""How old what is published is: by the clock, and by rows.

Times are those of the main loop: a leaf counts as sealed when the learner returns from the rows that sealed it.
"""

from __future__ import annotations

from collections.abc import Sequence

from consumers.metrics import Metrics
from streamsvm.learning.learner import Cut, DueCut, Learner
from streamsvm.points import Positions


class Freshness:
    """Notes when leaves seal, when cuts fall due, and what the newest version covers.

    Parameters
    ----------
    metrics : Metrics
    learner : Learner
        At the start. Rows count from here on until somebody says how many the newest version covers.
    between_cuts : int
        Rows after which a cut falls due.
    """

    def __init__(self, metrics: Metrics, learner: Learner, between_cuts: int) -> None:
        self._metrics = metrics
        self._learner = learner
        self._covered = learner.rows
        self._leaves = learner.leaves_sealed
        self._due_at: float | None = None
        self._cuts: list[tuple[Positions, float]] = []
        metrics.put("streamsvm_model_rows_between_cuts", between_cuts)

    def learned(self, begun: float, now: float) -> None:
        """Note a call of the learner, from when to when: its time goes to the leaves that it sealed."""
        leaves, self._leaves = self._learner.leaves_sealed - self._leaves, self._learner.leaves_sealed
        for _ in range(leaves):
            self._metrics.observe("streamsvm_coreset_reduce_seconds", max(0.0, now - begun) / leaves)
        self.looked(now)

    def looked(self, now: float) -> None:
        """Note since when a cut is due, if one is."""
        if self._learner.cut_due and self._due_at is None:
            self._due_at = now

    def covers(self, rows: int) -> None:
        """Note how many rows the newest version covers, which was published before the start."""
        self._covered = rows

    def caught_up(self) -> None:
        """Note that the learner stands where the newest version was cut."""
        self._covered = self._learner.rows

    def emitted(self, cut: DueCut | None) -> None:
        """Note the cut that was taken at the present positions, or that it was declined."""
        due_at, self._due_at = self._due_at, None
        if cut is not None and due_at is not None:
            self._cuts.append((cut.positions, due_at))

    def settled(self, cut: Cut, published: Positions, in_flight: Sequence[DueCut], now: float) -> None:
        """Note that a cut needs no more publishing; `published` is the newest version's."""
        if dict(cut.positions) == dict(published):
            self._covered = cut.learned.rows
            for known, due_at in self._cuts:
                if dict(known) == dict(cut.positions):
                    self._metrics.observe("streamsvm_model_staleness_seconds", max(0.0, now - due_at))
        ahead = [dict(other.positions) for other in in_flight]
        self._cuts = [(known, due_at) for known, due_at in self._cuts if dict(known) in ahead]

    def show(self) -> None:
        """Set the gauges."""
        self._metrics.put("streamsvm_model_rows_behind", max(0, self._learner.rows - self._covered))
