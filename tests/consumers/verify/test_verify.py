"""`streamsvm verify`: what a trainer published is found clean, and every planted defect is found and named."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from confluent_kafka import KafkaException

from consumers.settings import OutputConfig, Settings
from consumers.verify.verify import verify
from streamsvm.build import build
from streamsvm.config import SvmConfig
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, Message, Publisher, TopicSpec
from streamsvm.model import (
    Alias,
    Ancestor,
    LinearMachine,
    PartitionCut,
    Version,
    decode_head,
    encode_alias,
    encode_head,
    message as model_codec,
)
from streamsvm.verification import EXIT_CLEAN, EXIT_DIFFERS, EXIT_INCOMPLETE, Outcome
from streamsvm.verification.differences import differences
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import error_of, run
from tests.consumers.forged import Forged, aliases_of, faults, outcomes, retired_record, train, with_lineage
from tests.consumers.scorer.running import held_back
from tests.consumers.trainers import (
    Running,
    changed,
    learn,
    produce,
    records,
    run_until,
    send,
    settings_for,
    topic,
    train_and_change,
)
from tests.deadline import eventually
from tests.golden.every_model import KINDS, handmade
from tests.golden.model import path_of
from tests.kafka.foreign import delete_records, set_option

pytestmark = pytest.mark.enough("embedded")

SHA256, INCARNATION = model_codec.SHA256_HEADER, "streamsvm.incarnation"


@pytest.fixture
def alone(broker: TestBroker, tmp_path: Path) -> Settings:
    """The same for one test, that may go on with it."""
    return train(broker, tmp_path / "checkpoint")


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
    settings = changed(base, "coreset", train_points=30).model_copy(update={"svm": SvmConfig(alpha=1e-3)})
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


def test_a_reset_incarnation_is_clean(alone: Settings, connection: Connection) -> None:
    """Numbers go on; each incarnation is learned from its own base, under its own configuration."""
    shutil.rmtree(alone.checkpoint.directory)
    larger = changed(alone, "coreset", points=165)
    run_until(larger, connection, 200, reset="m/1")
    report = verify(Cluster(connection), larger)
    assert report.clean, list(report.lines())
    assert [number for number, _ in outcomes(report)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert report.input_rows == 200 + 180


def test_a_version_that_was_refused_leaves_no_trace(settings: Settings, broker: TestBroker) -> None:
    """Its number goes to the next one, which is recomputed as any other."""
    learn(settings, broker.connection, 80)
    badly = train_and_change(lambda number, one: replace(one, intercept=float("nan")) if number == 1 else one)
    learn(settings, broker.connection, 80, seed=1, train=badly)
    report = verify(Cluster(broker.connection), settings)
    assert report.clean, list(report.lines())
    assert len(report.rows) == 3


Forge = Callable[[Forged], Iterable[Message] | None]
"""Tampers with a topic of five versions; what it returns is stored behind them."""


def lineage(number: int, *, chained: bool = True, **changes: object) -> Forge:
    """Say something else of a version's origin; the versions after it are made to fit if `chained`."""

    def forge(forged: Forged) -> None:
        forged.change(number, lambda version: with_lineage(version, **changes))
        if chained:
            forged.rechain()

    return forge


def a_bit(forged: Forged) -> None:
    forged.change(3, last_bit_changed)
    forged.rechain()


def a_bit_alone(forged: Forged) -> None:
    forged.change(3, last_bit_changed)


def a_byte(forged: Forged) -> None:
    forged.versions[1] = forged.versions[1]._replace(value=b"{" + (forged.versions[1].value or b""))


def a_better_audit(forged: Forged) -> None:
    def better(version: Version) -> Version:
        assert version.audit is not None
        return replace(version, audit=replace(version.audit, low=version.audit.low * 0.99))

    forged.change(2, better)
    forged.rechain()


def a_gap(forged: Forged) -> None:
    del forged.versions[2]


def a_copy(forged: Forged) -> None:
    forged.versions.insert(2, forged.versions[1])


def another_order(forged: Forged) -> None:
    forged.versions[1], forged.versions[2] = forged.versions[2], forged.versions[1]


def incarnation(number: int) -> Forge:
    return lambda forged: forged.change(number, lambda version: version, **{INCARNATION: "7"})


def another_build(forged: Forged) -> None:
    for number in (2, 4):
        forged.change(number, lambda version: with_lineage(version, build={**build(), "numpy": "0.1"}))
    forged.change(4, last_bit_changed)
    forged.rechain()


def another_topic(forged: Forged) -> None:
    for number in range(1, 6):
        forged.change(number, lambda version: with_lineage(version, topic_id="A" * 22))
    forged.rechain()


def a_newer_option(forged: Forged) -> None:
    configuration = model_codec.decode(forged.versions[4].value or b"").lineage.configuration | {"newer": 1}
    newer = {"configuration": configuration, "configuration_sha256": "1" * 64, "build": {**build(), "streamsvm": "99"}}
    forged.change(5, lambda version: with_lineage(version, **newer), **{INCARNATION: "2"})
    forged.incarnation = 2


def put_fourth(forged: Forged, value: bytes) -> None:
    """Put another value in the place of version 4, which version 5 names as its parent."""
    forged.put(4, value)
    forged.change(5, lambda version: with_lineage(version, parent=model_codec.sha256(value)))


def a_newer_format(forged: Forged) -> None:
    put_fourth(forged, (forged.versions[3].value or b"").replace(model_codec.FORMAT.encode(), b"streamsvm.model/99"))


def with_unknown_part(value: bytes, **changed: object) -> bytes:
    """Return a version's value with a part that a later build may have written, and other fields."""
    fields = json.loads(value) | changed
    fields["parts"].append({"part": "info_zzz", "by": "a later build"})
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def a_newer_part(forged: Forged) -> None:
    value = with_unknown_part(forged.versions[3].value or b"")
    assert model_codec.decode(value).passed_over == ("info_zzz",)
    put_fourth(forged, value)


def a_newer_part_and_another_parent(forged: Forged) -> None:
    value = forged.versions[3].value or b""
    forged.put(4, with_unknown_part(value, lineage=json.loads(value)["lineage"] | {"parent": "ab" * 32}))


def tombstone(forged: Forged) -> Message:
    return Message(forged.settings.output.models_topic, None, b"m@2", partition=0)


def retired(forged: Forged) -> Iterable[Message]:
    return tombstone(forged), retired_record(forged, 2)


def a_tombstone_of_a_strangers(forged: Forged) -> Iterable[Message]:
    forged.change(2, last_bit_changed)
    forged.rechain()
    Cluster(forged.connection).create([TopicSpec(forged.settings.output.audit_topic)])
    return (tombstone(forged),)


def link(*links: Ancestor) -> Forge:
    def forge(forged: Forged) -> None:
        forged.change(4, lambda version: with_lineage(version, links=links))
        parent = model_codec.sha256(forged.versions[3].value or b"")
        forged.change(5, lambda version: with_lineage(version, parent=parent))

    return forge


def a_number_again(forged: Forged) -> Iterable[Message]:
    again, forged.versions[4] = forged.versions[4], forged.versions[4]._replace(value=None)
    forged.versions.append(again)
    return (retired_record(forged, 5),)


OTHER_CUT = (PartitionCut(0, 81, 0, 0), *(PartitionCut(p, 0, 0, -1) for p in (1, 2, 3)))
DIFFERS: dict[str, tuple[Forge, str, str]] = {
    "a bit, and all that hangs on it": (a_bit, "IIDII", r"m@3 .*: model\.coefficients\[0\]\[1\]: published "),
    "a bit and its own hash": (a_bit_alone, "IIDDI", "m@4 .*names the parent"),
    "a byte": (a_byte, "IDDDI", "its header says.*the value is not a"),
    "the training set": (lineage(2, training_set_sha256="0" * 64), "IDIII", r"lineage\.training_set_sha256: published"),
    "the seed": (lineage(2, seed=5), "IDIII", r"lineage\.seed: published 5, recomputed 0"),
    "the configuration": (
        lineage(2, configuration_sha256="0" * 64),
        "IDIII",
        r"lineage\.configuration_sha256: published",
    ),
    "the cut": (lineage(2, cut=OTHER_CUT), "IDIII", r"stream\.rows"),
    "an audit that is merely plausible": (a_better_audit, "IDIII", r"info_audit\.whole\.low: published"),
    "the parent": (
        lineage(5, chained=False, parent="f" * 64),
        "IIIID",
        f"m@5 .*the version names the parent {'f' * 64}, but m@4 has the SHA-256",
    ),
    "a gap": (a_gap, "IIDI", "m@4 .*the numbers have a gap: m@3 is missing before it"),
    "a version twice": (a_copy, "IDDIII", "m@2 .*published twice.*m@2 .*published twice"),
    "another order": (
        another_order,
        "IDDII",
        "m@2 .*comes after m@3.*lies behind that of m@3",
    ),
    "an incarnation that goes back": (incarnation(2), "IIDII", "m@3 .*incarnation is 1, but m@2 before it has 7"),
    "an incarnation that the head does not have": (
        incarnation(5),
        "IIIII",
        f"m@head gives incarnation 1, but the header {INCARNATION} of m@5 says 7",
    ),
    "an unknown part does not hide another parent": (a_newer_part_and_another_parent, "IIIDD", "m@4 .*parent"),
    "a tombstone of a stranger's": (
        a_tombstone_of_a_strangers,
        "IDIII",
        "a tombstone at offset 5 says that m@2 is retired, but neither m@retired nor the audit",
    ),
    "a link": (link(Ancestor(2, "f" * 64)), "IIIDI", f"m@4 .*links to m@2 as {'f' * 64}, but that version has the SHA"),
    "no link": (link(), "IIIDI", r"m@4 .*links to the versions \[\]; besides its parent it must link to \[2\]"),
    "a number again after its tombstone": (
        a_number_again,
        "IIIID",
        "m@5 .*the version's number was used again after it was retired at offset 4",
    ),
}
"""How a topic was forged, the outcome of each version by its first letter, and what is said."""
NO_VERDICT: dict[str, tuple[Forge, str, str]] = {
    "another build": (another_build, "IIIFI", "numpy was 0.1, here it is"),
    "an option of a newer build": (a_newer_option, "IIIIU", "this build cannot run the version's configuration: newer"),
    "a newer format": (a_newer_format, "IIIUI", "the message format is 'streamsvm.model/99', but this build reads"),
    "a part of a newer build": (a_newer_part, "IIIUI", "the message has parts that this build does not know: info_zzz"),
}
"""What cannot be checked here is said to be so, and is no fault."""
ON_A_REAL_BROKER: dict[str, tuple[Forge, str, str]] = {
    "an input that is gone": (lineage(1, topic="gone"), "UDIII", "the topic gone no longer exists"),
    "an input of another id": (another_topic, "UUUUU", "was recreated: its id is"),
}


def check(row: tuple[Forge, str, str], status: int, settings: Settings, connection: Connection) -> None:
    """Check the outcomes of a forged topic's versions by their first letters, what is said, and the exit status."""
    forge, expected, said = row
    forged = Forged(settings, connection)
    more = forge(forged) or ()
    report = verify(Cluster(connection), forged.store(*more))
    text = "; ".join(report.lines())
    assert re.search(said, text), text
    assert ("".join(outcome.name[0] for _, outcome in outcomes(report)), report.exit_status) == (expected, status)


@pytest.mark.parametrize("name", DIFFERS)
def test_a_forged_topic_is_found_and_the_fault_named(name: str, trained: Settings, connection: Connection) -> None:
    """Though all hashes, headers and aliases that a forger can make fit were made to fit."""
    check(DIFFERS[name], EXIT_DIFFERS, trained, connection)


@pytest.mark.parametrize("name", NO_VERDICT)
def test_what_this_build_cannot_check_is_no_verdict(name: str, trained: Settings, connection: Connection) -> None:
    """It may be right; all other versions are recomputed, and it is said that not all could be checked."""
    check(NO_VERDICT[name], EXIT_INCOMPLETE, trained, connection)


@pytest.mark.real_broker
@pytest.mark.parametrize("name", ON_A_REAL_BROKER)
def test_versions_of_another_input_are_not_recomputed(name: str, trained: Settings, connection: Connection) -> None:
    """The same name, and the same bytes: another topic may hold anything."""
    differs = "D" in ON_A_REAL_BROKER[name][1]
    check(ON_A_REAL_BROKER[name], EXIT_DIFFERS if differs else EXIT_INCOMPLETE, trained, connection)


def test_retired_versions_are_passed_over_and_said(trained: Settings, connection: Connection) -> None:
    """A tombstone retires a version: it is not recomputed, but those after it still name it as their parent."""
    check((retired, "IRIII", "m@2: retired"), EXIT_CLEAN, trained, connection)


def test_aliases_must_name_what_is_there(trained: Settings, connection: Connection) -> None:
    """The head must name the newest version, every alias a version with its hash and offset."""
    forged = Forged(trained, connection)
    settings = forged.store()
    fourth = topic(connection, settings.output.models_topic)[3]
    forged.name(aliases_of(fourth, 1) | {"m@champion": encode_alias(Alias(2, "a" * 64, 1))})
    found = faults(verify(Cluster(connection), settings))
    assert "m@head names version 4, but the newest is m@5" in found[0]
    assert f"m@champion names m@2 as {'a' * 64} at offset 1, but" in found[0]
    assert "m@current" not in found[0], "an older version may be current"


def test_missing_aliases_are_found(trained: Settings, connection: Connection) -> None:
    """A topic of versions without a head is one whose next trainer would begin again at 1."""
    forged = Forged(trained, connection)
    settings = forged.store()
    forged.name({"m@head": None, "m@current": None})
    found = faults(verify(Cluster(connection), settings))
    assert "the head record m@head is missing" in found[0]
    assert "the alias m@current is missing" in found[0]


def test_no_alias_is_missing_while_the_gate_holds_the_first_versions_back(
    trained: Settings, connection: Connection
) -> None:
    """None of the versions has become current; once one had, the gate or the audit trail would tell."""
    said, lost = held_back("it knows nothing").gate, "the alias m@current is missing, but there are versions"
    assert said is not None
    for against, moved, missing in ((None, "m@other", ""), (1, "m@other", lost), (None, "m@current", lost)):
        forged = Forged(trained, connection)
        settings = forged.store()
        fifth = topic(connection, settings.output.models_topic)[4]
        head = decode_head(aliases_of(fifth, 1)["m@head"])
        gate = msgspec.structs.replace(said, against=against)
        forged.name({"m@head": encode_head(msgspec.structs.replace(head, gate=gate)), "m@current": None})
        Cluster(connection).create([TopicSpec(settings.output.audit_topic)])
        entry = msgspec.json.encode({"event": "alias_moved", "name": "m", "alias": moved})
        send(connection, Message(settings.output.audit_topic, entry, partition=0))
        assert faults(verify(Cluster(connection), settings)) == ({0: missing} if missing else {})


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
    set_option(connection, alone.output.models_topic, "cleanup.policy", "delete")  # of a compacted one none is taken

    def removed() -> bool:
        with suppress(KafkaException):  # the broker may not know the policy yet
            delete_records(connection, alone.output.models_topic, 0, second)
            return True
        return False

    eventually(removed, "the first versions are removed", 20.0)
    report = verify(Cluster(connection), alone)
    assert outcomes(report) == [(number, Outcome.IDENTICAL) for number in (3, 4, 5)]
    assert report.notes == ("the models topic begins at m@3: the 2 versions before it cannot be checked",)
    assert report.exit_status == EXIT_INCOMPLETE


@pytest.mark.real_broker
def test_a_hole_in_the_log_is_said(settings: Settings, connection: Connection) -> None:
    """A version that claims more rows than the log holds up to its cut was made from a log that has lost some."""
    learn(settings, connection, 40)
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
    learn(settings, connection, 120)
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
