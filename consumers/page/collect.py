"""From what a daemon left, and its metrics and health, to the status that is shown; runs in the asker's thread."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
import numpy as np

from consumers.host.memory_limit import container_limit
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.page.blocks import INPUT, STATUS, collected, count_of, counts_of
from consumers.page.board import ScorerBoard, Subject, TrainerBoard, figures_of, lag_of, shares_of
from consumers.page.status import (
    FeaturePart,
    InputStatus,
    LettersStatus,
    Looks,
    MemoryStatus,
    ProcessStatus,
    QualityStatus,
    ScorerStatus,
    ServingPart,
    Status,
    StructureStatus,
    TrainerStatus,
    VerdictStatus,
)
from consumers.settings import Settings
from streamsvm import __version__
from streamsvm.config import CoresetConfig
from streamsvm.model.class_skill import ClassSkill
from streamsvm.model.machine import Model
from streamsvm.model.shapes import Shape, shapes_of
from streamsvm.model.skill import Skill, spelt
from streamsvm.places import time_of
from streamsvm.quality.importance import importance
from streamsvm.registry.loading import Loaded

MEBIBYTE = 1 << 20
MOST_FEATURES: Final = 12
"""That are listed: a table of a thousand coefficients says nothing."""
MOST_SURFACES: Final = 10
MOST_SHAPE_BYTES: Final = 16_000


def status_of(
    settings: Settings,
    board: TrainerBoard | ScorerBoard,
    metrics: Metrics,
    health: Health,
    *,
    started: datetime,
    now: datetime,
    looks: Looks | None = None,
) -> Status:
    """Return the status of a daemon; `looks` is what its newest version looks at."""
    process = _process(metrics, health, started)
    if isinstance(board, TrainerBoard):
        return _trainer(settings, board, metrics, process, now, looks)
    return _scorer(settings, board, metrics, process, now, looks)


def looks_of(subject: Subject) -> Looks:
    """Return what a version looks at, the features that decide most first."""
    model = subject.model
    shapes = shapes_of(model, subject.feature_names, subject.labels, subject.points)
    if shapes is not None:
        listed = _bounded(shapes)
        return Looks(
            number=subject.number,
            by="shapes",
            features=(),
            others=len(shapes) - len(listed),
            why="An additive machine looks at curves: streamsvm model show --shapes draws them.",
            shapes=listed,
        )
    found = importance(model)
    features, others = list[FeaturePart](), model.dimension
    why = "What a kernel machine looks at is not shown: only a linear one has a coefficient for each feature."
    if found is not None:
        shown = [at for at in np.argsort(-found.share, kind="stable")[:MOST_FEATURES] if found.share[at] > 0.0]
        names = subject.feature_names or tuple(f"x[{index}]" for index in range(model.dimension))
        features = [
            FeaturePart(name=names[at], share=float(found.share[at]), value=float(found.value[at])) for at in shown
        ]
        others -= len(features)
        why = "" if features else "No feature changes an answer."
    return Looks(
        number=subject.number,
        by="coefficients" if isinstance(model, Model) else "machines",
        features=tuple(features),
        others=others,
        why=why,
    )


def _bounded(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Return the strongest shapes, rounded to six digits: so many surfaces, and so many bytes of JSON."""
    found, surfaces, size = list[Shape](), 0, 0
    for one in shapes:
        surfaces += len(one.names) == 2
        if len(one.names) == 2 and surfaces > MOST_SURFACES:
            continue
        rounded = Shape(one.machine, one.names, *map(_rounded, (one.knots, one.values, one.range, one.shares)))
        size += len(msgspec.json.encode(rounded))
        if size > MOST_SHAPE_BYTES:
            break
        found.append(rounded)
    return tuple(found)


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else tuple(_rounded(one) for one in value)


def _kind(coreset: CoresetConfig) -> Literal["tree", "chain", "counter", "dyadic"]:
    if coreset.forgets:
        return "dyadic"
    return coreset.structure if coreset.structure in ("chain", "counter") else "tree"


def _trainer(
    settings: Settings,
    board: TrainerBoard,
    metrics: Metrics,
    process: ProcessStatus,
    now: datetime,
    looks: Looks | None,
) -> TrainerStatus:
    snapshot = board.snapshot
    config = settings.models()
    labels, skill = config.points.labels, snapshot.skill if snapshot else None
    partitions = snapshot.partitions if snapshot else ()
    answered, true = shares_of(metrics)
    verdict = (
        snapshot.verdict
        if snapshot
        else VerdictStatus(level="waiting", current=None, good=None, headline="Starting", detail="")
    )
    return TrainerStatus(
        name=settings.name,
        taken=snapshot.taken if snapshot else now,
        process=process,
        verdict=_unless_unwell(process, verdict),
        input=_input(settings, metrics, snapshot.letters if snapshot else None),
        structure=StructureStatus(
            _kind(config.coreset),
            partitions,
            rows=snapshot.learned if snapshot else 0,
            buckets=config.coreset.sizes.buckets,
            memory=config.coreset.memory,
        ),
        memory=MemoryStatus(
            count_of(metrics, "streamsvm_points_held"),
            count_of(metrics, "streamsvm_points_held_peak"),
            count_of(metrics, "streamsvm_coreset_bytes"),
            count_of(metrics, "streamsvm_checkpoint_bytes") or None,
            config.coreset.largest_bytes(config.points, max(1, len(partitions))),
            container_limit(),
        ),
        quality=QualityStatus(
            count_of(metrics, "streamsvm_prequential_points")
            if metrics.values("streamsvm_prequential_points")
            else None,
            figures_of(metrics, "streamsvm_prequential_accuracy"),
            figures_of(metrics, "streamsvm_prequential_balanced_accuracy"),
            figures_of(metrics, "streamsvm_prequential_hinge_loss"),
            snapshot.history if snapshot else (),
            labels=tuple(map(spelt, labels)),
            skill=skill if isinstance(skill, Skill) else None,
            class_skill=skill if isinstance(skill, ClassSkill) else None,
            threshold=snapshot.threshold if snapshot else "",
            answered=answered,
            true=true,
        ),
        versions=snapshot.versions if snapshot else (),
        looks=looks,
        **collected(STATUS, settings, metrics),
    )


def _scorer(
    settings: Settings,
    board: ScorerBoard,
    metrics: Metrics,
    process: ProcessStatus,
    now: datetime,
    looks: Looks | None,
) -> ScorerStatus:
    from consumers.page.scoring import ScorerFacts, is_rejecting, scoring_of, verdict_of

    snapshot = board.snapshot
    loaded, scored = snapshot.loaded, count_of(metrics, "streamsvm_scored_points")
    scoring = scoring_of(metrics, snapshot)
    rejecting = is_rejecting(metrics)
    verdict = verdict_of(ScorerFacts(rejecting, scored, scoring.drift, scoring.history), snapshot)
    return ScorerStatus(
        name=settings.name,
        taken=now,
        process=process,
        verdict=verdict if rejecting and process.healthy else _unless_unwell(process, verdict),
        topic=settings.scoring.topic,
        output_topic=settings.scoring.output_topic,
        scored_points=scored,
        batches=counts_of(metrics, "streamsvm_scored_batches"),
        dead_letters=counts_of(metrics, "streamsvm_dead_letters"),
        refused_models=count_of(metrics, "streamsvm_model_messages_refused"),
        serving=None if loaded is None else _serving(loaded),
        scoring=scoring,
        letters=snapshot.letters,
        looks=looks,
    )


def _serving(loaded: Loaded) -> ServingPart:
    version, published = loaded.version, loaded.published_at
    return ServingPart(
        number=version.number,
        sha256=loaded.sha256,
        points=version.stream.points,
        support_vectors=version.fit.support_vectors,
        loaded=datetime.fromtimestamp(loaded.loaded_at, UTC),
        published=None if published is None else time_of(published),
    )


def _process(metrics: Metrics, health: Health, started: datetime) -> ProcessStatus:
    healthy, why = health.healthy()
    ready, answer = health.ready()
    waiting = answer["waiting_for"] if healthy else {"health": why["why"]}
    resident = metrics.registry.get_sample_value("process_resident_memory_bytes")
    whole = None if resident is None else round(resident / MEBIBYTE) * MEBIBYTE  # a finer number never stands still
    return ProcessStatus(
        version=__version__,
        started=started,
        healthy=healthy,
        ready=ready,
        waiting_for=dict(waiting),
        resident_bytes=whole,
    )


def _unless_unwell(process: ProcessStatus, verdict: VerdictStatus) -> VerdictStatus:
    """Let health and readiness speak first."""
    if process.healthy and process.ready:
        return verdict
    level: Literal["waiting", "stopped"] = "waiting" if process.healthy else "stopped"
    headline = "Waiting" if process.healthy else "Not healthy"
    why = "; ".join(f"{part}: {what}" for part, what in process.waiting_for.items() if what) or "starting"
    detail = f"{why[:1].upper()}{why[1:]}".rstrip(".") + "."
    return VerdictStatus(level=level, current=None, good=None, headline=headline, detail=detail)


def _input(settings: Settings, metrics: Metrics, letters: LettersStatus | None) -> InputStatus:
    rows = counts_of(metrics, "streamsvm_input_rows")
    lag = dict(sorted(counts_of(metrics, "streamsvm_input_lag_records").items(), key=lambda part: int(part[0])))
    return InputStatus(
        topic=settings.input.topic,
        records=sum(counts_of(metrics, "streamsvm_input_records").values()),
        accepted=rows.get("accepted", 0),
        rejected=rows.get("rejected", 0),
        lag=lag,
        lag_total=lag_of(metrics),
        dead_letters=counts_of(metrics, "streamsvm_dead_letters"),
        letters=letters,
        **collected(INPUT, settings, metrics),
    )
