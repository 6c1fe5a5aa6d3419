"""One recipe makes a version: what is added to it, the daemon, the verifier and the estimator all do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from consumers.verify.verify import verify
from streamsvm import CoresetSVC
from streamsvm.config import SvmConfig
from streamsvm.coreset.audit_sample import Sampled
from streamsvm.kafka import Cluster, TopicSpec
from streamsvm.learning import recipe
from streamsvm.learning.training import Trained
from streamsvm.model.machine import LinearMachine
from streamsvm.verification.report import EXIT_CLEAN, EXIT_DIFFERS
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, records, run_until, settings_for, versions
from tests.streams import gaussian

SHIFT = 0.25


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a step to training: it moves the plane."""
    sound = recipe.with_probability

    def moved(trained: Trained, sample: Sequence[Sampled], config: SvmConfig) -> Trained:
        machine = trained.model.machine
        assert isinstance(machine, LinearMachine)
        model = replace(trained.model, machine=replace(machine, intercept=machine.intercept + SHIFT))
        return sound(replace(trained, model=model), sample, config)

    monkeypatch.setattr(recipe, "with_probability", moved)


def intercept_of_a_version(broker: TestBroker, directory: Path, name: str) -> tuple[float, object]:
    """Return the intercept of the one version of a small stream, and what `verify` is called with."""
    settings = settings_for(broker.name(name), directory / name)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 1)])
    produce(broker.connection, settings.input.topic, records(40))
    run_until(settings, broker.connection, 40)
    machine = versions(broker.connection, settings)[0].model.machine
    assert isinstance(machine, LinearMachine)
    return machine.intercept, settings


def test_the_daemon_and_the_verifier_follow(broker: TestBroker, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What the daemon publishes with the step verifies with it; what it published without does not."""
    plain, without = intercept_of_a_version(broker, tmp_path, "without")
    request.getfixturevalue("planted")
    moved, with_it = intercept_of_a_version(broker, tmp_path, "with")
    assert moved == plain + SHIFT
    assert verify(Cluster(broker.connection), with_it).exit_status == EXIT_CLEAN  # type: ignore[arg-type]
    assert verify(Cluster(broker.connection), without).exit_status == EXIT_DIFFERS  # type: ignore[arg-type]


def test_the_estimator_follows(request: pytest.FixtureRequest) -> None:
    """On the same rows its plane moves by as much."""
    points = gaussian(200, 0)
    machine = CoresetSVC(C=1.0).fit(points.X, points.y)
    request.getfixturevalue("planted")
    moved = CoresetSVC(C=1.0).fit(points.X, points.y)
    assert (moved.decision_function(points.X) - machine.decision_function(points.X)).std() < 1e-12
    assert moved.decision_function(points.X[:1])[0] == pytest.approx(machine.decision_function(points.X[:1])[0] + SHIFT)
