"""What people do with versions: names, pins, rollbacks and retirements, and what they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from consumers.models.catalogue import (
    Catalogue,
    CatalogueEntry,
    VersionFigures,
    holds_newest,
    read_catalogue,
    read_names,
)
from consumers.models.moving import (
    Decide,
    Move,
    Records,
    RollBack,
    perform,
    pin,
    remove_alias,
    retire,
    set_alias,
    unpin,
)
from consumers.settings import OutputConfig, Settings
from consumers.streams import moves_id
from streamsvm.errors import ConfigurationError, TransientError
from streamsvm.kafka import Cluster, Connection, Message, OutcomeUnknown, Publisher, TopicSpec
from streamsvm.model import Alias, Retired, encode_retired, message as model_codec, retired_key
from streamsvm.registry import Aliases, ModelSubscriber, load_version
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import error_of, run
from tests.consumers.trainers import retired, trail
from tests.registry.test_subscriber import DEADLINE_S, NAME, Trainer, version_of

pytestmark = pytest.mark.enough("embedded")

ANN = "ann@desk"


@pytest.fixture
def settings(broker: TestBroker) -> Settings:
    """Settings of a model whose output topics exist and are empty."""
    models = broker.name("models")
    compacted = {"cleanup.policy": "compact"}
    Cluster(broker.connection).create(
        [TopicSpec(models), TopicSpec(f"{models}.aliases", config=compacted), TopicSpec(f"{models}.audit")],
    )
    return Settings(name=NAME, kafka={"bootstrap.servers": "unused:1"}, output=OutputConfig(models_topic=models))


@pytest.fixture
def trainer(connection: Connection, settings: Settings) -> Iterator[Trainer]:
    """Publishes, after five versions."""
    with closing(Trainer(connection, settings.output.models_topic)) as made:
        for number in range(1, 6):
            made.publish(version_of(number))
        yield made


@pytest.fixture
def records(connection: Connection, settings: Settings) -> Records:
    return Records(Cluster(connection), settings, ANN, "because", datetime(2026, 1, 1, tzinfo=UTC))


def reached(records: Records) -> Connection:
    """Return the settings of the records' cluster, for what makes its own."""
    return records.cluster.connection


def do(records: Records, decide: Decide) -> str:
    return perform(records.cluster, records.settings, decide)


def serves(records: Records, alias: str = "current") -> int:
    models_topic = records.settings.output.models_topic
    return load_version(reached(records), NAME, models_topic=models_topic, alias=alias).version.number


def audited(records: Records) -> list[dict[str, Any]]:
    return trail(reached(records), records.settings)


# -------------------------------------------------------------------- moves


@pytest.mark.usefixtures("trainer")
def test_an_alias_names_a_version_until_it_is_moved_or_taken_away(records: Records) -> None:
    """Each move is in the audit trail, with who and why; one that changes nothing is not."""
    assert do(records, set_alias(records, "stable", 2)) == f"{NAME}@stable now names {NAME}@2"
    assert serves(records, "stable") == 2
    assert do(records, set_alias(records, "stable", 2)) == f"{NAME}@stable already names {NAME}@2"
    assert (
        do(records, set_alias(records, "stable", 4)) == f"{NAME}@stable now names {NAME}@4; before, it named {NAME}@2"
    )
    assert (serves(records, "stable"), serves(records)) == (4, 5)
    assert do(records, remove_alias(records, "stable")) == f"{NAME}@stable is removed"
    assert do(records, remove_alias(records, "stable")) == f"the alias {NAME}@stable does not exist"
    told = audited(records)
    assert [(entry["event"], entry["from"], entry["to"]) for entry in told] == [
        ("alias_moved", None, 2),
        ("alias_moved", 2, 4),
        ("alias_removed", 4, None),
    ]
    assert {(entry["alias"], entry["by"], entry["reason"]) for entry in told} == {(f"{NAME}@stable", ANN, "because")}


@pytest.mark.enough("embedded", "real")
@pytest.mark.usefixtures("trainer")
def test_a_pin_holds_readers_until_it_is_taken_away(records: Records) -> None:
    """Pinning and unpinning twice says that it is done already."""
    assert do(records, pin(records, 3)) == f"readers of current are pinned to {NAME}@3"
    assert do(records, pin(records, 3)) == f"readers of current are already pinned to {NAME}@3"
    assert serves(records) == 3
    assert do(records, unpin(records)) == f"unpinned; current is {NAME}@5"
    assert do(records, unpin(records)) == f"no version is pinned; current is {NAME}@5"
    assert serves(records) == 5
    assert [entry["event"] for entry in audited(records)] == ["pinned", "unpinned"]


def test_a_rollback_pins_the_version_before_the_one_that_readers_have(records: Records, trainer: Trainer) -> None:
    """Again and again, past retired ones, until there is none; whatever is published meanwhile."""
    do(records, retire(records, [3]))
    assert do(records, RollBack(records)).startswith(
        f"rolled back from {NAME}@5: readers of current are pinned to {NAME}@4"
    )
    trainer.publish(version_of(6))
    do(records, RollBack(records))
    assert serves(records) == 2
    do(records, RollBack(records))
    assert serves(records) == 1
    with pytest.raises(ConfigurationError, match=f"readers have {NAME}@1, and no earlier good version is left"):
        do(records, RollBack(records))
    assert [(entry["from"], entry["to"]) for entry in audited(records)[1:]] == [
        (5, 4),
        (4, 2),
        (2, 1),
    ]


def test_a_version_that_the_gate_refused_is_not_rolled_back_to() -> None:
    """Readers never had it."""
    entries = [
        CatalogueEntry(
            number=number,
            offset=number,
            sha256=f"{number:064x}",
            value_bytes=1,
            time_ms=0,
            gate="refused" if number in (2, 3) else "passed",
            ancestors=(Alias(number - 1, f"{number - 1:064x}", -1),),
        )
        for number in range(1, 6)
    ]
    names = Aliases(None, {f"{NAME}@current": entries[-1].alias})
    assert Catalogue(NAME, "models", entries, names, {4}).before(5) == 1


def test_a_rollback_whose_commit_was_not_answered_goes_back_once(
    records: Records, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the pin where it meant to set it, and writes nothing more."""
    publish, unanswered = Publisher.publish, [True]

    def publish_once(self: Publisher, *arguments: Any) -> list[int]:
        offsets = publish(self, *arguments)
        if unanswered.pop() if unanswered else False:
            raise OutcomeUnknown("the commit was not answered")
        return offsets

    monkeypatch.setattr(Publisher, "publish", publish_once)
    assert f"pinned to {NAME}@4" in do(records, RollBack(records))
    assert serves(records) == 4
    assert len(audited(records)) == 1


@pytest.mark.usefixtures("trainer")
def test_retired_versions_are_tombstones_in_one_transaction(records: Records) -> None:
    """Those that are retired already are passed over."""
    assert do(records, retire(records, [4, 1, 1])) == f"retired {NAME}@1, {NAME}@4"
    assert do(records, retire(records, [1, 2])) == f"retired {NAME}@2"
    assert do(records, retire(records, [1, 2])) == "the versions were already retired"
    assert retired(reached(records), records.settings) == [1, 4, 2]
    assert [entry["versions"] for entry in audited(records)] == [[1, 4], [2]]


NAMING: dict[str, Callable[[Records], Decide]] = {
    f"{NAME}@stable": lambda records: set_alias(records, "stable", 2),
    f"{NAME}@current#pin": lambda records: pin(records, 2),
}


@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize("key", NAMING)
def test_what_an_alias_or_a_pin_names_is_not_retired(records: Records, key: str) -> None:
    """Nor is anything else of the same request, nor the current version, which readers have; afterwards it is."""
    do(records, NAMING[key](records))
    with pytest.raises(ConfigurationError, match=f"{key} names {NAME}@2, so nothing was retired"):
        do(records, retire(records, [1, 2]))
    with pytest.raises(ConfigurationError, match=f"{NAME}@current.* names {NAME}@5"):
        do(records, retire(records, [5]))
    assert retired(reached(records), records.settings) == []
    do(records, remove_alias(records, "stable") if "stable" in key else unpin(records))
    do(records, retire(records, [1, 2]))
    assert len(retired(reached(records), records.settings)) == 2


@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize("decide", [lambda r: pin(r, 9), lambda r: set_alias(r, "x", 9), lambda r: retire(r, [9])])
def test_a_version_that_is_not_there_is_refused_with_those_that_are(
    records: Records, decide: Callable[[Records], Decide]
) -> None:
    """Nothing is written."""
    do(records, retire(records, [2]))
    with pytest.raises(ConfigurationError, match=rf"{NAME}@9 is not in .*\. Available: 1, 3-5\."):
        do(records, decide(records))
    with pytest.raises(ConfigurationError, match=f"{NAME}@2 was retired"):
        do(records, pin(records, 2))
    assert len(audited(records)) == 1


@pytest.mark.usefixtures("trainer")
def test_a_model_that_is_not_there_is_named_with_those_that_are(records: Records) -> None:
    """By the aliases topic."""
    other = records.settings.model_copy(update={"name": "quasar"})
    with pytest.raises(ConfigurationError, match=f"has no model quasar. Choose one of its models with --name: {NAME}"):
        read_names(records.cluster, other)


@pytest.mark.real_broker
@pytest.mark.usefixtures("trainer")
def test_of_two_that_move_at_once_one_decides_anew(records: Records) -> None:
    """The one that took the id first is fenced before it has written anything, and sees what the other did."""
    decided: list[str] = []

    def retire_two() -> Move:
        move = retire(records, [2])()
        if not decided:
            decided.append(move.said)
            do(records, pin(records, 2))
        return move

    with pytest.raises(ConfigurationError, match=f"{NAME}@current#pin names {NAME}@2"):
        do(records, retire_two)
    assert decided == [f"retired {NAME}@2"]
    assert (serves(records), retired(reached(records), records.settings)) == (2, [])


@pytest.mark.real_broker
def test_a_move_fences_no_trainer(records: Records, trainer: Trainer) -> None:
    """Its transactional id is another one."""
    with closing(Publisher(reached(records), f"streamsvm/{NAME}/{records.settings.output.models_topic}")) as shipped:
        shipped.start()
        do(records, pin(records, 1))
        shipped.publish([Message(records.settings.output.audit_topic, b"{}", partition=0)])
    assert moves_id(records.settings) == f"streamsvm/{NAME}/{records.settings.output.models_topic}/moves"


@pytest.mark.embedded_broker
@pytest.mark.usefixtures("trainer")
def test_whoever_is_always_outrun_gives_up(records: Records) -> None:
    """And says so."""

    def never() -> Move:
        raise OutcomeUnknown("the commit was not answered")

    with pytest.raises(TransientError, match="5 times: another move of pulsar came in between"):
        do(records, never)


# -------------------------------------------------------------------- reading


def test_the_topic_is_read_from_its_end_as_far_as_needed(records: Records, trainer: Trainer) -> None:
    """With tombstones behind what was found; and to its beginning where that is what it takes."""
    for number in range(6, 51):
        trainer.publish(version_of(number))
    trainer.retire(f"{NAME}@49")
    trainer.say(retired_key(NAME), encode_retired(Retired(1, (), (49,))))
    names = records.names()
    found = read_catalogue(records.cluster, records.settings, names, holds_newest(3), span=4)
    assert found.standing[-3:] == [47, 48, 50]
    assert not found.complete
    assert 1 not in found.entries
    whole = read_catalogue(records.cluster, records.settings, names, holds_newest(1_000), figures=True)
    assert (len(whole.entries), whole.complete) == (50, True)
    entry = whole.entries[7]
    assert entry.sha256 == model_codec.sha256(model_codec.encode(version_of(7)))
    assert entry.figures == VersionFigures(630, 1.5, pytest.approx(0.1 / 1.5))


def test_a_subscriber_can_hold_a_version(connection: Connection, settings: Settings, trainer: Trainer) -> None:
    """Whatever is published, and whatever aliases say; one that is not there ends it with what there is."""
    models = settings.output.models_topic
    with ModelSubscriber(connection, NAME, models_topic=models, version=2) as held:
        loaded = held.wait_ready(DEADLINE_S)
        assert (loaded.version.number, held.connected, held.missing) == (2, True, "")
        trainer.publish(version_of(6))
        trainer.pin(trainer.publish(version_of(7)))
        assert list(held.updates(0.3)) == [loaded]
    with (
        ModelSubscriber(connection, NAME, models_topic=models, version=9) as missing,
        pytest.raises(ConfigurationError, match=f"{NAME} has no version 9; the newest is 7"),
    ):
        missing.wait_ready(DEADLINE_S)


def test_the_age_of_a_model_counts_from_its_making(
    connection: Connection, settings: Settings, trainer: Trainer
) -> None:
    """By its own header, not from when it was loaded."""
    made = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    with ModelSubscriber(
        connection, NAME, models_topic=settings.output.models_topic, clock=lambda: made + 12.5
    ) as following:
        assert following.model_age_s is None
        assert following.wait_ready(DEADLINE_S).published_at == made
        assert following.model_age_s == 12.5
        assert following.age_s == 0.0


# -------------------------------------------------------------------- the commands


@pytest.mark.long
@pytest.mark.real_broker
@pytest.mark.usefixtures("trainer")
def test_the_commands_do_and_show_it(connection: Connection, settings: Settings, tmp_path: Any) -> None:
    """A person's afternoon: list, compare, pin, roll back, alias, retire, export; each error is one line."""
    common = ["--bootstrap-servers", str(connection.options["bootstrap.servers"]), "--name", NAME]
    common += ["--output-models-topic", settings.output.models_topic]

    def model(*words: str) -> str:
        finished = run("model", *words, *common)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    rows = json.loads(model("list", "--json"))
    assert [row["version"] for row in rows] == [1, 2, 3, 4, 5]
    assert rows[-1]["aliases"] == ["current"]
    assert (rows[2]["points"], rows[2]["objective"]) == (270, 1.5)
    assert model("pin", "4", "--reason", "five is odd").strip() == f"readers of current are pinned to {NAME}@4"
    assert f"pinned to {NAME}@3" in model("rollback")
    model("pin", "2", "--alias", "stable")
    text = model("list", "--last", "4")
    assert "current#pin" in text
    assert "stable" in text
    assert f"readers are pinned to {NAME}@3; current is 5" in text
    difference = json.loads(model("diff", "2", "5", "--json"))
    assert difference["coefficients"]["cosine"] == pytest.approx(1.0)
    assert difference["figures"]["points covered"] == {"before": 180, "after": 450}
    assert "cosine" in model("diff", "2", "5")
    out = tmp_path / "model.json"
    model("export", "--version", "2", "--out", str(out))
    assert out.read_bytes() == model_codec.encode(version_of(2)) == model("export", "--alias", "stable").encode()
    assert json.loads(model("show", "--alias", "stable", "--json"))["version"] == 2
    model("retire", "1")
    assert "current is" in model("pin", "--remove")
    told = trail(connection, settings)
    assert [entry["event"] for entry in told] == [
        "pinned",
        "rolled_back",
        "alias_moved",
        "version_retired",
        "unpinned",
    ]
    assert told[0]["reason"] == "five is odd"
    assert "@" in told[0]["by"]
    for words, said in {
        ("pin", "2", "--alias", "current"): "only the trainer may move the alias current",
        ("retire", "2"): f"{NAME}@stable names {NAME}@2",
        ("pin", "2", "--remove"): "a pin needs a version, or --remove",
        ("pin", "1"): f"{NAME}@1 was retired",
        ("pin", "--alias", "new"): "a pin needs a version, or --remove",
        (
            "show",
            "--name",
            "pulsars",
        ): f"no alias pulsars@current. Choose one of its models with --name: {NAME}. Did you",
        ("show", "--alias", "nosuch"): f"no alias {NAME}@nosuch. The model's aliases: current, stable.",
    }.items():
        refused = run("model", words[0], *common, *words[1:])
        assert refused.returncode == 78
        assert said in error_of(refused)


@pytest.mark.real_broker
def test_a_topic_that_is_not_there_is_named(connection: Connection) -> None:
    """By every command that reads it."""
    servers = ["--bootstrap-servers", str(connection.options["bootstrap.servers"])]
    for words in (["list"], ["pin", "1"]):
        refused = run("model", *words, *servers, "--output-models-topic", "nowhere")
        assert refused.returncode == 78
        assert "nowhere.aliases" in error_of(refused)
