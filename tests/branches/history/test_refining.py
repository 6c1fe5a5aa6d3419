"""`streamsvm scale refine`: the best machine over all rows, found from the log, published beside the trainer's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console
from sklearn.svm import SVC

from consumers.branches.history.refining import Request, gap, refine
from consumers.models.show import describe
from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.branches.history.refined_part import Refined
from streamsvm.config import SvmConfig
from streamsvm.delivery.publication import Publication
from streamsvm.errors import ConfigurationError, InvalidMessage, StateError
from streamsvm.kafka import Cluster, Connection, Message, Outbox, TopicSpec
from streamsvm.model import message as model_codec
from streamsvm.model.machine import LinearMachine
from streamsvm.model.pointers import Owner, encode_owner, owner_key
from streamsvm.model.version import Version
from streamsvm.points import Points
from streamsvm.registry.loading import load_record
from streamsvm.verification.report import Outcome
from tests.brokers.fixtures import TestBroker
from tests.consumers.test_cli import error_of, run
from tests.consumers.test_verify import Forged, objective, with_lineage
from tests.consumers.trainers import encoded, produce, run_until, settings_for, versions
from tests.golden.model import handmade
from tests.kafka.foreign import delete_records
from tests.sizes import sized
from tests.streams import gaussian

ROWS = 1_200


@pytest.fixture
def sorted_stream() -> Points:
    """Rows of one class, then those of the other: what a small coreset is bad at."""
    points = gaussian(ROWS, 3)
    return points.take(np.argsort(points.y, kind="stable"))


@pytest.fixture
def settings(real_broker: TestBroker, tmp_path: Path, sorted_stream: Points) -> Settings:
    """Of a trainer that has learned the stream in two partitions."""
    made = settings_for(real_broker.name("r"), tmp_path / "checkpoint")
    made = made.model_copy(
        update={
            "coreset": sized(leaf_rows=100, bucket_points=60, audit_points=100, structure="chain"),
            "svm": SvmConfig(alpha=1e-3, probability="sigmoid"),
        }
    )
    Cluster(real_broker.connection).create([TopicSpec(made.input.topic, 2)])
    half = ROWS // 2
    produce(real_broker.connection, made.input.topic, encoded(sorted_stream.take(np.arange(half))), 0)
    produce(real_broker.connection, made.input.topic, encoded(sorted_stream.take(np.arange(half, ROWS))), 1)
    run_until(made, real_broker.connection, ROWS)
    return made


def asked(**changed: object) -> Request:
    return replace(Request(name="m-refined", within=1e-9, reads=12, keep=100, by="tester"), **changed)


def refined(connection: Connection, settings: Settings, request: Request, said: list[str] | None = None) -> Publication:
    loaded, value = load_record(connection, settings.name, models_topic=settings.output.models_topic)
    return refine(connection, settings, loaded, value, request, (said if said is not None else []).append)


def named(settings: Settings, name: str) -> Settings:
    return settings.model_copy(update={"name": name})


def loss(version: Version, points: Points) -> float:
    machine = version.model.machine
    assert isinstance(machine, LinearMachine)
    return objective(version, points, machine)


def test_a_refined_version_is_as_good_as_the_best_over_all_rows(
    real_broker: TestBroker, settings: Settings, sorted_stream: Points
) -> None:
    """LIBSVM over all rows finds none better; the trainer's own version is far from it; readers of the name get it."""
    connection, said = real_broker.connection, []
    sent = refined(connection, settings, asked(), said)
    before = next(one for one in reversed(versions(connection, settings)) if one.name == "m")
    after = load_record(connection, "m-refined", models_topic=settings.output.models_topic)[0].version
    assert model_codec.encode(after) == sent.value
    scaler = before.model.scaler
    svc = SVC(kernel="linear", C=1.0, tol=1e-10)
    svc.fit(scaler.transform(sorted_stream.X), sorted_stream.y, sample_weight=before.fit.C * sorted_stream.weight)
    best = objective(before, sorted_stream, LinearMachine(svc.coef_[0], float(svc.intercept_[0])))
    assert loss(before, sorted_stream) > 1.001 * best
    assert loss(after, sorted_stream) <= best * (1 + 1e-8)
    found = after.lineage.fact(Refined)
    assert isinstance(found, Refined)
    assert (found.name, found.number) == ("m", before.number)
    assert found.bound <= best * (1 + 1e-8)
    assert loss(after, sorted_stream) <= found.objective * (1 + 1e-12)
    proven = gap(found)
    assert proven is not None
    assert proven <= 1e-9
    assert after.lineage.cut == before.lineage.cut
    assert after.model.probability is not None
    assert after.audit is not None
    assert said[0].startswith(f"refining m@{before.number}: {ROWS:,} rows of 2 partitions are read up to 13 times")
    assert re.match(r"read 1 of at most 12: within \S+ % of the best possible", said[1])


def test_a_refined_version_is_made_again_from_the_log(real_broker: TestBroker, settings: Settings) -> None:
    """`verify` finds it identical, and certifies it; the trainer's model is what it was."""
    connection = real_broker.connection
    before = verify(Cluster(connection), settings)
    refined(connection, settings, asked())
    report = verify(Cluster(connection), named(settings, "m-refined"))
    assert report.clean, report.lines()
    assert [row.outcome for row in report.rows] == [Outcome.IDENTICAL]
    again = verify(Cluster(connection), settings)
    assert [row.outcome for row in again.rows] == [row.outcome for row in before.rows]
    certified = verify(Cluster(connection), named(settings, "m-refined"), keep=1_000).rows[-1].certificate
    assert certified is not None
    assert certified.gap is not None
    assert certified.gap <= 1e-8


def test_a_refined_version_is_of_the_rows_as_they_were_learned(real_broker: TestBroker, tmp_path: Path) -> None:
    """What was bounded to save a model does not come back in; it is said, and nothing is called proven of the rows."""
    connection, rows = real_broker.connection, gaussian(400, 5)
    rows.X[[11, 150, 333], 0] *= -3_000.0
    made = settings_for(real_broker.name("far"), tmp_path / "checkpoint")
    Cluster(connection).create([TopicSpec(made.input.topic)])
    produce(connection, made.input.topic, encoded(rows))
    run_until(made, connection, 400)
    sent = refined(connection, made, asked(within=1e-6))
    found, usual = sent.version.lineage.fact(Refined), np.delete(np.arange(400), [11, 150, 333])
    assert isinstance(found, Refined)
    assert found.bounded == 3
    before = next(one for one in reversed(versions(connection, made)) if one.name == "m")
    assert loss(sent.version, rows.take(usual)) < 1.2 * loss(before, rows.take(usual))
    assert verify(Cluster(connection), named(made, "m-refined")).clean
    loaded, _ = load_record(connection, "m-refined", models_topic=made.output.models_topic)
    with (console := Console(width=400)).capture() as shown:
        console.print(describe(loaded))
    assert "over all 400 rows as they were learned (of these 3 were bounded): its objective" in shown.get()
    assert loaded.certified is not None
    assert loaded.certified.upper >= loss(sent.version, rows) * (1 - 1e-12)


def test_the_same_version_refined_twice_gives_the_same_machine(real_broker: TestBroker, settings: Settings) -> None:
    """As the next version of the new name, with its place in the chain; a third name begins at 1."""
    connection = real_broker.connection
    one, two = refined(connection, settings, asked()), refined(connection, settings, asked())
    assert (one.version.number, two.version.number) == (1, 2)
    assert two.version.lineage.parent == one.digest
    assert isinstance(one.version.model.machine, LinearMachine)
    assert isinstance(two.version.model.machine, LinearMachine)
    assert (one.version.model.machine.coefficients == two.version.model.machine.coefficients).all()
    assert verify(Cluster(connection), named(settings, "m-refined")).clean
    assert refined(connection, settings, asked(name="other")).version.number == 1


def test_what_cannot_be_refined_is_refused(real_broker: TestBroker, settings: Settings) -> None:
    connection = real_broker.connection
    with pytest.raises(ConfigurationError, match="only the trainer publishes under its name"):
        refined(connection, settings, asked(name="m"))
    refined(connection, settings, asked(reads=1))
    with pytest.raises(ConfigurationError, match="m-refined@1 is refined already, from m@"):
        refined(connection, named(settings, "m-refined"), asked(name="again"))
    other = settings.model_copy(update={"name": "theirs", "checkpoint": settings.checkpoint})
    other = other.model_copy(
        update={
            "checkpoint": settings.checkpoint.model_copy(
                update={"directory": Path(f"{settings.checkpoint.directory}-2")}
            )
        }
    )
    run_until(other, connection, ROWS)
    count = len(versions(connection, other))
    with pytest.raises(ConfigurationError, match="theirs is the model of a trainer"):
        refined(connection, settings, asked(name="theirs"))
    assert len(versions(connection, other)) == count


def test_the_name_of_a_trainer_that_has_published_nothing_yet_is_refused(
    real_broker: TestBroker, settings: Settings
) -> None:
    """Its owner record says so: to take the name would end the trainer. What a killed refinement left does not."""
    connection, outbox = real_broker.connection, Outbox(real_broker.connection)
    for name, session in (("young", "0" * 32), ("m-refined", "refine-00")):
        owner = encode_owner(Owner(session, "2026-01-01T00:00:00+00:00"))
        outbox.send(Message(settings.output.aliases_topic, owner, owner_key(name).encode(), partition=0))
    outbox.flush(30.0)
    outbox.close()
    with pytest.raises(ConfigurationError, match=r"young is the model of a trainer, the process 0{32} since 2026"):
        refined(connection, settings, asked(name="young"))
    assert refined(connection, settings, asked(reads=1)).version.number == 1


def test_a_kernel_machine_that_says_it_is_refined_ends_no_verification(
    real_broker: TestBroker, settings: Settings, tmp_path: Path
) -> None:
    """A forger's word about one version: it is not made again, the others are."""
    connection = real_broker.connection
    kernel = settings.model_copy(
        update={
            "name": "kernel",
            "coreset": settings.coreset.model_copy(update={"train_points": 1_000}),
            "svm": SvmConfig(alpha=1e-3, kernel="rbf"),
            "checkpoint": settings.checkpoint.model_copy(update={"directory": tmp_path / "other"}),
            "output": settings.output.model_copy(update={"models_topic": f"{settings.output.models_topic}-kernel"}),
        }
    )
    run_until(kernel, connection, ROWS)
    forged = Forged(kernel, connection)
    claim = Refined(name="m", number=1, sha256="0" * 64, keep=64, reads=1, objective=2.0, bound=1.0)
    forged.change(1, lambda version: with_lineage(version, facts=(claim,)))
    forged.rechain()
    rows = verify(Cluster(connection), forged.store()).rows
    assert rows[0].outcome is Outcome.UNAVAILABLE
    assert "it cannot be a refined version: a certificate was asked for, but svm.kernel = rbf" in rows[0].note
    assert {row.outcome for row in rows[1:]} == {Outcome.IDENTICAL}


def test_a_bound_that_is_next_to_nothing_proves_nothing() -> None:
    """A gap beyond float64 is none, instead of an error after the version is published."""
    assert gap(Refined(name="m", number=1, sha256="", keep=64, reads=1, objective=1e300, bound=5e-324)) is None


def test_a_version_that_the_log_does_not_give_is_not_refined(real_broker: TestBroker, settings: Settings) -> None:
    """A forged one, and one whose rows are gone: nothing is published."""
    connection = real_broker.connection
    forged = Forged(settings, connection)
    number = len(forged.versions)
    forged.change(number, lambda version: replace(version, fit=replace(version.fit, C=2.0 * version.fit.C)))
    forged.rechain()
    stored = forged.store()
    with pytest.raises(StateError, match=rf"the log gives another m@{number} than the published one"):
        refined(connection, stored, asked())
    delete_records(connection, settings.input.topic, 0, 10)
    with pytest.raises(StateError, match="offsets 0-9 were removed"):
        refined(connection, settings, asked())
    for each in (settings, stored):
        with pytest.raises(ConfigurationError):
            load_record(connection, "m-refined", models_topic=each.output.models_topic)


def test_the_command_refines_and_says_what_is_proven(real_broker: TestBroker, settings: Settings) -> None:
    connection = real_broker.connection
    given = ["--bootstrap-servers", str(connection.options["bootstrap.servers"]), "--name", "m"]
    given += ["--output-models-topic", settings.output.models_topic, "--keep", "100"]
    done = run("scale", "refine", "--as", "best", *given)
    assert done.returncode == 0, done.stderr
    assert re.search(
        rf"best@1: proven within \S+ % of the best possible model over all {ROWS:,} rows of m@", done.stdout
    )
    short = run("scale", "refine", "--as", "best", "--reads", "1", *given)
    assert short.returncode == 1, short.stderr
    wrong = run("scale", "refine", "--as", "no name", *given)
    assert wrong.returncode == 78
    assert "--as no name cannot be a model's name" in error_of(wrong)
    shown = run("model", "show", *given[:2], "--name", "best", "--version", "1", *given[4:6])
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"refined.*from m@\d+", shown.stdout)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"sha256": "x"}, "which is not a SHA-256"),
        ({"reads": 0}, "0 reads"),
        ({"reads": 101}, "101 reads"),
        ({"keep": 1 << 25}, "rows kept"),
        ({"bound": 3.0}, "not above the objective"),
        ({"objective": np.inf}, "Expected `float`"),
    ],
)
def test_impossible_proofs_are_refused(changed: dict[str, object], what: str) -> None:
    version = handmade("linear")
    claim = Refined(name="m", number=1, sha256="0" * 64, keep=64, reads=1, objective=2.0, bound=1.0)
    lineage = msgspec.structs.replace(version.lineage, facts=(claim,))
    assert model_codec.decode(model_codec.encode(replace(version, lineage=lineage))).lineage.fact(Refined) == claim
    wrong = msgspec.structs.replace(lineage, facts=(msgspec.structs.replace(claim, **changed),))
    with pytest.raises(InvalidMessage, match=what):
        model_codec.decode(model_codec.encode(replace(version, lineage=wrong)))
