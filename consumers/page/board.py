"""Where a main loop leaves what the page shows: one immutable value, replaced at most once a second and at versions.

The loop pays for a few numbers a bucket, and at each version for a bounded projection of its training set; everything
else, the border of a kernel machine above all, is worked out in the thread of the request. Training sets are not kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from msgspec import Struct, structs

from consumers.metrics import Metrics
from consumers.page.boundary import Projection, drawn_of, project
from consumers.page.past import Past, letter_of, version_line
from consumers.page.status import (
    BucketPart,
    Figures,
    GateStatus,
    LeafPart,
    LettersStatus,
    Moment,
    PartitionPart,
    ScoringMoment,
    VerdictStatus,
    VersionPart,
)
from consumers.page.verdict import Facts, verdict_of
from consumers.settings import Settings
from streamsvm.config import Label
from streamsvm.ingest.decoder import RejectedRecord
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.classes import AdditiveMachines, AnyModel
from streamsvm.model.machine import Machine, Model
from streamsvm.model.pointers import Alias, Gate, Head
from streamsvm.model.skill_header import AnySkill
from streamsvm.model.threshold import described
from streamsvm.model.version import Version
from streamsvm.points import Points
from streamsvm.registry.loading import Loaded

if TYPE_CHECKING:  # a scorer's board loads nothing of training
    from streamsvm.coreset.buckets import Bucket, Learned
    from streamsvm.coreset.partition import OpenLeaf
    from streamsvm.learning.learner import Horizon, Learner
    from streamsvm.learning.recipe import Made

LOOK_EVERY_S: Final = 1.0
MOST_VERSIONS: Final = 20
MOMENT_EVERY_S: Final = 1.0
MOST_MOMENTS: Final = 480
"""Newest moments that charts show: eight minutes of a busy stream. Longer histories are Prometheus's."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a picture of the newest training set is made from."""

    number: int
    labels: tuple[Label, Label]
    feature_names: tuple[str, ...]
    projection: Projection
    machine: Machine
    border: float = 0.0


@dataclass(frozen=True, slots=True)
class Subject:
    """What feature importance is computed of: a version's model.

    Attributes
    ----------
    number : int
    feature_names : tuple of str
    labels : tuple of str, int or float
    model : Model or ClassModel
    points : Points or None
        Of an additive one: some of those that it was made of, as many as are drawn.
    """

    number: int
    feature_names: tuple[str, ...]
    labels: tuple[Label, ...]
    model: AnyModel
    points: Points | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSnapshot:
    """What a trainer left; a mapping in it is never changed. `learned` rows are those that were not rejected."""

    taken: datetime
    verdict: VerdictStatus
    partitions: tuple[PartitionPart, ...] = ()
    learned: int = 0
    versions: tuple[VersionPart, ...] = ()
    history: tuple[Moment, ...] = ()
    drawing: Drawing | None = None
    skill: AnySkill | None = None
    threshold: str = ""
    subject: Subject | None = None
    letters: LettersStatus | None = None


Lived = TypeVar("Lived", bound=Moment | ScoringMoment)


class MomentSeries(Generic[Lived]):
    """The newest moments, oldest first.

    Of moments alike only the first and the last are kept, so that a quiet stream does not push out a busy one.
    """

    def __init__(self, moments: Iterable[Lived] = ()) -> None:
        self.moments = tuple(moments)[-MOST_MOMENTS:]
        self._next_at = -math.inf

    def due(self, monotonic: float) -> bool:
        """Return whether it is time for another moment."""
        return monotonic >= self._next_at

    def add(self, moment: Lived, monotonic: float) -> None:
        """Keep a moment; the oldest one goes where there are too many."""
        before = self.moments
        if len(before) >= 2 and all(_alike(one, moment) for one in before[-2:]):
            before = before[:-1]
        self.moments = (*before, moment)[-MOST_MOMENTS:]
        self._next_at = monotonic + MOMENT_EVERY_S


def _alike(one: Lived, other: Lived) -> bool:
    """Return whether two moments differ in nothing but their times."""
    assert isinstance(one, Struct)
    return bool(structs.replace(one, time=other.time) == other)


class TrainerBoard:
    """What a trainer shows. Its methods are the main loop's; `snapshot` is anybody's.

    Parameters
    ----------
    settings : Settings
    metrics : Metrics
        Lag and quality are read from there.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._cut_rows = settings.models().coreset.leaf_rows * settings.training.every_leaves
        self._look_at = -math.inf
        self._history: MomentSeries[Moment] = MomentSeries()
        self._number, self._gate, self._current, self._skill = 0, None, None, None
        self._threshold, self._subject = "", None
        self._letters, self._rejected = None, None
        self._versions: tuple[VersionPart, ...] = ()
        self._recalled = False
        config = settings.models()
        self._labels, self._weighted = config.points.labels, config.svm.class_weight != "none"
        self.snapshot: BoardSnapshot | None = None
        """What was left last; None before the first look."""

    _gate: GateStatus | None
    _current: int | None
    _skill: AnySkill | None
    _subject: Subject | None
    _letters: LettersStatus | None
    _rejected: RejectedRecord | None
    _missing: tuple[Label, ...]

    def adopted(self, head: Head | None, current: Alias | None) -> None:
        """Note where the topics stand when a life begins."""
        self._number = 0 if head is None else head.number
        self._gate = None if head is None else _gate(head.gate)
        self._current = None if current is None else current.number
        self._skill, self._threshold, self._subject, self._missing = None, "", None, ()
        self._versions, self._letters = (), None
        self._look_at = -math.inf

    def recalled(self, past: Past) -> None:
        """Note what the topics show of the time before the life; versions may have been published since."""
        if past.newest is not None and past.newest.version.number == self._number:
            version = past.newest.version
            self._skill, self._threshold = past.newest.skill, _threshold(version)
            self._missing = version.missing_labels
            self._subject = Subject(version.number, version.feature_names, version.labels, version.model)
        earlier = (replace_current(part, self._current) for part in past.versions)
        self._versions = (*self._versions, *earlier)[:MOST_VERSIONS]
        if past.letters is not None:
            newest = past.letters.newest if self._letters is None else self._letters.newest
            self._letters = structs.replace(past.letters, newest=newest)
        if not self._recalled:
            self._history = MomentSeries((*past.moments, *self._history.moments))
        self._recalled = True
        self._look_at = -math.inf

    def rejected(self, newest: RejectedRecord | None, now: datetime) -> None:
        """Note the record that was rejected last, if it is another one than before."""
        if newest is None or newest is self._rejected:
            return
        self._rejected = newest
        own = self._settings.input
        letters = self._letters or LettersStatus(topic=own.dead_letters, before=None, newest=None)
        self._letters = structs.replace(letters, newest=letter_of(own.topic, newest, now))
        self._look_at = -math.inf

    def published(
        self, version: Version, result: Made, head: Head, now: datetime, skill: AnySkill | None = None
    ) -> None:
        """Note a version whose transaction stands."""
        self._skill, self._threshold = skill, _threshold(version)
        self._missing = version.missing_labels
        self._number, self._gate = version.number, _gate(head.gate)
        if head.gate is None or not head.gate.holds_back:
            self._current = version.number
        before = self.snapshot or BoardSnapshot(
            taken=now, verdict=VerdictStatus(level="waiting", current=None, good=None, headline="Starting", detail="")
        )
        line = version_line(
            version,
            head.sha256,
            now,
            seconds=result.seconds,
            gate=self._gate,
            skill=skill,
        )
        self._versions = tuple(replace_current(part, self._current) for part in (line, *self._versions))[:MOST_VERSIONS]
        model, points = version.model, result.cut.points
        some = drawn_of(points) if isinstance(model.machine, AdditiveMachine | AdditiveMachines) else None
        self._subject = Subject(version.number, version.feature_names, version.labels, model, some)
        drawing = before.drawing
        if len(points) and isinstance(model, Model):
            projection, (negative, positive) = project(points, model), version.labels
            drawing = Drawing(
                version.number, (negative, positive), version.feature_names, projection, model.machine, model.border
            )
        self.snapshot = replace(before, versions=self._versions, drawing=drawing, subject=self._subject)
        self._look_at = -math.inf

    def ended(self, why: str) -> None:
        """Note that the trainer has ended as it should, and nothing changes any more."""
        if self.snapshot is not None:
            verdict = self.snapshot.verdict
            detail = f"{why} {verdict.detail}".rstrip()
            self.snapshot = replace(self.snapshot, verdict=structs.replace(verdict, detail=detail))

    def look(self, learner: Learner, now: datetime, monotonic: float) -> None:
        """Leave what the learner holds now, unless that was done within the last second."""
        if monotonic < self._look_at:
            return
        self._look_at = monotonic + LOOK_EVERY_S
        before = self.snapshot
        totals = learner.learned()
        partitions = _partitions(learner, totals)
        learned, lag = sum(part.count for part in totals.values()), lag_of(self._metrics)
        balanced = figures_of(self._metrics, "streamsvm_prequential_balanced_accuracy")
        if self._history.due(monotonic):
            answered, true = shares_of(self._metrics)
            self._history.add(Moment(now, balanced, learned, lag, answered, true), monotonic)
        versions = self._versions
        covered = versions[0].points if versions and versions[0].number == self._number else None
        facts = Facts(
            number=self._number,
            covered=covered,
            learned=learned,
            cut_rows=self._cut_rows,
            lag=lag,
            gate=self._gate,
            current_number=self._current,
            accuracy=figures_of(self._metrics, "streamsvm_prequential_accuracy"),
            balanced_accuracy=balanced,
            skill=self._skill,
            labels=self._labels,
            weighted=self._weighted,
            missing=self._missing,
        )
        verdict = since(verdict_of(facts), before.verdict if before else None, now)
        drawing = before.drawing if before else None
        self.snapshot = BoardSnapshot(
            taken=now,
            verdict=verdict,
            partitions=partitions,
            learned=learned,
            versions=versions,
            history=self._history.moments,
            drawing=drawing,
            skill=self._skill,
            threshold=self._threshold,
            subject=self._subject,
            letters=self._letters,
        )


@dataclass(frozen=True, slots=True)
class ServingSnapshot:
    """What a scorer left: the version that serves now, how scoring went, and what was rejected."""

    loaded: Loaded | None = None
    history: tuple[ScoringMoment, ...] = ()
    letters: LettersStatus | None = None

    @property
    def subject(self) -> Subject | None:
        """What feature importance is computed of."""
        if self.loaded is None:
            return None
        version = self.loaded.version
        return Subject(version.number, version.feature_names, version.labels, version.model)


@dataclass(slots=True)
class _Tally:
    """What was scored since the last moment that was kept."""

    records: int = 0
    points: int = 0
    positive: int | None = 0
    latency_s: float | None = None


class ScorerBoard:
    """What a scorer shows. Its methods are the main loop's; `snapshot` is anybody's."""

    def __init__(self) -> None:
        self._history: MomentSeries[ScoringMoment] = MomentSeries()
        self._tally = _Tally()
        self._since: float | None = None
        self.snapshot = ServingSnapshot()

    def serving(self, loaded: Loaded) -> None:
        """Note the version that scores from now on."""
        self.snapshot = replace(self.snapshot, loaded=loaded)

    def found(self, letters: LettersStatus) -> None:
        """Note how many letters the dead-letter topic had at the start."""
        self.snapshot = replace(self.snapshot, letters=letters)

    def rejected(self, topic: str, dead_letters: str, newest: RejectedRecord, now: datetime) -> None:
        """Note the record that was rejected last."""
        letters = self.snapshot.letters or LettersStatus(topic=dead_letters, before=None, newest=None)
        self.snapshot = replace(self.snapshot, letters=structs.replace(letters, newest=letter_of(topic, newest, now)))

    def scored(self, records: int, points: int, positive: int | None, latency_s: float | None) -> None:
        """Note a committed batch: records, points scored, how many of them positive, and the longest latency.

        Of more than two labels none is the positive one.
        """
        tally = self._tally
        tally.records += records
        tally.points += points
        tally.positive = None if positive is None else (tally.positive or 0) + positive
        if latency_s is not None:
            tally.latency_s = max(latency_s, tally.latency_s or 0.0)

    def look(self, lag: int | None, drift: float | None, now: datetime, monotonic: float) -> None:
        """Leave another moment, if it is time for one."""
        if self._since is None:
            self._since = monotonic
        if not self._history.due(monotonic) or monotonic <= self._since:
            return
        tally, seconds = self._tally, monotonic - self._since
        self._tally, self._since = _Tally(), monotonic
        share = None if tally.positive is None or not tally.points else tally.positive / tally.points
        moment = ScoringMoment(
            time=now,
            records_per_s=tally.records / seconds,
            points_per_s=tally.points / seconds,
            lag=lag,
            latency_s=tally.latency_s,
            positive=share,
            drift=drift,
        )
        self._history.add(moment, monotonic)
        self.snapshot = replace(self.snapshot, history=self._history.moments)


def since(verdict: VerdictStatus, before: VerdictStatus | None, now: datetime) -> VerdictStatus:
    """Return a verdict with the time since when its headline has been true."""
    same = before is not None and before.headline == verdict.headline
    at = before.since if before is not None and same else now
    return structs.replace(verdict, since=at)


def lag_of(metrics: Metrics) -> int | None:
    """Return the records that wait in all partitions; None where no end is known."""
    lags = metrics.values("streamsvm_input_lag_records")
    return int(sum(lags.values())) if lags else None


def shares_of(metrics: Metrics) -> tuple[float | None, float | None]:
    """Return the shares of the newest points that were answered with the second label, and that have it."""
    values = metrics.values("streamsvm_prequential_positive_share")
    return _finite(values.get(("answered",))), _finite(values.get(("true",)))


def figures_of(metrics: Metrics, name: str) -> Figures:
    """Return one figure of quality for each scorer; None where it is not measured."""
    values: Mapping[tuple[str, ...], float] = metrics.values(name)
    known = {scorer: _finite(values.get((scorer,))) for scorer in ("model", "sgd", "majority")}
    return Figures(known["model"], known["sgd"], known["majority"])


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def replace_current(part: VersionPart, current: int | None) -> VersionPart:
    """Return a version's line as it is while `current` names that number."""
    is_current = part.number == current
    return part if part.current == is_current else structs.replace(part, current=is_current)


def _partitions(learner: Learner, learned: Mapping[int, Learned]) -> tuple[PartitionPart, ...]:
    leaves, horizons = learner.open_leaves(), learner.horizons()
    return tuple(
        _partition(number, buckets, leaves[number], learned[number].rows, horizons[number])
        for number, buckets in learner.buckets().items()
    )


def _partition(
    number: int, buckets: tuple[Bucket, ...], leaf: OpenLeaf, rows: int, horizons: tuple[Horizon, ...]
) -> PartitionPart:
    parts = tuple(
        BucketPart(
            start=(*bucket.extent.start,),
            end=(*bucket.extent.end,),
            rows=bucket.extent.rows,
            points=len(bucket.points),
            weight=bucket.extent.moments.weight,
        )
        for bucket in buckets
    )
    leaf_part = LeafPart((*leaf.start,), (*leaf.end,), leaf.rows, leaf.span, leaf.points)
    return PartitionPart(number, leaf.sealed, rows, parts, leaf_part, tuple((one.rows, one.share) for one in horizons))


def _gate(gate: Gate | None) -> GateStatus | None:
    return None if gate is None else GateStatus(gate.outcome, gate.why, gate.candidate, gate.present)


def _threshold(version: Version) -> str:
    threshold = version.model.threshold
    return "" if threshold is None else described(threshold)
