"""What a scorer's figures are, and what they mean in one line.

*Bad*: the newest records were mostly rejected, or more records wait than a minute of scoring takes, or scores come more
than a minute after their records. *Fair*: the scores lie far from those of the version's own audit sample. Else, with a
version, *good*. The alerts of `deploy/prometheus/rules.yml` are slower to say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from consumers.metrics import Metrics
from consumers.page.board import ServingSnapshot
from consumers.page.status import DriftPart, ScoringMoment, ScoringPart, VerdictStatus
from streamsvm.quality.drift import LEAST_SCORES

BEHIND_S: Final = 60.0
"""A backlog that takes longer than this, or a score that comes later than this after its record, is behind."""
RATE_MOMENTS: Final = 10
"""Moments over which the rate is taken that a backlog is divided by."""
MUCH: Final = 0.25
"""A population stability index that is customarily called a great change."""


@dataclass(frozen=True, slots=True)
class ScorerFacts:
    """What the verdict is made from.

    Attributes
    ----------
    rejecting : bool
        Whether the newest records pass a limit of rejected ones.
    scored : int
        Points scored since the process started.
    drift : DriftPart
    history : tuple of ScoringMoment
    """

    rejecting: bool
    scored: int
    drift: DriftPart
    history: tuple[ScoringMoment, ...]


def verdict_of(facts: ScorerFacts, snapshot: ServingSnapshot) -> VerdictStatus:
    """Judge a scorer that is healthy and has a version, or none yet."""
    if snapshot.loaded is None:
        return VerdictStatus(
            level="waiting",
            current=None,
            good=None,
            headline="No model yet",
            detail="The scorer reads nothing until a version is loaded.",
        )
    at = datetime.fromtimestamp(snapshot.loaded.loaded_at, UTC)
    scores = f"Version {snapshot.loaded.version.number} is in use; {facts.scored:,} points are scored"
    if facts.rejecting:
        said = f"{scores}, but most of the newest records were rejected: see the dead letters."
        return VerdictStatus(level="bad", current=None, good=False, headline="Rejecting most records", detail=said)
    if late := _late(facts.history):
        return VerdictStatus(level="bad", current=False, good=None, headline="Behind", detail=f"{late}. {scores}.")
    index, chance = facts.drift.index, facts.drift.chance
    if index is not None and chance is not None and index > max(MUCH, chance):
        moved = (
            f"the population stability index of the newest {facts.drift.scores:,} scores is {index:.2f}, by chance "
            f"it stays below {chance:.2f}"
        )
        said = f"Scores differ from those of the version's audit sample: {moved}. {scores}."
        return VerdictStatus(
            level="fair", current=None, good=None, headline="Scoring, but scores have drifted", detail=said
        )
    return VerdictStatus(level="good", current=None, good=None, headline="Scoring", detail=f"{scores}.", since=at)


def _late(history: Sequence[ScoringMoment]) -> str:
    """Return how far behind its input a scorer is, if it is."""
    newest = history[-RATE_MOMENTS:]
    if len(newest) < RATE_MOMENTS or not newest[-1].lag:
        return ""
    lag, rate = newest[-1].lag, sum(moment.records_per_s for moment in newest) / len(newest)
    if lag > BEHIND_S * rate:
        takes = f"at {rate:,.0f} per second that takes {lag / rate:,.0f} s" if rate else "no record was scored recently"
        return f"{lag:,} records wait: {takes}"
    latency = newest[-1].latency_s
    if latency is not None and latency > BEHIND_S:
        return f"Scores are committed {latency:,.0f} s after their records, and {lag:,} records wait"
    return ""


def scoring_of(metrics: Metrics, snapshot: ServingSnapshot) -> ScoringPart:
    """Return how scoring goes."""
    rows, scores = _counted(metrics, "streamsvm_input_rows"), _counted(metrics, "streamsvm_scores")
    lag = dict(sorted(_counted(metrics, "streamsvm_input_lag_records").items(), key=lambda part: int(part[0])))
    labels = None if snapshot.loaded is None else snapshot.loaded.version.labels
    return ScoringPart(
        records=sum(_counted(metrics, "streamsvm_input_records").values()),
        accepted=rows.get("accepted", 0),
        rejected=rows.get("rejected", 0),
        negative=scores.get("negative", 0),
        positive=scores.get("positive", 0),
        labels=None if labels is None else tuple(map(str, labels)),
        by_label={label: count for label, count in scores.items() if label not in ("negative", "positive")},
        lag=lag,
        lag_total=sum(lag.values()) if lag else None,
        values=_buckets(metrics, "streamsvm_score_values"),
        latency_s=_buckets(metrics, "streamsvm_score_latency_seconds"),
        drift=_drift(metrics, snapshot),
        history=snapshot.history,
    )


def is_rejecting(metrics: Metrics) -> bool:
    """Return whether the newest records pass a limit of rejected ones."""
    return bool(metrics.values("streamsvm_input_mostly_rejected").get((), 0.0))


def _drift(metrics: Metrics, snapshot: ServingSnapshot) -> DriftPart:
    index, chance = (_number(metrics, f"streamsvm_score_drift{of}") for of in ("", "_chance"))
    scores = int(metrics.values("streamsvm_score_drift_scores").get((), 0.0))
    why = ""
    if snapshot.loaded is None:
        why = "There is no version yet."
    elif snapshot.loaded.audit_scores is None:
        why = "The version holds no scores of its audit sample: the sample is too small."
    elif index is None:
        why = f"At least {LEAST_SCORES} scores are needed."
    return DriftPart(index, chance, scores, why)


def _number(metrics: Metrics, name: str) -> float | None:
    value = metrics.values(name).get((), math.nan)
    return value if math.isfinite(value) else None


def _counted(metrics: Metrics, name: str) -> dict[str, int]:
    return {labels[0]: int(value) for labels, value in metrics.values(name).items()}


def _buckets(metrics: Metrics, name: str) -> tuple[tuple[float | None, int], ...]:
    """Return a histogram's buckets, not cumulated; the last has no bound."""
    found, before = [], 0
    for bound, below in metrics.buckets(name):
        found.append((bound if math.isfinite(bound) else None, below - before))
        before = below
    return tuple(found)
