"""`streamsvm verify`: what a trainer published is found clean, and every planted defect is found and named."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from consumers.settings import OutputConfig, Settings
from consumers.verify.verify import summary_line, verify
from streamsvm.build import build
from streamsvm.config import SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Publisher, Record, TopicSpec
from streamsvm.learning import training
from streamsvm.model import message as model_codec
from streamsvm.model.ancestry import Ancestor, linked
from streamsvm.model.fit import Audit
from streamsvm.model.machine import LinearMachine
from streamsvm.model.pointers import Alias, Head, Retired, encode_alias, encode_head, encode_retired, retired_key
from streamsvm.model.version import PartitionCut, Version
from streamsvm.points import Points
from streamsvm.verification.differences import differences
from streamsvm.verification.report import EXIT_CLEAN, EXIT_DIFFERS, EXIT_INCOMPLETE, Outcome, VerificationReport
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import error_of, run
from tests.consumers.trainers import Running, produce, records, run_until, settings_for, topic
from tests.golden.every_model import KINDS, handmade
from tests.golden.model import path_of
from tests.kafka.foreign import add_partitions, alter_topic, delete_records

pytestmark = pytest.mark.enough("embedded")

SHA256, INCARNATION = model_codec.SHA256_HEADER, "streamsvm.incarnation"


@pytest.fixture
def settings(broker: TestBroker, tmp_path: Path) -> Settings:
    made = settings_for(broker.name("v"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 4)])
    return made


@pytest.fixture(scope="module")
def shared() -> dict[str, Settings]:
    """What `trained` made for each kind of broker."""
    return {}


@pytest.fixture
def trained(broker: TestBroker, shared: dict[str, Settings], tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Five versions of one partition's 200 rows, of which one is no valid point; for tests that write elsewhere."""
    if broker.kind not in shared:
        shared[broker.kind] = train(broker, tmp_path_factory.mktemp("checkpoint"))
    return shared[broker.kind]


@pytest.fixture
def alone(broker: TestBroker, tmp_path: Path) -> Settings:
    """The same for one test, that may go on with it."""
    return train(broker, tmp_path / "checkpoint")


def train(broker: TestBroker, directory: Path) -> Settings:
    settings = settings_for(broker.name("v"), directory)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    produce(broker.connection, settings.input.topic, [*records(120), b"{}", *records(79, seed=4)])
    run_until(settings, broker.connection, 200)
    return settings


def outcomes(report: VerificationReport) -> list[tuple[int, Outcome]]:
    return [(row.number, row.outcome) for row in report.rows]


def faults(report: VerificationReport) -> dict[int, str]:
    """Return what is wrong with each version in one text; 0 stands for the topic as a whole."""
    found = {row.number: "; ".join(row.faults) for row in report.rows if row.faults}
    return found | ({0: "; ".join(report.faults)} if report.faults else {})


class Forged:
    """A copy of a models topic and its aliases under another name, to be changed on the way.

    Heads and aliases follow the forged versions, as a forger who can write to the topic would have them.
    """

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self._connection = connection
        self._origin = settings
        copy = f"{settings.output.models_topic}-{uuid.uuid4().hex[:8]}"
        self.settings = settings.model_copy(
            update={"output": settings.output.model_copy(update={"models_topic": copy})}
        )
        Cluster(connection).create([TopicSpec(copy), TopicSpec(self.settings.output.aliases_topic)])
        self.versions = [r for r in topic(connection, settings.output.models_topic) if r.value is not None]

    def change(self, number: int, change: Callable[[Version], Version], **headers: str) -> None:
        """Change a version and make its own hash and its headers fit."""
        record = self.versions[number - 1]
        value = model_codec.encode(change(model_codec.decode(record.value or b"")))
        own = {SHA256: model_codec.sha256(value), **headers}
        kept = tuple((name, text) for name, text in record.headers if name not in own)
        self.versions[number - 1] = record._replace(
            value=value, headers=(*kept, *((name, text.encode()) for name, text in own.items()))
        )

    def put(self, number: int, value: bytes) -> None:
        """Put another value in a version's place, with its hash."""
        record = self.versions[number - 1]
        headers = {**dict(record.headers), SHA256: model_codec.sha256(value).encode()}
        self.versions[number - 1] = record._replace(value=value, headers=tuple(headers.items()))

    def rechain(self) -> None:
        """Give every version the hash of the one before it as its parent, so that only its content is wrong."""
        for number in range(2, len(self.versions) + 1):
            hashes = [model_codec.sha256(record.value or b"") for record in self.versions]
            links = tuple(Ancestor(one, hashes[one - 1]) for one in linked(number))
            place = {"parent": hashes[number - 2], "links": links}
            self.change(number, lambda version, place=place: with_lineage(version, **place))

    def store(self, *more: Message, incarnation: int = 1) -> Settings:
        """Write it all, with a head and an alias that fit the last version."""
        output, outbox = self.settings.output, Outbox(self._connection)
        for record in self.versions:
            outbox.send(Message(output.models_topic, record.value, record.key, record.headers, partition=0))
        for message in more:
            outbox.send(message)
        outbox.flush(30.0)
        last = topic(self._connection, output.models_topic)[len(self.versions) - 1]
        for key, value in aliases_of(last, incarnation).items():
            outbox.send(Message(output.aliases_topic, value, key.encode(), partition=0))
        outbox.flush(30.0)
        outbox.close()
        return self.settings


def aliases_of(last: Record, incarnation: int) -> dict[str, bytes]:
    version, sha256 = model_codec.decode(last.value or b""), model_codec.sha256(last.value or b"")
    lineage = version.lineage
    head = Head(
        number=version.number,
        incarnation=incarnation,
        cut=lineage.cut,
        sha256=sha256,
        offset=last.offset,
        training_set_sha256=lineage.training_set_sha256,
        build=lineage.build,
        links=(),
    )
    return {
        "m@head": encode_head(head),
        "m@current": encode_alias(Alias(version.number, sha256, last.offset)),
    }


def retired_record(forged: Forged, *numbers: int) -> Message:
    """Return the record by which readers know that versions are retired."""
    value = encode_retired(Retired(1, (), numbers))
    return Message(forged.settings.output.aliases_topic, value, retired_key("m").encode(), partition=0)


def with_lineage(version: Version, **changes: object) -> Version:
    return replace(version, lineage=msgspec.structs.replace(version.lineage, **changes))


def last_bit_changed(version: Version) -> Version:
    """Return the version with the last bit of its second coefficient changed."""
    machine = version.model.machine
    assert isinstance(machine, LinearMachine)
    coefficients = machine.coefficients.copy()
    coefficients[1] = np.nextafter(coefficients[1], np.inf)
    return replace(version, model=replace(version.model, machine=replace(machine, coefficients=coefficients)))


@pytest.mark.enough("embedded", "real")
def test_what_a_trainer_published_is_clean(trained: Settings, connection: Connection) -> None:
    """Every version is recomputed to the last byte, the log read once, although one of its rows was rejected."""
    report = verify(Cluster(connection), trained)
    assert outcomes(report) == [(number, Outcome.IDENTICAL) for number in (1, 2, 3, 4, 5)]
    assert report.clean
    assert list(report.lines()) == []
    assert report.input_rows == 200
    assert report.exit_status == EXIT_CLEAN


@pytest.mark.parametrize("policy", ["every", "latest"])
def test_two_partitions_several_lives_and_rows_in_arrays_are_clean(
    policy: str, broker: TestBroker, tmp_path: Path
) -> None:
    """Cuts in the middle of records and of leaves, skipped cuts, restarts, training sets that had to be reduced."""
    base = settings_for(broker.name("v"), tmp_path, policy=policy, every_leaves=1)
    settings = base.model_copy(
        update={
            "coreset": base.coreset.model_copy(update={"train_points": 30}),
            "svm": SvmConfig(alpha=1e-3),
        }
    )
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 4)])
    for life in range(3):
        one, other = records(130, 2 * life), records(90, 2 * life + 1)
        arrays = [b"[" + b",".join(other[at : at + 7]) + b"]" for at in range(0, 90, 7)]
        produce(broker.connection, settings.input.topic, one, 0)
        produce(broker.connection, settings.input.topic, arrays, 2)
        run_until(settings, broker.connection, 220)
    report = verify(Cluster(broker.connection), settings)
    assert report.clean, list(report.lines())
    assert len(report.rows) >= (30 if policy == "every" else 3)
    rows = [model_codec.decode(r.value or b"").lineage for r in topic(broker.connection, settings.output.models_topic)]
    assert any(part.row for lineage in rows for part in lineage.cut) or policy == "latest"


def test_a_kernel_machine_is_clean_too(settings: Settings, connection: Connection) -> None:
    """Support vectors and dual variables are compared as their base64, which is every bit."""
    rbf = settings.model_copy(update={"svm": SvmConfig(kernel="rbf")})
    produce(connection, rbf.input.topic, records(90))
    run_until(rbf, connection, 90)
    assert verify(Cluster(connection), rbf).clean


def test_only_the_lineage_counts(trained: Settings, connection: Connection) -> None:
    """An auditor needs the name and the topic: neither configuration nor input of their own matter."""
    bare = Settings(name="m", output=trained.output, seed=99)
    assert verify(Cluster(connection), bare).clean


def test_one_version_alone(trained: Settings, connection: Connection) -> None:
    """Only its content is recomputed, from the base to its cut; the places of all are checked."""
    report = verify(Cluster(connection), trained, number=3)
    assert outcomes(report) == [
        (number, Outcome.IDENTICAL if number == 3 else Outcome.PASSED) for number in (1, 2, 3, 4, 5)
    ]
    assert report.clean
    assert report.input_rows == 120


def objective(version: Version, points: Points, machine: LinearMachine) -> float:
    """Return a machine's objective over points, plainly in float64."""
    decision = machine.decide(version.model.scaler.transform(points.X))
    hinge = np.maximum(0.0, 1.0 - points.y * decision)
    return float(0.5 * machine.coefficients @ machine.coefficients + version.fit.C * points.weight @ hinge)


def test_a_reset_incarnation_is_clean(alone: Settings, connection: Connection) -> None:
    """Numbers go on; each incarnation is learned from its own base, under its own configuration."""
    shutil.rmtree(alone.checkpoint.directory)
    changed = alone.model_copy(update={"coreset": alone.coreset.model_copy(update={"points": 165})})
    run_until(changed, connection, 200, reset="m/1")
    report = verify(Cluster(connection), changed)
    assert report.clean, list(report.lines())
    assert [number for number, _ in outcomes(report)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert report.input_rows == 200 + 180


def test_a_version_that_was_refused_leaves_no_trace(settings: Settings, broker: TestBroker) -> None:
    """Its number goes to the next one, which is recomputed as any other."""
    produce(broker.connection, settings.input.topic, records(80))
    run_until(settings, broker.connection, 80)
    produce(broker.connection, settings.input.topic, records(80, seed=1))
    run_until(settings, broker.connection, 80, train=_not_a_number_at_first())
    report = verify(Cluster(broker.connection), settings)
    assert report.clean, list(report.lines())
    assert len(report.rows) == 3


def _not_a_number_at_first() -> Callable[..., training.Trained]:
    """Return a training whose first model is nothing that a reader would take."""
    calls = iter(range(1_000))

    def train_once_badly(*arguments: object) -> training.Trained:
        trained = training.train(*arguments)  # type: ignore[arg-type]
        if next(calls):
            return trained
        machine = trained.model.machine
        assert isinstance(machine, LinearMachine)
        return replace(trained, model=replace(trained.model, machine=replace(machine, intercept=float("nan"))))

    return train_once_badly


def test_a_changed_bit_of_a_coefficient_is_found_and_named(trained: Settings, connection: Connection) -> None:
    """Though its hash, its children and the aliases were all made to fit."""
    forged = Forged(trained, connection)
    forged.change(3, last_bit_changed)
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    (fault,) = faults(report).items()
    assert fault[0] == 3
    assert fault[1].startswith("model.coefficients[0][1]: published ")
    assert report.exit_status == EXIT_DIFFERS


def test_a_changed_bit_breaks_the_chain_behind_it(trained: Settings, connection: Connection) -> None:
    """Where only its own hash was made to fit, the next version's parent is another one."""
    forged = Forged(trained, connection)
    forged.change(3, last_bit_changed)
    found = faults(verify(Cluster(connection), forged.store()))
    assert found.keys() == {3, 4}
    assert "names the parent" in found[4]


def test_a_value_that_is_not_what_its_hash_says(trained: Settings, connection: Connection) -> None:
    """A damaged value is no version at all, and is said to be damaged."""
    forged = Forged(trained, connection)
    forged.versions[1] = forged.versions[1]._replace(value=b"{" + (forged.versions[1].value or b""))
    found = faults(verify(Cluster(connection), forged.store()))
    assert "its header says" in found[2]
    assert "the value is not a" in found[2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training_set_sha256": "0" * 64}, "lineage.training_set_sha256: published"),
        ({"seed": 5}, "lineage.seed: published 5, recomputed 0"),
        ({"configuration_sha256": "0" * 64}, "lineage.configuration_sha256: published"),
        ({"cut": (PartitionCut(0, 81, 0, 0), *(PartitionCut(p, 0, 0, -1) for p in (1, 2, 3)))}, "stream.rows"),
    ],
)
def test_a_false_lineage_is_found(
    changes: dict[str, object], said: str, trained: Settings, connection: Connection
) -> None:
    """What a version says about its origin is recomputed as its coefficients are."""
    forged = Forged(trained, connection)
    forged.change(2, lambda version: with_lineage(version, **changes))
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert said in "; ".join(report.lines())
    assert not report.clean


def test_an_audit_that_the_log_does_not_bear_out_is_found(trained: Settings, connection: Connection) -> None:
    """The estimate is a pure function of the log, too; one that is merely plausible is not what was published."""
    forged = Forged(trained, connection)
    forged.change(2, lambda version: replace(version, audit=better(version.audit)))
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert "info_audit.whole.low: published" in "; ".join(report.lines())
    assert not report.clean


def better(audit: Audit | None) -> Audit:
    assert audit is not None
    return replace(audit, low=audit.low * 0.99)


def test_a_wrong_parent_is_found(trained: Settings, connection: Connection) -> None:
    """In the chain, and in the bytes: the lineage is part of them."""
    forged = Forged(trained, connection)
    forged.change(5, lambda version: with_lineage(version, parent="f" * 64))
    found = faults(verify(Cluster(connection), forged.store()))
    assert found.keys() == {5}
    assert f"the version names the parent {'f' * 64}, but m@4 has the SHA-256" in found[5]


def test_a_missing_number_is_found(trained: Settings, connection: Connection) -> None:
    """A gap is named by the numbers that are not there."""
    forged = Forged(trained, connection)
    del forged.versions[2]
    found = faults(verify(Cluster(connection), forged.store()))
    assert found == {4: "the numbers have a gap: m@3 is missing before it"}


def test_a_doubled_version_is_found(trained: Settings, connection: Connection) -> None:
    """Each of the two is told where the other one is, although both are right by their content."""
    forged = Forged(trained, connection)
    forged.versions.insert(2, forged.versions[1])
    found = faults(verify(Cluster(connection), forged.store()))
    assert found.keys() == {2}
    report = verify(Cluster(connection), forged.settings)
    doubled = [row for row in report.rows if row.number == 2]
    assert len(doubled) == 2
    assert all("published twice" in row.faults[0] for row in doubled)


def test_versions_out_of_order_are_found(trained: Settings, connection: Connection) -> None:
    """A number that comes after a greater one, and a cut that goes back."""
    forged = Forged(trained, connection)
    forged.versions[1], forged.versions[2] = forged.versions[2], forged.versions[1]
    found = faults(verify(Cluster(connection), forged.store()))
    assert "the version comes after m@3" in found[2]
    assert "the version's cut lies behind that of m@3" in found[2]
    assert "m@2 is missing before it" in found[3]


def test_an_incarnation_that_goes_back_is_found(trained: Settings, connection: Connection) -> None:
    """A header that says so is checked against those before it."""
    forged = Forged(trained, connection)
    forged.change(2, lambda version: version, **{INCARNATION: "7"})
    assert (
        "the version's incarnation is 1, but m@2 before it has 7"
        in faults(verify(Cluster(connection), forged.store()))[3]
    )


def test_an_incarnation_that_the_head_does_not_have_is_found(trained: Settings, connection: Connection) -> None:
    """No version comes after the newest one to contradict its header: the head does."""
    forged = Forged(trained, connection)
    forged.change(5, lambda version: version, **{INCARNATION: "7"})
    report = verify(Cluster(connection), forged.store())
    assert faults(report)[0] == f"m@head gives incarnation 1, but the header {INCARNATION} of m@5 says 7"
    assert report.exit_status == 1


def test_aliases_must_name_what_is_there(trained: Settings, connection: Connection) -> None:
    """The head must name the newest version, every alias a version with its hash and offset."""
    forged = Forged(trained, connection)
    settings = forged.store()
    fourth = topic(connection, settings.output.models_topic)[3]
    outbox = Outbox(connection)
    for key, value in (aliases_of(fourth, 1) | {"m@champion": encode_alias(Alias(2, "a" * 64, 1))}).items():
        outbox.send(Message(settings.output.aliases_topic, value, key.encode(), partition=0))
    outbox.flush(30.0)
    outbox.close()
    found = faults(verify(Cluster(connection), settings))
    assert "m@head names version 4, but the newest is m@5" in found[0]
    assert f"m@champion names m@2 as {'a' * 64} at offset 1, but" in found[0]
    assert "m@current" not in found[0], "an older version may be current"


def test_missing_aliases_are_found(trained: Settings, connection: Connection) -> None:
    """A topic of versions without a head is one whose next trainer would begin again at 1."""
    forged = Forged(trained, connection)
    settings = forged.store()
    outbox = Outbox(connection)
    for key in (b"m@head", b"m@current"):
        outbox.send(Message(settings.output.aliases_topic, None, key, partition=0))
    outbox.flush(30.0)
    outbox.close()
    found = faults(verify(Cluster(connection), settings))
    assert "the head record m@head is missing" in found[0]
    assert "the alias m@current is missing" in found[0]


def test_a_version_of_another_build_is_no_verdict(trained: Settings, connection: Connection) -> None:
    """If it is the same it is clean; if not, that is said, and not all could be checked."""
    theirs = {**build(), "numpy": "0.1"}
    forged = Forged(trained, connection)
    for number in (2, 4):
        forged.change(number, lambda version: with_lineage(version, build=theirs))
    forged.change(4, last_bit_changed)
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert dict(outcomes(report))[2] is Outcome.IDENTICAL
    assert dict(outcomes(report))[4] is Outcome.FOREIGN
    assert report.exit_status == EXIT_INCOMPLETE
    assert "numpy was 0.1, here it is" in "; ".join(report.lines())


def test_an_option_that_this_build_does_not_know_is_said(trained: Settings, connection: Connection) -> None:
    """A version of a newer build cannot be recomputed; the others are."""
    forged = Forged(trained, connection)
    newer = {
        "configuration": model_codec.decode(forged.versions[4].value or b"").lineage.configuration | {"newer": 1},
        "configuration_sha256": "1" * 64,
        "build": {**build(), "streamsvm": "99.0"},
    }
    forged.change(5, lambda version: with_lineage(version, **newer), **{INCARNATION: "2"})
    report = verify(Cluster(connection), forged.store(incarnation=2))
    assert dict(outcomes(report))[4] is Outcome.IDENTICAL
    assert dict(outcomes(report))[5] is Outcome.UNAVAILABLE
    assert "this build cannot run the version's configuration: newer" in "; ".join(report.lines())
    assert report.exit_status == EXIT_INCOMPLETE


def test_a_format_that_this_build_does_not_read_is_no_verdict(trained: Settings, connection: Connection) -> None:
    """A version of a newer format is not damaged: it cannot be checked here, and the others are."""
    forged = Forged(trained, connection)
    value = (forged.versions[3].value or b"").replace(model_codec.FORMAT.encode(), b"streamsvm.model/99")
    headers = {**dict(forged.versions[3].headers), SHA256: model_codec.sha256(value).encode()}
    forged.versions[3] = forged.versions[3]._replace(value=value, headers=tuple(headers.items()))
    forged.change(5, lambda version: with_lineage(version, parent=model_codec.sha256(value)))
    report = verify(Cluster(connection), forged.store())
    assert dict(outcomes(report))[4] is Outcome.UNAVAILABLE
    assert dict(outcomes(report))[5] is Outcome.IDENTICAL, faults(report)
    assert "the message format is 'streamsvm.model/99', but this build reads" in "; ".join(report.lines())
    assert report.exit_status == EXIT_INCOMPLETE


def with_unknown_part(value: bytes, **changed: object) -> bytes:
    """Return a version's value with a part that a later build may have written, and other fields."""
    fields = json.loads(value) | changed
    fields["parts"].append({"part": "info_zzz", "by": "a later build"})
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def test_a_part_that_readers_pass_over_is_no_verdict(trained: Settings, connection: Connection) -> None:
    """A subscriber may serve the version; but nobody here can say whether the part is right, so that it is named."""
    forged = Forged(trained, connection)
    value = with_unknown_part(forged.versions[3].value or b"")
    assert model_codec.decode(value).passed_over == ("info_zzz",)
    forged.put(4, value)
    forged.change(5, lambda version: with_lineage(version, parent=model_codec.sha256(value)))
    report = verify(Cluster(connection), forged.store())
    assert dict(outcomes(report))[4] is Outcome.UNAVAILABLE
    assert dict(outcomes(report))[5] is Outcome.IDENTICAL, faults(report)
    assert "the message has parts that this build does not know: info_zzz" in "; ".join(report.lines())
    assert report.exit_status == EXIT_INCOMPLETE


def test_an_unknown_part_hides_no_fault_of_the_chain(trained: Settings, connection: Connection) -> None:
    """A version with such a part is still checked in everything that needs no recomputation."""
    forged = Forged(trained, connection)
    value = forged.versions[3].value or b""
    lineage = json.loads(value)["lineage"] | {"parent": "ab" * 32}
    forged.put(4, with_unknown_part(value, lineage=lineage))
    report = verify(Cluster(connection), forged.store())
    assert dict(outcomes(report))[4] is Outcome.DIFFERS
    assert "parent" in faults(report)[4]
    assert report.exit_status == EXIT_DIFFERS


def test_retired_versions_are_passed_over_and_said(trained: Settings, connection: Connection) -> None:
    """A tombstone retires a version: it is not recomputed, but those after it still name it as their parent."""
    forged = Forged(trained, connection)
    tombstone = Message(forged.settings.output.models_topic, None, b"m@2", partition=0)
    report = verify(Cluster(connection), forged.store(tombstone, retired_record(forged, 2)))
    assert dict(outcomes(report))[2] is Outcome.RETIRED
    assert report.clean, list(report.lines())
    assert any("m@2: retired" in line for line in report.lines())


def test_a_tombstone_that_nothing_else_knows_of_hides_no_version(trained: Settings, connection: Connection) -> None:
    """Where there is an audit trail, a tombstone of a stranger's is named, and its version recomputed all the same."""
    forged = Forged(trained, connection)
    forged.change(2, last_bit_changed)
    forged.rechain()
    output = forged.settings.output
    Cluster(connection).create([TopicSpec(output.audit_topic)])
    report = verify(Cluster(connection), forged.store(Message(output.models_topic, None, b"m@2", partition=0)))
    assert dict(outcomes(report))[2] is Outcome.DIFFERS
    assert "a tombstone at offset 5 says that m@2 is retired, but neither m@retired nor the audit" in faults(report)[0]
    assert report.exit_status == EXIT_DIFFERS


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ((Ancestor(2, "f" * 64),), f"the version links to m@2 as {'f' * 64}, but that version has the SHA-256 "),
        ((), r"the version links to the versions \[\]; besides its parent it must link to \[2\]"),
    ],
    ids=["wrong", "missing"],
)
def test_a_wrong_link_is_found(
    trained: Settings, connection: Connection, links: tuple[Ancestor, ...], said: str
) -> None:
    """Readers of an old number would be led astray, or take longer."""
    forged = Forged(trained, connection)
    forged.change(4, lambda version: with_lineage(version, links=links))
    forged.change(5, lambda version: with_lineage(version, parent=model_codec.sha256(forged.versions[3].value or b"")))
    report = verify(Cluster(connection), forged.store())
    assert re.search(said, faults(report)[4])
    assert report.exit_status == EXIT_DIFFERS


def test_a_number_used_again_after_its_tombstone_is_found(trained: Settings, connection: Connection) -> None:
    """The number of a retired version is spent."""
    forged = Forged(trained, connection)
    tombstone = forged.versions[4]._replace(value=None)
    again, forged.versions[4] = forged.versions[4], tombstone
    forged.versions.append(again)
    found = faults(verify(Cluster(connection), forged.store(retired_record(forged, 5))))
    assert "the version's number was used again after it was retired at offset 4" in found[5]


@pytest.mark.real_broker
def test_what_retention_removed_is_named(alone: Settings, connection: Connection) -> None:
    """The range that is gone, and the versions that it takes with it; nothing differs, so the status is 3."""
    delete_records(connection, alone.input.topic, 0, 30)
    report = verify(Cluster(connection), alone)
    assert {outcome for _, outcome in outcomes(report)} == {Outcome.UNAVAILABLE}
    (line,) = report.lines()
    assert line.startswith("m@1 to m@5: ")
    assert "partition 0: offsets 0-29 were removed" in line
    assert report.exit_status == EXIT_INCOMPLETE


@pytest.mark.real_broker
def test_an_incarnation_behind_the_removed_range_is_still_checked(alone: Settings, connection: Connection) -> None:
    """After a reset the log needs to reach back to the new base only."""
    shutil.rmtree(alone.checkpoint.directory)
    delete_records(connection, alone.input.topic, 0, 100)
    run_until(alone, connection, 100, reset="m/1")
    report = verify(Cluster(connection), alone)
    assert outcomes(report) == [
        *((number, Outcome.UNAVAILABLE) for number in (1, 2, 3, 4, 5)),
        *((number, Outcome.IDENTICAL) for number in (6, 7)),
    ]
    assert report.exit_status == EXIT_INCOMPLETE


@pytest.mark.real_broker
def test_versions_removed_from_the_models_topic_are_said(alone: Settings, connection: Connection) -> None:
    """Those that are left are recomputed, but it is not all of them."""
    second = topic(connection, alone.output.models_topic)[2].offset
    alter_topic(connection, alone.output.models_topic, "cleanup.policy", "delete")  # of a compacted one none is taken
    delete_records(connection, alone.output.models_topic, 0, second)
    report = verify(Cluster(connection), alone)
    assert outcomes(report) == [(number, Outcome.IDENTICAL) for number in (3, 4, 5)]
    assert report.notes == ("the models topic begins at m@3: the 2 versions before it cannot be checked",)
    assert report.exit_status == EXIT_INCOMPLETE


@pytest.mark.real_broker
def test_a_recreated_input_is_not_the_one(trained: Settings, connection: Connection) -> None:
    """Same name, same bytes, another topic id: it may hold anything, so nothing is recomputed from it."""
    forged = Forged(trained, connection)
    other = "A" * 22
    for number in range(1, 6):
        forged.change(number, lambda version: with_lineage(version, topic_id=other))
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert {outcome for _, outcome in outcomes(report)} == {Outcome.UNAVAILABLE}
    assert f"was recreated: its id is {Cluster(connection).describe(trained.input.topic).topic_id}" in next(
        report.lines()
    )


@pytest.mark.real_broker
def test_an_input_that_is_gone_is_said(trained: Settings, connection: Connection) -> None:
    """The topic's name is all that is left of it."""
    forged = Forged(trained, connection)
    forged.change(1, lambda version: with_lineage(version, topic="gone"))
    report = verify(Cluster(connection), forged.store(), number=1)
    assert "the topic gone no longer exists" in "; ".join(report.lines())


@pytest.mark.real_broker
def test_a_hole_in_the_log_is_said(settings: Settings, connection: Connection) -> None:
    """A version that claims more rows than the log holds up to its cut was made from a log that has lost some."""
    produce(connection, settings.input.topic, records(40))
    run_until(settings, connection, 40)
    publisher = Publisher(connection, f"{settings.input.topic}-producer")
    publisher.start()
    publisher.publish([Message(settings.input.topic, value, partition=0) for value in records(40, 1)])
    publisher.close()
    produce(connection, settings.input.topic, records(40, seed=2))
    run_until(settings, connection, 80)
    assert verify(Cluster(connection), settings).clean
    forged = Forged(settings, connection)
    cut = (PartitionCut(0, 81, 0, 0), *(PartitionCut(p, 0, 0, -1) for p in (1, 2, 3)))
    forged.change(2, lambda version: with_lineage(version, cut=cut))
    forged.change(3, lambda version: replace(version, stream=msgspec.structs.replace(version.stream, rows=121)))
    forged.rechain()
    report = verify(Cluster(connection), forged.store())
    assert dict(outcomes(report)) == {1: Outcome.IDENTICAL, 2: Outcome.UNAVAILABLE, 3: Outcome.UNAVAILABLE}
    text = "; ".join(report.lines())
    assert "but at offset 80 row 0" in text
    assert "holds 120 rows up to the version's cut, but the version was made from 121" in text


def test_a_partition_that_is_added_is_learned_from_there_on(broker: TestBroker, tmp_path: Path) -> None:
    """Versions before it know nothing of it; the incarnation goes on, its base grows."""
    if broker.kind == "embedded":
        pytest.skip("topics of the embedded broker have four partitions")
    settings = settings_for(broker.name("v"), tmp_path)
    Cluster(broker.connection).create([TopicSpec(settings.input.topic, 1)])
    produce(broker.connection, settings.input.topic, records(90))
    run_until(settings, broker.connection, 90)
    add_partitions(broker.connection, settings.input.topic, 2)
    produce(broker.connection, settings.input.topic, records(90, seed=1), 1)
    run_until(settings, broker.connection, 90)
    report = verify(Cluster(broker.connection), settings)
    assert report.clean, list(report.lines())
    assert len(report.rows) == 4
    assert report.input_rows == 170, "as far as the last cut"


@pytest.mark.real_broker  # the embedded one has no transactions: a version may be there before its head is
def test_a_running_trainer_is_no_fault(settings: Settings, connection: Connection) -> None:
    """What is published while it reads is left out, not called missing."""
    produce(connection, settings.input.topic, records(400))
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") >= 2)
        while True:
            report = verify(Cluster(connection), settings)
            assert report.clean, list(report.lines())
            if report.rows[-1].number == 10:
                break


def test_a_trainer_and_its_auditor_give_linear_algebra_one_thread(settings: Settings, connection: Connection) -> None:
    """All through their lives and not only while they train: pilots are solved beside the trainings."""
    with threadpool_limits(3, user_api="blas"):
        produce(connection, settings.input.topic, records(40))
        with Running(settings, connection) as running:
            running.wait_for_rows(40)
            assert blas_threads() == {1}
        assert blas_threads() == {3}
        seen: list[set[int]] = []
        report = verify(Cluster(connection), settings, progress=lambda done, total: seen.append(blas_threads()))
        assert report.clean
        assert seen == [{1}]
        assert blas_threads() == {3}


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_a_name_without_versions_is_not_clean(trained: Settings, connection: Connection) -> None:
    """A wrong name, or a number that was never published, is an error and no finding."""
    with pytest.raises(ConfigurationError, match=r"holds no version of nobody.*with --name: m\.$"):
        verify(Cluster(connection), trained.model_copy(update={"name": "nobody"}))
    with pytest.raises(ConfigurationError, match=r"Did you mean m\?$"):
        verify(Cluster(connection), trained.model_copy(update={"name": "mm"}))
    elsewhere = OutputConfig(models_topic=f"{trained.output.models_topic}-empty")
    Cluster(connection).create([TopicSpec(topic) for topic in (elsewhere.models_topic, elsewhere.aliases_topic)])
    with pytest.raises(ConfigurationError, match=r"start the trainer, or check output\.models_topic"):
        verify(Cluster(connection), trained.model_copy(update={"output": elsewhere}))
    with pytest.raises(ConfigurationError, match="version 6 of m does not exist; the newest is 5"):
        verify(Cluster(connection), trained, number=6)


def test_partitions_that_wait_for_another_are_dropped_and_read_again(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backlog is bounded: with room for next to nothing the result is the same."""
    for partition in (0, 1):
        produce(connection, settings.input.topic, records(300, seed=partition), partition)
    run_until(settings, connection, 600)
    monkeypatch.setattr("consumers.verify.source.BACKLOG_BYTES", 1_000)
    monkeypatch.setattr("consumers.verify.source.BATCH_RECORDS", 50)
    report = verify(Cluster(connection), settings)
    assert report.clean, list(report.lines())
    assert report.input_rows == 600


def test_bytes_that_mean_the_same_are_still_other_bytes() -> None:
    """A space more is named as what it is; -0.0 is not 0.0."""
    value = b'{"a": 1, "parts": []}'
    assert differences(value, value) == ()
    assert differences(value.replace(b" ", b""), value) == (
        "the bytes, but not their meaning: the version was encoded in another way",
    )
    assert differences(b'{"a":-0.0,"parts":[]}', b'{"a":0.0,"parts":[]}') == ("a: published -0.0, recomputed 0.0",)
    assert differences(b'{"a":1,"b":2,"parts":[]}', b'{"b":2,"parts":[]}') == ("a: published 1, recomputed nothing",)


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_that_differs_is_named(kind: str) -> None:
    """By its own name, not by its place in the list, which changes where another one is missing."""
    value = path_of(kind).read_bytes()
    assert differences(value, model_codec.encode(handmade(kind))) == ()
    whole = json.loads(value)
    for at, part in enumerate(whole["parts"]):
        less = whole | {"parts": whole["parts"][:at] + whole["parts"][at + 1 :]}
        found = differences(json.dumps(less).encode(), value)
        assert found
        assert all(one.startswith((part["part"], "and ")) for one in found), found


def test_causes_are_named_before_consequences_and_long_lists_are_cut() -> None:
    """The training set's hash comes first, and a thousand coefficients take one line."""
    published = {"model": {"coefficients": [list(range(1000))]}, "lineage": {"training_set_sha256": "a"}, "parts": []}
    recomputed = {"model": {"coefficients": [[0.5] * 1000]}, "lineage": {"training_set_sha256": "b"}, "parts": []}
    found = differences(json.dumps(published).encode(), json.dumps(recomputed).encode())
    assert found[0].startswith("lineage.training_set_sha256")
    assert found[-1] == "and model.coefficients (995)"
    assert len(found) == 7


@pytest.mark.long
def test_the_command_says_what_it_found(real_broker: TestBroker, tmp_path: Path) -> None:
    """Status 0 and a summary; a report as JSON; status 1 and a line for each fault."""
    connection = real_broker.connection
    settings = settings_for(real_broker.name("v"), tmp_path)
    Cluster(connection).create([TopicSpec(settings.input.topic, 1)])
    produce(connection, settings.input.topic, records(120))
    run_until(settings, connection, 120)
    servers = ["--bootstrap-servers", str(connection.options["bootstrap.servers"]), "--name", "m"]
    clean = run("verify", "--all", *servers, "--output-models-topic", settings.output.models_topic)
    assert clean.returncode == EXIT_CLEAN, clean.stderr
    assert "clean: 3 identical; 120 input rows in " in clean.stdout
    forged = Forged(settings, connection)
    forged.change(2, last_bit_changed)
    models = ["--output-models-topic", forged.store().output.models_topic]
    found = run("verify", *servers, *models)
    assert found.returncode == EXIT_DIFFERS
    assert "m@2 (offset 1): model.coefficients[0][1]: published" in found.stdout
    plain = json.loads(run("verify", "--json", *servers, *models).stdout)
    assert plain["counts"] == {"identical": 1, "differs": 2}
    assert [version["outcome"] for version in plain["versions"]] == ["identical", "differs", "differs"]
    both = run("verify", "--all", "--version", "1", *servers, *models)
    assert both.returncode == 78
    assert "--version = 1, and --all is given" in error_of(both)


@pytest.mark.long
def test_speed_on_many_versions(real_broker: TestBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """75 versions over 3,000 rows are clean; the summary says how fast that went."""
    settings = settings_for(real_broker.name("v"), tmp_path)
    Cluster(real_broker.connection).create([TopicSpec(settings.input.topic, 1)])
    produce(real_broker.connection, settings.input.topic, records(3_000))
    run_until(settings, real_broker.connection, 3_000)
    report = verify(Cluster(real_broker.connection), settings)
    with capsys.disabled():
        print(f"\n{summary_line(report)}")
    assert report.clean
    assert len(report.rows) == 75
    assert report.input_rows == 3_000
