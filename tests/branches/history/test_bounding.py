"""How far a version can be from one that never saw erased rows: never less than how far that one is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

from consumers.branches.history.bounding import Reach, reach_without
from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection
from streamsvm.model.machine import LinearMachine
from streamsvm.model.version import Version
from streamsvm.points import Position
from tests.branches.history.test_erasing import produce, record_of, settings_of, started
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_cli import run
from tests.consumers.trainers import encoded, run_until, versions
from tests.streams import gaussian

ROWS = 160


def trained(connection: Connection, prefix: str, directory: Path) -> tuple[Settings, Version]:
    """Return a trainer's settings, and its newest version, of `ROWS` rows."""
    own = started(connection, settings_of(prefix, directory))
    produce(connection, own, encoded(gaussian(ROWS, 5)))
    run_until(own, connection, ROWS)
    return own, versions(connection, own)[-1]


def reached(connection: Connection, version: Version, gone: list[int]) -> Reach:
    topic_id = Cluster(connection).topic_id(version.lineage.topic) or ""
    places = {0: {Position(at) for at in gone}}
    return reach_without(Cluster(connection), version, topic_id, places, None, 30.0)


def test_the_best_model_without_rows_is_within_reach(real_broker: TestBroker, tmp_path: Path) -> None:
    """By LIBSVM, over the same scaler and C, for deletions of one row to a third of them; a row more is farther."""
    connection = real_broker.connection
    _, version = trained(connection, real_broker.name("reach"), tmp_path)
    model, rows, random = version.model, gaussian(ROWS, 5), np.random.default_rng(0)
    machine = model.machine
    assert isinstance(machine, LinearMachine)
    n = version.lineage.cut[0].offset
    Z, upper = model.scaler.transform(rows.X[:n]), version.fit.C * rows.weight[:n]
    for count in (1, 5, n // 3):
        gone = sorted(random.permutation(n)[:count].tolist())
        found = reached(connection, version, gone)
        assert found.distance is not None, found.why
        assert found.rows == n - count
        left = np.setdiff1d(np.arange(n), gone)
        again = SVC(kernel="linear", C=1.0, tol=1e-8).fit(Z[left], rows.y[left], sample_weight=upper[left])
        moved = float(np.linalg.norm(again.coef_[0] - machine.coefficients))
        assert moved <= found.distance + 1e-4
        assert found.share == pytest.approx(found.distance / np.linalg.norm(machine.coefficients))
        assert "of their length" in str(found)


def test_the_report_and_the_record_say_how_far(real_broker: TestBroker, tmp_path: Path) -> None:
    """Unasked where the log is short; the cost, how many fit into a day, and every store are told, too."""
    connection = real_broker.connection
    own, version = trained(connection, real_broker.name("told"), tmp_path / "own")
    given = ["--bootstrap-servers", str(connection.options["bootstrap.servers"]), "--name", "m"]
    given += ["--output-models-topic", own.output.models_topic, "--input-topic", own.input.topic]
    given += ["--checkpoint-directory", str(own.checkpoint.directory), "--report", str(tmp_path / "report.md")]
    done = run("history", "forget", "--position", "0:3", "--yes", *given)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.md").read_text()
    assert f"the coefficients of {version.key} are at most" in text
    assert "such commands fit into a day" in text
    assert f"m@{version.number + 1} takes the place of {version.key}, at its cut" in text
    assert "| coresets topic | the topic m.coresets |" in text
    record = record_of(connection, own)
    assert record.sha256 in text
    assert record.reach is not None
