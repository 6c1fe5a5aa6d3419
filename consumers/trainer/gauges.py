"""What the trainer holds and how far it is, as gauges."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Final

from consumers.metrics import Metrics
from streamsvm.learning.learner import Learner
from streamsvm.model.class_skill import ClassSkill
from streamsvm.model.skill_header import AnySkill

SKILL = {"some": 1.0, "unknown": 0.0, "none": -1.0}

TURNS_S: Final = 30.0
"""Seconds of a span of turns; the longest turn is that of the span that runs and the one before it."""


class Turns:
    """Keeps the longest turn of the main loop, so that no scrape misses it.

    Parameters
    ----------
    now : float
        Monotonic seconds.
    """

    def __init__(self, now: float) -> None:
        self._began = self._span_began = now
        self._longest = self._before = 0.0

    def next(self, now: float) -> None:
        """Note that a turn begins, and so that the one before it ended."""
        if now - self._span_began >= TURNS_S:
            self._before, self._longest, self._span_began = self._longest, 0.0, now
        self._longest, self._began = max(self._longest, now - self._began), now

    @property
    def longest_s(self) -> float:
        """Seconds of the longest turn."""
        return max(self._before, self._longest)


class Gauges:
    """Sets gauges; a level of the tree that is empty by now shows 0.

    Parameters
    ----------
    metrics : Metrics
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def points(self, now: int, peak: int) -> None:
        """Show points kept at once, now and at most."""
        self._metrics.put("streamsvm_points_held", now)
        self._metrics.put("streamsvm_points_held_peak", max(peak, now))  # a checkpoint's points count, too

    def coreset(self, learner: Learner) -> None:
        """Show the points of buckets and of leaves, the bytes of all buckets, and what reductions met."""
        held = [bucket.points for state in learner.buckets().values() for bucket in state]
        leaves = sum(leaf.points for leaf in learner.open_leaves().values())
        self._metrics.put("streamsvm_coreset_points", sum(map(len, held)), level="buckets")
        self._metrics.put("streamsvm_coreset_points", leaves, level="leaf")
        self._metrics.put("streamsvm_coreset_bytes", sum(points.nbytes for points in held))
        weights = [learned.class_weight.sum() for learned in learner.learned().values()]
        self._metrics.put("streamsvm_coreset_weight", float(sum(weights)))
        for met, reductions in learner.observed().counts().items():
            self._metrics.put("streamsvm_coreset_reductions", reductions, outcome=met)
        short = learner.short_share()
        self._metrics.put("streamsvm_memory_short_share", nan if short is None else short)
        self._metrics.put("streamsvm_coreset_clipped_rows", learner.outliers().rows, what="features")
        self._metrics.put("streamsvm_coreset_clipped_rows", learner.outliers().weights, what="weight")

    def lag(self, ends: Mapping[int, tuple[int, int | None]]) -> None:
        """Show how far each partition's position is behind its end, where that is known."""
        for partition, (offset, end) in ends.items():
            if end is not None:
                self._metrics.put("streamsvm_input_lag_records", max(0, end - offset), partition=str(partition))

    def headroom(self, records: Mapping[int, int]) -> None:
        """Show how far each partition's position is ahead of what retention has removed."""
        for partition, ahead in records.items():
            self._metrics.put("streamsvm_input_headroom_records", max(0, ahead), partition=str(partition))


def show_skill(skill: AnySkill, metrics: Metrics) -> None:
    """Show what the newest version knows; a figure that is not available is NaN."""
    metrics.put("streamsvm_model_skill", SKILL[skill.state])
    if isinstance(skill, ClassSkill):
        metrics.put("streamsvm_model_labels_never_answered", float(len(skill.silent)))
        for sample, found in (("newest", skill.newest), ("audit", skill.audit)):
            balanced = nan if found is None else found.balanced_accuracy.value
            metrics.put("streamsvm_model_balanced_accuracy", balanced, sample=sample)
        return
    metrics.put("streamsvm_model_labels_never_answered", float(skill.answers != "both"))
    for sample, figures in (("newest", skill.newest), ("audit", skill.audit)):
        balanced, auc = (nan, nan) if figures is None else (figures.balanced_accuracy.value, figures.auc.value)
        metrics.put("streamsvm_model_balanced_accuracy", balanced, sample=sample)
        metrics.put("streamsvm_model_auc", auc, sample=sample)
