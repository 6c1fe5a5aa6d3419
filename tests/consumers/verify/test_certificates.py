"""`streamsvm verify --certificate`: what all rows of a version prove of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.choices import Loss
from streamsvm.config import SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, Message, TopicSpec
from streamsvm.model import AdditiveMachine, LinearMachine, Scaler, StreamSummary, Version
from streamsvm.points import Points
from streamsvm.registry import load_record
from streamsvm.verification import EXIT_CLEAN, NotRecomputable, Outcome, Recomputation
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.forged import Forged, retired_record
from tests.consumers.trainers import encoded, produce, records, run_until, settings_for, versions
from tests.streams import gaussian

pytestmark = pytest.mark.enough("embedded")


@pytest.mark.enough("embedded", "real")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_certificate_is_of_all_rows(settings: Settings, connection: Connection, loss: Loss) -> None:
    """Two partitions, arrays, a rejected row: the objective is float64's over all rows, the bound scikit-learn's."""
    settings = settings.model_copy(update={"svm": settings.svm.model_copy(update={"loss": loss})})
    one, other = gaussian(130, 0), gaussian(90, 1)
    lines = records(90, 1)
    produce(connection, settings.input.topic, [*records(130, 0), b"{}"], 0)
    produce(
        connection, settings.input.topic, [b"[" + b",".join(lines[at : at + 7]) + b"]" for at in range(0, 90, 7)], 2
    )
    run_until(settings, connection, 221)
    report = verify(Cluster(connection), settings, keep=64)
    assert report.clean
    newest = report.rows[-1]
    assert newest.outcome is Outcome.IDENTICAL
    assert [row.certificate for row in report.rows[:-1]] == [None] * (len(report.rows) - 1)
    version = versions(connection, settings)[-1]
    cut = {part.partition: part for part in version.lineage.cut}
    learned = (cut[0].offset, cut[2].offset * 7 + cut[2].row)
    points = Points.union([one.take(slice(0, min(learned[0], 130))), other.take(slice(0, learned[1]))])
    found = newest.certificate
    assert found is not None
    assert found.rows == version.stream.points == len(points)
    machine = version.model.machine
    assert isinstance(machine, LinearMachine)
    assert found.objective == pytest.approx(objective(version, points, machine, loss), rel=1e-12)
    svc = SVC(kernel="linear", C=1.0, tol=1e-9)
    if loss == "squared_hinge":
        svc = LinearSVC(dual=False, tol=1e-10, intercept_scaling=1e4)
    svc.fit(version.model.scaler.transform(points.X), points.y, sample_weight=version.fit.C * points.weight)
    best = objective(version, points, LinearMachine(svc.coef_[0], float(svc.intercept_[0])), loss)
    assert found.bound <= best
    whole = verify(Cluster(connection), settings, keep=1_000).rows[-1].certificate
    assert whole is not None
    assert whole.bound == pytest.approx(best, rel=1e-7)
    assert whole.bound <= best * (1 + 1e-12)
    assert whole.gap is not None
    assert found.gap is not None
    assert whole.gap <= found.gap + 1e-12


def test_a_certificate_of_an_additive_version(settings: Settings, connection: Connection) -> None:
    """Over all rows, against every machine of its knots and pairs."""
    settings = settings.model_copy(update={"svm": SvmConfig(kernel="additive")})
    produce(connection, settings.input.topic, records(160))
    run_until(settings, connection, 160)
    report = verify(Cluster(connection), settings, keep=1_000)
    assert report.clean
    version, found = versions(connection, settings)[-1], report.rows[-1].certificate
    assert found is not None
    points, machine = gaussian(160).take(slice(0, found.rows)), version.model.machine
    assert isinstance(machine, AdditiveMachine)
    slack = np.maximum(0.0, 1.0 - points.y * machine.decide(version.model.scaler.transform(points.X)))
    lost = points.weight @ (slack if settings.svm.margin_loss == "hinge" else slack**2)
    own = 0.5 * machine.squared_norm + version.fit.C * float(lost)
    assert found.objective == pytest.approx(own, rel=1e-9)
    assert found.gap is not None
    assert 0.0 < found.gap < 0.1  # a small coreset
    assert f"of its knots and pairs over all {found.rows}" in next(line for line in report.lines() if "proven" in line)


def objective(version: Version, points: Points, machine: LinearMachine, loss: Loss = "hinge") -> float:
    """Return a machine's objective over points, plainly in float64."""
    decision = machine.decide(version.model.scaler.transform(points.X))
    slack = np.maximum(0.0, 1.0 - points.y * decision)
    total = points.weight @ (slack if loss == "hinge" else slack**2)
    return float(0.5 * machine.coefficients @ machine.coefficients + version.fit.C * total)


def test_a_certificate_in_words(trained: Settings, connection: Connection) -> None:
    report = verify(Cluster(connection), trained, number=2, keep=1_000)
    (line,) = report.lines()
    assert re.match(r"m@2: proven within \S+ % of the best possible model over all 80 rows: its objective is at", line)
    plain = report.plain()["versions"]
    assert plain[1]["certificate"]["rows"] == 80
    assert "certificate" not in plain[0]


@pytest.mark.parametrize(
    "forge",
    [
        lambda version: replace(version, fit=replace(version.fit, C=-1.0)),
        lambda version: replace(version, fit=replace(version.fit, C=2.0 * version.fit.C)),
        lambda version: replace(
            version,
            model=replace(
                version.model, scaler=Scaler.identity(1), machine=LinearMachine(np.ones(1), 0.0), probability=None
            ),
        ),
    ],
    ids=["a negative C", "another C", "another dimension"],
)
def test_a_forged_version_has_no_certificate(
    trained: Settings, connection: Connection, forge: Callable[[Version], Version]
) -> None:
    """It would be a proof of a problem that the forger chose; what is wrong is said as ever."""
    forged = Forged(trained, connection)
    forged.change(3, forge)
    forged.rechain()
    report = verify(Cluster(connection), forged.store(), number=3, keep=64)
    assert report.rows[2].outcome is Outcome.DIFFERS, report.rows[2]
    assert report.rows[2].certificate is None


def test_a_certificate_begins_with_its_own_reading(trained: Settings, connection: Connection) -> None:
    """A forged version that claims more rows than there are comes before the right one, all of whose rows are seen."""

    def more_rows(stream: StreamSummary) -> StreamSummary:
        return msgspec.structs.replace(stream, rows=stream.rows + 1)

    forged = Forged(trained, connection)
    right = forged.versions[2]
    forged.change(3, lambda version: replace(version, stream=more_rows(version.stream)))
    settings = forged.store(
        Message(forged.settings.output.models_topic, right.value, right.key, right.headers, partition=0)
    )
    rows = verify(Cluster(connection), settings, number=3, keep=64).rows
    one, other = (row.certificate for row in rows if row.number == 3)
    assert one is None
    assert other is not None
    assert other.rows == 120


def test_what_was_proven_stays_proven_when_the_log_loses_rows(
    trained: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second read that lacks rows would prove too little of a machine; the first one's certificate is returned."""
    once = verify(Cluster(connection), trained, number=2, keep=64).rows[1].certificate
    calls: list[object] = []

    def require(self: Recomputation, version: Version) -> None:
        calls.append(self)
        if len(calls) > 1:
            raise NotRecomputable("records in between were removed")

    monkeypatch.setattr(Recomputation, "require_all", require)
    row = verify(Cluster(connection), trained, number=2, keep=64, reads=5).rows[1]
    assert len(calls) == 2
    assert row.outcome is Outcome.IDENTICAL
    assert row.certificate == once is not None


def test_no_certificate_where_every_version_is_retired(trained: Settings, connection: Connection) -> None:
    """Nothing would be proven, and the exit status would be that of success."""
    forged = Forged(trained, connection)
    tombstones = [
        Message(forged.settings.output.models_topic, None, f"m@{number}".encode(), partition=0)
        for number in range(1, 6)
    ]
    settings = forged.store(*tombstones, retired_record(forged, *range(1, 6)))
    with pytest.raises(ConfigurationError, match="every version of m is retired"):
        verify(Cluster(connection), settings, keep=64)


def test_what_cannot_have_a_certificate_is_refused(settings: Settings, connection: Connection) -> None:
    rbf = settings.model_copy(update={"svm": SvmConfig(kernel="rbf")})
    produce(connection, rbf.input.topic, records(90))
    run_until(rbf, connection, 90)
    with pytest.raises(ConfigurationError, match=r"svm\.kernel = rbf: in a kernel's space"):
        verify(Cluster(connection), rbf, keep=1_000)


def test_what_is_proven_is_proven_of_the_rows_that_came(settings: Settings, connection: Connection) -> None:
    """In a first leaf and later; what is said names how many were bounded."""
    rows = gaussian(160)
    rows.X[[7, 90, 91, 130], 0] *= 300.0
    produce(connection, settings.input.topic, encoded(rows))
    run_until(settings, connection, 160)
    (number,) = {version.number for version in versions(connection, settings)[-1:]}
    loaded, _ = load_record(connection, "m", models_topic=settings.output.models_topic)
    version = loaded.version
    assert isinstance(version.model.machine, LinearMachine)
    came = objective(version, rows, version.model.machine)
    report = verify(Cluster(connection), settings, number=number, keep=1_000)
    assert report.clean
    certificate = report.rows[-1].certificate
    assert certificate is not None
    assert certificate.bounded == 4
    assert certificate.objective == pytest.approx(came, rel=1e-9)
    assert "all 160 rows as they came (of these 4 were bounded when learned)" in str(certificate)


@pytest.mark.long
def test_the_command_says_what_is_proven(real_broker: TestBroker, tmp_path: Path) -> None:
    """Of the newest version."""
    settings = settings_for(real_broker.name("c"), tmp_path)
    Cluster(real_broker.connection).create([TopicSpec(settings.input.topic, 1)])
    produce(real_broker.connection, settings.input.topic, records(120))
    run_until(settings, real_broker.connection, 120)
    servers = ["--bootstrap-servers", str(real_broker.connection.options["bootstrap.servers"]), "--name", "m"]
    models = ["--output-models-topic", settings.output.models_topic]
    proven = run("verify", "--certificate", *servers, *models)
    assert proven.returncode == EXIT_CLEAN, proven.stderr
    assert re.search(r"m@3: proven within \S+ % of the best possible model over all 120 rows", proven.stdout)
