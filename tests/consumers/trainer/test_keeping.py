"""A trainer that keeps its newest versions only: what goes, what stays, and what verify makes of it."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import msgspec
import pytest

from consumers.models import Records, perform, pin, set_alias, unpin
from consumers.settings import Settings
from consumers.streams import moves_id
from consumers.trainer import retention as keeping
from consumers.trainer.retention import MOST_AT_ONCE, due
from consumers.verify.verify import verify
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, Message, Publisher, TopicSpec
from streamsvm.model import Alias, Retired
from streamsvm.registry import Aliases, load_version
from streamsvm.verification import ChainCheck, VersionSurvey
from tests.brokers.settings import COMPACT_AT_ONCE
from tests.consumers.trainers import Running, changed, learn, produce, records, retired, send, topic, trail
from tests.registry.test_subscriber import eventually

pytestmark = pytest.mark.enough("embedded")

KEPT = 3
ROWS = 40
"""Of one version."""


@pytest.fixture
def settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Three versions are kept, and each further one is retired at once."""
    monkeypatch.setattr(keeping, "SWEEP_EVERY", 1)
    return changed(settings, "output", keep_versions=KEPT)


def people(connection: Connection, settings: Settings) -> Records:
    return Records(Cluster(connection), settings, "ann@desk", "", datetime(2026, 1, 1, tzinfo=UTC))


def test_unnamed_versions_beyond_the_newest_are_retired(settings: Settings, connection: Connection) -> None:
    """Those that an alias or a pin names stay until they are unnamed; restarts go on where the last life ended."""
    ann = people(connection, settings)
    learn(settings, connection, 3 * ROWS)
    assert retired(connection, settings) == []
    perform(Cluster(connection), settings, set_alias(ann, "stable", 1))
    perform(Cluster(connection), settings, pin(ann, 2))
    learn(settings, connection, 4 * ROWS)
    assert retired(connection, settings) == [3, 4]
    perform(Cluster(connection), settings, unpin(ann))
    learn(settings, connection, 2 * ROWS)
    assert sorted(retired(connection, settings)) == [2, 3, 4, 5, 6]
    told = [entry["versions"] for entry in trail(connection, settings) if entry["event"] == "version_retired"]
    assert sorted(number for numbers in told for number in numbers) == [2, 3, 4, 5, 6]
    report = verify(Cluster(connection), settings)
    assert report.clean, "\n".join(report.lines())
    assert report.counts == {"identical": 4, "retired": 5}


@pytest.mark.real_broker
def test_compaction_takes_retired_versions_and_nothing_else(settings: Settings, connection: Connection) -> None:
    """Then their tombstones, too; verify still knows them as retired, and readers find all others where they were."""
    models = settings.output.models_topic
    Cluster(connection).create([TopicSpec(models, 1, config=COMPACT_AT_ONCE)])
    learn(settings, connection, 6 * ROWS)
    number = iter(range(1_000))

    def swept() -> bool:
        other = b"other@%d" % next(number)
        send(connection, Message(models, b"{}", other, partition=0))  # only closed segments are compacted
        return not any(r.key in (b"m@1", b"m@2", b"m@3") for r in topic(connection, models))

    eventually(swept, "compaction takes them", 60.0)
    report = verify(Cluster(connection), settings)
    assert report.clean, "\n".join(report.lines())
    assert report.counts == {"identical": 3, "retired": 3}
    assert load_version(connection, "m", models_topic=models).version.number == 6
    with pytest.raises(ConfigurationError, match=r"m@2 was retired\. Available: 4-6\."):
        perform(Cluster(connection), settings, pin(people(connection, settings), 2))


@pytest.mark.real_broker
def test_a_move_at_the_same_time_only_puts_it_off(settings: Settings, connection: Connection) -> None:
    """A trainer whose retirement is fenced publishes on, and retires with a later version."""

    class Outrun(Cluster):
        left = 2

        def publisher(self, transactional_id: str, writer: str = "") -> Publisher:
            made = super().publisher(transactional_id, writer)
            if transactional_id == moves_id(settings) and self.left:
                self.left -= 1
                start = made.start

                def start_and_lose() -> None:
                    start()
                    with closing(Publisher(connection, transactional_id)) as other:
                        other.start()

                made.start = start_and_lose  # type: ignore[method-assign]
            return made

    cluster = Outrun(connection)
    produce(connection, settings.input.topic, records(8 * ROWS))
    with Running(settings, connection, cluster) as running:
        running.wait_for_rows(8 * ROWS)
    assert cluster.left == 0
    assert retired(connection, settings) == [1, 2, 3, 4, 5]


def names(*numbers: int, swept: Retired | None = None) -> Aliases:
    return Aliases(None, {f"m@a{n}": Alias(n, "", n) for n in numbers}, (), swept)


def test_named_versions_are_remembered_until_they_are_unnamed() -> None:
    """What is due is what lies below the floor and was not retired before, and what was kept then."""
    assert due(names(2), 5) == ([1, 3, 4], Retired(5, (2,), ()))
    assert due(names(2, swept=Retired(5, (2,), ())), 7) == ([5, 6], Retired(7, (2,), ()))
    assert due(names(swept=Retired(7, (2,), ())), 7) == ([2], Retired(7, (), ()))
    people = Retired(5, (2,), ()).with_others([6, 9])
    assert due(names(2, swept=people), 8) == ([5, 7], Retired(8, (2,), (9,))), (
        "what people retired is not retired again"
    )
    assert due(names(swept=Retired(7, (), ())), 4) == ([], Retired(7, (), ())), (
        "the option was raised: nothing comes back"
    )
    unreadable = Aliases(None, {}, ("the alias m@x cannot be read",))
    assert due(unreadable, 50) == ([], Retired(1, (), ())), "it may name anything"
    going, swept = due(names(), 5_000)
    assert (len(going), swept) == (MOST_AT_ONCE, Retired(MOST_AT_ONCE + 1, (), ())), "no transaction is without bound"


@pytest.mark.parametrize("told", [True, False])
def test_verify_tells_a_version_that_was_compacted_away_from_a_missing_one(told: bool) -> None:
    """By the audit trail; what is not in there is a gap."""
    survey = VersionSurvey(name="m")
    for number in (1, 4):
        survey.note(f"m@{number}".encode(), b"{}", number)
    survey.note_audit(msgspec.json.encode({"event": "version_retired", "name": "other", "versions": [2, 3]}))
    survey.note_audit(b"no entry at all")
    survey.note_audit(None)
    assert survey.has_gaps
    if told:
        survey.note_audit(msgspec.json.encode({"event": "version_retired", "name": "m", "versions": [2, 3]}))
    chain = ChainCheck(survey)
    assert chain.number_faults(1, 1) == []
    assert chain.number_faults(4, 4) == ([] if told else ["the numbers have a gap: m@2 to m@3 are missing before it"])
