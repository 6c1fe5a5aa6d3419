"""Boards with something on them, without a trainer; names as bad as they come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from consumers.host import Health
from consumers.metrics import TRAINER, Metrics
from consumers.page.board import BoardSnapshot, Drawing, Subject, TrainerBoard
from consumers.page.boundary import project
from consumers.page.site import Site
from consumers.page.status import (
    BucketPart,
    Figures,
    GateStatus,
    LeafPart,
    LetterPart,
    LettersStatus,
    Moment,
    PartitionPart,
    VerdictStatus,
    VersionPart,
)
from consumers.settings import InputConfig, Settings
from streamsvm.config import PointsConfig
from streamsvm.model import Estimate, Float, LinearMachine, Model, SampleFigures, Scaler, Skill
from tests.streams import gaussian

HOSTILE = "</title></bdi><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'&"
T0 = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def settings() -> Settings:
    """Return settings whose topic and labels are markup."""
    points = PointsConfig(dimension=3, labels=(f"no{HOSTILE}", f"yes{HOSTILE}"), feature_names=_names())
    return Settings(name="m", input=InputConfig(topic=HOSTILE), points=points)


def _names() -> tuple[str, ...]:
    return tuple(f"{index}{HOSTILE}" for index in range(3))


def drawing(coefficients: Float) -> Drawing:
    """Return a picture of a small linear model."""
    model = Model(Scaler.identity(3), LinearMachine(coefficients, 0.1))
    return Drawing(7, (f"no{HOSTILE}", f"yes{HOSTILE}"), _names(), project(gaussian(60), model), model.machine)


def version(number: int, outcome: str = "passed") -> VersionPart:
    """Return a line of the table of versions; its reason is markup."""
    gate = GateStatus(outcome, HOSTILE, None, None)  # type: ignore[arg-type]
    return VersionPart(
        number=number,
        sha256=f"{number:064x}",
        parent=None if number == 1 else f"{number - 1:064x}",
        published=T0,
        current=number == 7,
        rows=100 * number,
        points=100 * number - 1,
        training_points=60,
        support_vectors=20,
        objective=12.5 / number,
        gap=1e-6,
        audit_low=10.0,
        audit_high=15.0,
        converged=number != 6,
        seconds=0.01,
        gate=gate,
        cut={"0": (100 * number, 0)},
        balanced_accuracy=0.9,
        answered=0.12,
        true=0.1,
        skill="some",
    )


def snapshot(picture: Drawing | None, partitions: int = 1) -> BoardSnapshot:
    """Return what a trainer with two buckets a partition and two versions leaves."""
    buckets = (
        BucketPart(start=(0, 0), end=(400, 0), rows=400, points=10, weight=400.0),
        BucketPart(start=(400, 0), end=(600, 2), rows=200, points=10, weight=200.0),
    )
    leaf = LeafPart((600, 2), (650, 0), 48, 200, 47)
    parts = tuple(PartitionPart(number, 3, 648, buckets, leaf) for number in range(partitions))
    history = tuple(
        Moment(T0 + timedelta(hours=place), Figures(0.9 + place / 100, 0.85, 0.5), 100 * place, place, 0.1, 0.2)
        for place in range(5)
    )
    verdict = VerdictStatus(
        level="good", current=True, good=True, headline=f"Current {HOSTILE}", detail=HOSTILE, since=T0
    )
    letter = LetterPart(topic=HOSTILE, partition=0, offset=5, row=1, reason=HOSTILE, message=HOSTILE, time=T0)
    return BoardSnapshot(
        taken=T0,
        verdict=verdict,
        partitions=parts,
        versions=(version(7), version(6)),
        history=history,
        drawing=picture,
        subject=None if picture is None else Subject(7, _names(), (), Model(Scaler.identity(3), picture.machine)),
        letters=LettersStatus(topic=HOSTILE, before=12, newest=letter),
        skill=skill(),
        threshold=HOSTILE,
    )


def skill() -> Skill:
    """Return what a good version knew."""
    sure = Estimate(value=0.9, low=0.85, high=0.95)
    figures = SampleFigures(
        points=1_000,
        positives=100,
        said=0.12,
        true=0.1,
        table=(0.87, 0.03, 0.01, 0.09),
        balanced_accuracy=sure,
        auc=sure,
        average_precision=0.8,
        log_loss=None,
        brier=None,
    )
    return Skill(state="some", answers="both", newest=figures, audit=None)


def site(given: BoardSnapshot | None, *, ready: bool = True, metrics: Metrics | None = None) -> Site:
    """Return the site of a trainer that left this, whose dead letters have a hostile reason."""
    chosen, metrics, health = settings(), metrics or Metrics(TRAINER), Health(stuck_after_s=60.0)
    board = TrainerBoard(chosen, metrics)
    board.snapshot = given
    metrics.increase("streamsvm_dead_letters", 3, reason=HOSTILE)
    metrics.put("streamsvm_input_lag_records", 4, partition="0")
    health.require("broker", "" if ready else f"no broker {HOSTILE}")
    return Site(chosen, board, metrics, health, lambda: T0)


def value_at(document: object, path: str) -> object:
    """Follow a path such as `versions.0.number`; a name may hold dots itself."""
    for step in path.split("."):
        document = document[int(step)] if isinstance(document, list) else document[step]  # type: ignore[index]
    return document
