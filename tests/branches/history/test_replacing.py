"""An erasure that is applied publishes a version at once: at the same cut, without the rows, before anything new."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumers.settings import Settings
from consumers.trainer import Open
from consumers.verify.verify import verify
from streamsvm.branches.history.without_part import WithoutRows
from streamsvm.kafka import Cluster, Connection
from streamsvm.learning import Cut
from streamsvm.model import Gate, Version
from streamsvm.registry import Aliases, read_aliases
from streamsvm.verification import Outcome
from tests.branches.history.test_erasing import forgotten, given_to, produce, record_of, started
from tests.brokers.fixtures import TestBroker
from tests.consumers.command import run
from tests.consumers.trainers import Running, encoded, run_until, topic, versions
from tests.streams import gaussian

ROWS = 150
PLACES = (3, 77, 148)
REFUSED = Gate(
    outcome="refused",
    why="it is worse",
    scored_on="window",
    points=10,
    candidate=0.5,
    present=0.9,
    against=1,
    margin=0.01,
    window=(),
    recent=(),
)


class RefusesAll(Open):
    """A gate that lets nothing pass once something is current."""

    def judge(self, version: Version, cut: Cut) -> Gate | None:
        return REFUSED


def names_of(connection: Connection, settings: Settings) -> Aliases:
    return read_aliases(Cluster(connection), settings.name, settings.output.aliases_topic, 30.0)


def trained(connection: Connection, prefix: str, directory: Path) -> tuple[Settings, list[Version]]:
    """Return a trainer's settings, and what it published of `ROWS` rows; it was stopped."""
    own = started(connection, prefix, directory)
    produce(connection, own, encoded(gaussian(ROWS, 5)))
    run_until(own, connection, ROWS)
    return own, versions(connection, own)


def run_until_replaced(settings: Settings, connection: Connection, number: int, **options: object) -> None:
    """Run a trainer until the newest version has a number."""
    with Running(settings, connection, **options) as running:
        running.wait_until_started()
        running.wait_until(lambda: (head := names_of(connection, settings).head) is not None and head.number >= number)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_version_without_the_rows_takes_the_place_of_the_newest(
    real_broker: TestBroker, tmp_path: Path, refuses: bool
) -> None:
    """No row came: the same cut, current whatever the gate says, once."""
    connection = real_broker.connection
    own, before = trained(connection, real_broker.name(f"replaced-{refuses}"), tmp_path / "own")
    report = forgotten(connection, own, *PLACES)
    newest = len(before) + 1
    assert report.takes_place.startswith(f"m@{newest} takes the place of m@{newest - 1}, at its cut")
    gate = {"make_gate": lambda *_: RefusesAll()} if refuses else {}
    run_until_replaced(own, connection, newest, **gate)
    run_until(own, connection, 0)  # once more: nothing more comes
    after = versions(connection, own)[len(before) :]
    assert [version.lineage.cut for version in after] == [before[-1].lineage.cut]
    record = record_of(connection, own)
    assert after[0].lineage.fact(WithoutRows) == WithoutRows(sha256=record.sha256)
    assert report.record == record.sha256
    current = names_of(connection, own).named["m@current"]
    assert current.number == newest
    assert record.sha256 in current.why
    entry = json.loads(topic(connection, own.output.audit_topic)[-1].value or b"")
    assert (entry["event"], entry["to"]) == ("alias_moved", newest)
    assert ("else it would have been refused: it is worse" in entry["gate"]["why"]) is refuses
    found = verify(Cluster(connection), own)
    assert [row.outcome for row in found.rows] == [Outcome.LEFT_OUT] * len(before) + [Outcome.IDENTICAL]


def test_rows_that_wait_are_learned_after_it_only(real_broker: TestBroker, tmp_path: Path) -> None:
    """New rows are in the log at the start: the first version is at the old cut nevertheless, then cuts go on."""
    connection = real_broker.connection
    own, before = trained(connection, real_broker.name("waiting"), tmp_path)
    forgotten(connection, own, 77)
    produce(connection, own, encoded(gaussian(400, 5))[ROWS:], ROWS)
    run_until(own, connection, 400)
    cuts = [version.lineage.cut[0].offset for version in versions(connection, own)[len(before) - 1 :]]
    assert cuts[0] == cuts[1]
    assert cuts[1:] == sorted(set(cuts[1:]))
    assert len(cuts) > 3
    sha256 = record_of(connection, own).sha256
    for version in versions(connection, own)[len(before) :]:
        assert version.lineage.fact(WithoutRows) == WithoutRows(sha256=sha256)
    assert not names_of(connection, own).named["m@current"].why
    found = verify(Cluster(connection), own)
    assert {row.outcome for row in found.rows[len(before) :]} == {Outcome.IDENTICAL}


def test_versions_of_the_rows_and_a_pin_to_one_are_named_and_a_person_retires_them(
    real_broker: TestBroker, tmp_path: Path
) -> None:
    """Pinned readers keep the rows; once all versions of them are retired, every one that is left verifies."""
    connection = real_broker.connection
    own, before = trained(connection, real_broker.name("pinned"), tmp_path)
    of_trainer = given_to(connection, own)
    given = [*of_trainer[:4], *of_trainer[-2:]]
    assert run("model", "pin", "2", *given).returncode == 0
    done = run("history", "forget", "--position", "0:3", "--json", "--yes", *of_trainer)
    assert done.returncode == 0, done.stderr
    told, newest = json.loads(done.stdout), len(before)
    assert told["pin"] == "m@2"
    assert [one["key"] for one in told["versions"]] == [f"m@{number}" for number in range(1, newest + 1)]
    run_until_replaced(own, connection, newest + 1)
    assert run("model", "pin", "--remove", *given).returncode == 0
    retired = run("model", "retire", *map(str, range(1, newest + 1)), *given)
    assert retired.returncode == 0, retired.stderr
    again = run("history", "forget", "--position", "0:3", "--json", "--yes", *of_trainer)
    assert not json.loads(again.stdout)["versions"]
    found = verify(Cluster(connection), own)
    assert [row.outcome for row in found.rows] == [Outcome.RETIRED] * newest + [Outcome.IDENTICAL]
