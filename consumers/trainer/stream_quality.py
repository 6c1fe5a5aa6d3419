"""Prequential quality and skill at work: what is learned is scored first by what is current; versions are judged by it.

What is measured, and how, stands in `streamsvm.quality.prequential` and `streamsvm.quality.skill`. After a start the
figures begin with nothing; while input is read again nothing is scored, because the head's version has learned it. The
gate says what becomes current. Here only the first current version is held back, until one is better than chance: while
none is current nothing can be worse, but readers would begin with answers that mean nothing.
"""

from __future__ import annotations

from dataclasses import fields
from math import nan
from typing import Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from consumers import constants
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.trainer.gatekeeping import CurrentVersion, Gatekeeper, present_of
from streamsvm.kafka import Cluster
from streamsvm.learning.learner import Cut
from streamsvm.model.classes import AnyModel, KernelMachines
from streamsvm.model.correctness import answers
from streamsvm.model.machine import KernelMachine, Model
from streamsvm.model.pointers import Alias, Gate
from streamsvm.model.skill import spelt
from streamsvm.model.skill_header import AnySkill, complaint_of
from streamsvm.model.version import Version, positions
from streamsvm.points import Points, Rows
from streamsvm.quality.gate import audit_evidence
from streamsvm.quality.prequential import Prequential, Quality
from streamsvm.quality.skill import Answered, no_better_than_chance, skill_of

FIGURES: Final = tuple(field.name for field in fields(Quality) if field.name != "points")
SCORED_TOGETHER: Final = 4_096
"""Rows that are scored in one call. With many partitions a poll has some hundred rows of each, and a call for each of
them took a twentieth of the main loop."""
MOST_KERNEL_VALUES: Final = 4_000_000
"""For judging a version by its audit sample: some tens of milliseconds."""


class QualityWatch:
    """A gate that passes on its calls, and scores what comes by what the gate let become current.

    Parameters
    ----------
    settings : Settings
    cluster : Cluster
    current : Alias or None
        At the start.
    gate : Gatekeeper
    metrics : Metrics
    """

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        current: Alias | None,
        gate: Gatekeeper,
        metrics: Metrics,
    ) -> None:
        config = settings.models()
        self._gate = gate
        self._metrics = metrics
        self._any_may_be_first = settings.output.gate_margin is None
        self._weighted = settings.svm.class_weight != "none"
        self._labels = tuple(map(spelt, config.points.labels))
        self._dimension, self._classes = config.points.dimension, config.points.classes
        self._names = config.points.feature_names
        self.prequential = Prequential(
            self._dimension, constants.QUALITY_WINDOW, class_weight=config.svm.class_weight, classes=self._classes
        )
        self._waiting: list[Points] = []
        if current is not None:
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
        """Return what the gate says; of a version that would become the first current one, whether it is worth it."""
        said = self._gate.judge(version, cut)
        if said is None or said.holds_back or self.present is not None or self._any_may_be_first:
            return said
        skill = self.skill(version, cut, said)
        if not no_better_than_chance(skill):
            return said
        wrong = complaint_of(skill, version.labels, weighted=self._weighted)
        return structs.replace(said, outcome="refused", why=f"it would be the first current version, and {wrong}")

    def skill(self, version: Version, cut: Cut, gate: Gate | None) -> AnySkill:
        """Return whether a version knows something, by points that it was not trained on.

        The newest points were answered by the versions before it, or, where that are more, by the current one since its
        cut or by the version itself since its own: what was scored as it came is a part only, of a kernel machine. Of a
        version that the gate refuses only its own answers tell.
        """
        self._score_waiting()
        refused, own = gate is not None and gate.holds_back, version.model
        newest = None if refused else self.prequential.answered()
        since = [(own, self._gate.after(cut.positions))]
        if not refused and self.present is not None and self.present.version is not None:
            current, lineage = self.present.version.model, self.present.version.lineage
            if self._fits(self.present.version):
                since.append((current, self._gate.after(positions(lineage.cut))))
        for model, read in since:
            points = None if read is None else _few_enough(read.points, model)
            if points is not None and (newest is None or len(newest.y) < len(points)):
                newest = _answers(points, model)
        sample = audit_evidence(cut.audit)
        points = None if sample is None else _few_enough(sample.points, own)
        audit = None if points is None else _answers(points, own, points.also_in(cut.points))
        probability = own.probability if isinstance(own, Model) else None
        return skill_of(newest, audit, version.number, probability, classes=own.classes)

    def published(self, version: Version, gate: Gate | None, alias: Alias) -> None:
        """Let a version score from now on unless the gate refused it."""
        self._gate.published(version, gate, alias)
        if gate is None or not gate.holds_back:
            self._serve(version)

    def learned(self, rows: Rows, *, again: bool) -> None:
        """Take in rows that were just learned.

        Rows that no version has learned, which are those not read again, are scored in their order: when
        `SCORED_TOGETHER` of them wait, before another version becomes current, and before a figure is read.
        """
        self.note(rows)
        if again:
            return
        self._waiting.append(rows.valid)
        if sum(map(len, self._waiting)) >= SCORED_TOGETHER:
            self._score_waiting()

    def _score_waiting(self) -> None:
        if self._waiting:
            prequential = self.prequential
            scored = prequential.scored
            prequential.add(Points.union(self._waiting))
            self._waiting.clear()
            self._metrics.increase("streamsvm_prequential_points", prequential.scored - scored)

    def show(self) -> None:
        """Set the gauges; a figure that is not available is NaN."""
        self._score_waiting()
        for scorer, quality in self.prequential.figures().items():
            for figure in FIGURES:
                value = getattr(quality, figure)
                if not (scorer == "majority" and figure == "hinge_loss"):
                    self._metrics.put(f"streamsvm_prequential_{figure}", nan if value is None else value, scorer=scorer)
        answered = self.prequential.answered()
        if not answered:
            return
        whole = float(answered.weight.sum())
        if self._classes == 2:
            for of, codes in (("answered", answered.said), ("true", answered.y)):
                value = float(answered.weight[codes > 0].sum() / whole)
                self._metrics.put("streamsvm_prequential_positive_share", value, of=of)
            return
        for code, label in enumerate(self._labels):
            own, said = answered.y == code, answered.said == code
            true = float(answered.weight[own].sum())
            right = float(answered.weight[own & said].sum()) / true if true > 0.0 else nan
            self._metrics.put("streamsvm_prequential_label_recall", right, label=label)
            self._metrics.put("streamsvm_prequential_label_share", true / whole, label=label, of="true")
            share = float(answered.weight[said].sum()) / whole
            self._metrics.put("streamsvm_prequential_label_share", share, label=label, of="answered")

    def _fits(self, version: Version) -> bool:
        """Return whether a version answers points of these columns."""
        own = version.model.dimension, version.model.classes, version.feature_names
        return own == (self._dimension, self._classes, self._names)

    def _serve(self, version: Version | None) -> None:
        if not version or not self._fits(version):
            return
        self._score_waiting()  # by the version that was current when they came
        self.prequential.serve(version.model)


def _answers(points: Points, model: AnyModel, trained: NDArray[np.bool_] | None = None) -> Answered:
    decision = model.decision_function(points.X)
    said = answers(decision, model.border)
    return Answered(y=points.y, said=said, weight=points.weight, values=decision, trained=trained)


def _few_enough(points: Points, model: AnyModel) -> Points:
    """Return every k-th point, so that the main loop waits for few kernel values only."""
    machine = model.machine
    vectors = len(machine.support) if isinstance(machine, KernelMachine | KernelMachines) else 0
    return points.take(slice(None, None, max(1, -(-len(points) * vectors // MOST_KERNEL_VALUES))))
