"""Prequential quality and skill at work: what is learned is scored first by what is current; versions are judged by it.

What is measured, and how, stands in `streamsvm.quality.prequential` and `streamsvm.quality.skill`. After a start the
figures begin with nothing; while input is read again nothing is scored, because the head's version has learned it. The
gate says what becomes current, and alone decides; nothing here changes what is published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from math import nan
from typing import Final

import numpy as np

from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.trainer.gatekeeping import CurrentVersion, Gatekeeper, present_of
from streamsvm.kafka import Cluster
from streamsvm.learning.cutting import Cut
from streamsvm.model.machine import LinearMachine, Model
from streamsvm.model.pointers import Alias, Gate
from streamsvm.model.skill import Skill
from streamsvm.model.version import Version
from streamsvm.points import Points, Rows
from streamsvm.quality.gate import audit_evidence
from streamsvm.quality.prequential import Prequential, Quality
from streamsvm.quality.skill import Answered, skill_of

FIGURES: Final = tuple(field.name for field in fields(Quality) if field.name != "points")
MOST_KERNEL_VALUES: Final = 4_000_000
"""For judging a version by its audit sample: some tens of milliseconds."""


class QualityWatch:
    """A gate that passes on what it is asked, and scores what comes by what the gate let become current.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    current : Alias or None
        At the start.
    gate : Gatekeeper
    metrics : Metrics
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        current: Alias | None,
        gate: Gatekeeper,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        quality, config = settings.quality, settings.models()
        self._gate = gate
        self._metrics = metrics
        self._clock = clock
        self._dimension = config.points.dimension
        self.prequential = (
            Prequential(self._dimension, quality.window, quality.baseline_every, config.svm.class_weight)
            if quality.enabled
            else None
        )
        if current is not None and self.prequential is not None:
            present = gate.present or present_of(settings, cluster, current)
            self._serve(present.version)

    @property
    def present(self) -> CurrentVersion | None:
        """What the gate takes for current."""
        return self._gate.present

    def note(self, rows: Rows) -> None:
        """Let the gate take in rows that were learned."""
        self._gate.note(rows)

    def judge(self, version: Version, cut: Cut) -> Gate | None:
        """Say what the gate says."""
        return self._gate.judge(version, cut)

    def skill(self, version: Version, cut: Cut, gate: Gate | None) -> Skill | None:
        """Say whether a version knows something; None where quality is not measured.

        The newest points were answered by the versions before it. They say nothing of one that the gate refuses.
        """
        if self.prequential is None:
            return None
        refused = gate is not None and gate.outcome == "refused"
        evidence = audit_evidence(cut.audit)
        audit = None
        if evidence is not None:
            points = _few_enough(evidence.points, version.model)
            audit = Answered(
                y=points.y,
                weight=np.asarray(points.weight, np.float64),
                values=version.model.decision_function(points.X),
                border=version.model.border,
            )
        newest = None if refused else self.prequential.answered()
        return skill_of(newest, audit, version.number, version.model.probability)

    def published(self, version: Version, gate: Gate | None, alias: Alias) -> None:
        """Let a version score from now on unless the gate refused it."""
        self._gate.published(version, gate, alias)
        if gate is None or gate.outcome != "refused":
            self._serve(version)

    def learned(self, rows: Rows, *, again: bool) -> None:
        """Take in rows that were just learned; those that were not read again no version has learned: score them."""
        self.note(rows)
        if not again:
            self.score(rows)

    def score(self, rows: Rows) -> None:
        """Score rows that no version has learned, in their order."""
        if self.prequential is None:
            return
        begun, scored = self._clock(), self.prequential.scored
        self.prequential.add(rows.points if rows.accepted.all() else rows.points.take(rows.accepted))
        self._metrics.increase("streamsvm_prequential_points", self.prequential.scored - scored)
        self._metrics.increase("streamsvm_prequential_seconds", max(0.0, self._clock() - begun))

    def show(self) -> None:
        """Set the gauges; a figure that is not available is NaN."""
        if self.prequential is None:
            return
        for scorer, quality in self.prequential.figures().items():
            for figure in FIGURES:
                value = getattr(quality, figure)
                if not (scorer == "majority" and figure == "hinge_loss"):
                    self._metrics.put(f"streamsvm_prequential_{figure}", nan if value is None else value, scorer=scorer)
        answered = self.prequential.answered()
        if answered is not None:
            shares = answered.said, np.asarray(answered.y > 0)
            for of, share in zip(("answered", "true"), shares, strict=True):
                value = float(answered.weight[share].sum() / answered.weight.sum())
                self._metrics.put("streamsvm_prequential_positive_share", value, of=of)

    def _serve(self, version: Version | None) -> None:
        if self.prequential is not None and version is not None and version.model.dimension == self._dimension:
            self.prequential.serve(version.model)


def _few_enough(points: Points, model: Model) -> Points:
    """Return every k-th point, so that the main loop waits for few kernel values only."""
    machine = model.machine
    vectors = 0 if isinstance(machine, LinearMachine) else len(machine.support)
    return points.take(slice(None, None, max(1, -(-len(points) * vectors // MOST_KERNEL_VALUES))))
