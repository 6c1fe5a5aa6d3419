"""A trainer with a quality gate: what becomes current, and what the records say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from consumers import constants
from consumers.models import holds_newest, read_catalogue, read_names
from consumers.settings import Settings
from consumers.trainer.gatekeeping import OUTCOMES
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, Record
from streamsvm.learning import Trained
from streamsvm.model import Head, LinearMachine, decode_alias, decode_head, message as model_codec
from streamsvm.registry import ModelSubscriber, NoModel, load_version
from tests.config.sizes import sized
from tests.consumers.trainers import (
    Running,
    aliases,
    changed,
    learn,
    produce,
    records,
    run_until,
    topic,
    trail,
    train_and_change,
    versions,
)

pytestmark = pytest.mark.enough("real")

ROWS = 200
"""Of one version; a third of them positive."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A version every leaf of 200 rows, and an audit sample that tells."""
    sizes = sized(leaf_rows=ROWS, bucket_points=50, audit_points=400, train_points=500)
    return changed(settings, "training", every_leaves=1).model_copy(update={"coreset": sizes})


def spoiling(*calls: int) -> Callable[..., Trained]:
    """Return a training of which the named calls, from 1 on, give a model that answers the wrong way round."""
    return train_and_change(
        lambda number, machine: (
            replace(machine, coefficients=-machine.coefficients, intercept=-machine.intercept)
            if number in calls
            else machine
        )
    )


def heads(connection: Connection, settings: Settings) -> list[Head]:
    return [decode_head(value) for value in aliases(connection, settings, "m@head")]


def current(connection: Connection, settings: Settings) -> list[int]:
    return [decode_alias(value).number for value in aliases(connection, settings, "m@current")]


def test_a_version_that_is_plainly_worse_does_not_become_current(settings: Settings, connection: Connection) -> None:
    """It is published, named by the head and refused in the audit trail with both figures; the next one passes."""
    learn(settings, connection, 5 * ROWS, train=spoiling(3))
    assert [version.number for version in versions(connection, settings)] == [1, 2, 3, 4, 5]
    assert current(connection, settings) == [1, 2, 4, 5]
    told = trail(connection, settings)
    assert [entry["event"] for entry in told] == [*["alias_moved"] * 2, "gate_refused", *["alias_moved"] * 2]
    gate = told[2]["gate"]
    assert (told[2]["to"], gate["against"], gate["outcome"], gate["margin"]) == (3, 2, "refused", 0.1)
    assert gate["candidate"] < 0.5 < gate["present"]
    found = heads(connection, settings)
    assert [head.gate.outcome for head in found if head.gate] == ["unscored", "passed", "refused", "passed", "passed"]
    assert [head.gate.against for head in found if head.gate] == [None, 1, 2, 2, 4]
    said = [dict(record.headers)[model_codec.GATE_HEADER] for record in topic(connection, settings.output.models_topic)]
    assert said == [head.gate.outcome.encode() for head in found if head.gate]
    listed = read_catalogue(
        Cluster(connection), settings, read_names(Cluster(connection), settings), holds_newest(5)
    ).entries.values()
    scored = [head.gate.candidate for head in found if head.gate]
    assert [entry.accuracy for entry in listed] == [None, *(pytest.approx(one, abs=1e-6) for one in scored[1:])]
    with ModelSubscriber(connection, "m", models_topic=settings.output.models_topic) as following:
        assert following.wait_ready(20.0).version.number == 5


def test_points_after_the_cut_judge_where_there_are_enough(
    settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row that a verdict was reached by lies past its version's cut, and is named."""
    produce(connection, settings.input.topic, records(8 * ROWS))
    monkeypatch.setattr(constants, "BATCH_RECORDS", 1_000)
    run_until(settings, connection, 8 * ROWS)
    windows = [head for head in heads(connection, settings) if head.gate and head.gate.scored_on == "window"]
    assert windows, "no version was judged by what came after it"
    for head in windows:
        assert head.gate is not None
        (part,) = head.gate.window
        cut = head.cut[part.partition]
        assert (cut.offset, cut.row) <= part.begin < part.end
        assert part.end[0] - part.begin[0] == head.gate.points


def test_the_first_current_version_is_better_than_chance(settings: Settings, connection: Connection) -> None:
    """Two that know nothing are published and held back, also over a restart; readers wait, and say why."""
    learn(settings, connection, ROWS, train=spoiling(1))
    with ModelSubscriber(connection, "m", models_topic=settings.output.models_topic) as following:
        why = r"no alias m@current: version 1, the newest, was held back, because it would be the first current version"
        with pytest.raises(NoModel, match=rf"{why}, and it knows nothing: balanced accuracy 0\.\d+ and AUC 0\.\d+"):
            following.wait_ready(2.0)
        with pytest.raises(ConfigurationError, match=why):
            load_version(connection, "m", models_topic=settings.output.models_topic)
        assert load_version(connection, "m", models_topic=settings.output.models_topic, number=1).version.number == 1
        with Running(settings, connection, train=spoiling(1)) as running:
            for judged in (1, 2):
                produce(connection, settings.input.topic, records(ROWS, seed=judged))
                running.wait_until(lambda judged=judged: verdicts(running) == judged)
        assert running.value("streamsvm_prequential_points_total") == 0, "a version that was refused scores nothing"
        assert following.wait_ready(20.0).version.number == 3
    assert current(connection, settings) == [3]
    told = trail(connection, settings)
    assert [entry["event"] for entry in told] == ["gate_refused", "gate_refused", "alias_moved"]
    assert [head.gate.outcome for head in heads(connection, settings) if head.gate] == [
        "refused",
        "refused",
        "unscored",
    ]
    assert learn(settings, connection, ROWS, seed=3).value("streamsvm_prequential_points_total") == ROWS
    assert current(connection, settings) == [3, 4]


def test_without_a_margin_there_is_no_gate(settings: Settings, connection: Connection) -> None:
    """Every version becomes current, the first one, too, and no record speaks of a gate."""
    none = changed(settings, "output", gate_margin=None)
    produce(connection, settings.input.topic, records(3 * ROWS))
    run_until(none, connection, 3 * ROWS, train=spoiling(1, 2))
    assert current(connection, settings) == [1, 2, 3]
    assert [head.gate for head in heads(connection, settings)] == [None] * 3
    assert all("gate" not in entry for entry in trail(connection, settings))


class Blind(Cluster):
    """A broker that does not let versions be read."""

    def record(self, topic: str, offset: int, timeout_s: float) -> Record | None:
        raise ConfigurationError(f"the broker does not let us read {topic}")


@pytest.mark.embedded_broker
def test_while_the_current_version_cannot_be_read_nothing_passes(settings: Settings, connection: Connection) -> None:
    """A trainer that may not read its own versions starts all the same, and says why; once it may, it judges."""
    learn(settings, connection, ROWS)
    learn(settings, connection, ROWS, seed=1, train=spoiling(1), cluster=Blind(connection))
    assert current(connection, settings) == [1]
    gate = heads(connection, settings)[1].gate
    assert gate is not None
    assert (gate.outcome, gate.against, gate.candidate) == ("refused", 1, None)
    assert "m@1 cannot be fetched: the broker does not let us read" in gate.why
    learn(settings, connection, ROWS, seed=2)
    assert current(connection, settings) == [1, 3]


def tilting(*shares: float) -> Callable[..., Trained]:
    """Return a training whose n-th model is shifted by its share, so that it is a bit worse."""

    def tilt(number: int, machine: LinearMachine) -> LinearMachine:
        shift = shares[number - 1] * float(abs(machine.coefficients).sum())
        return replace(machine, intercept=machine.intercept + shift)

    return train_and_change(tilt)


def verdicts(running: Running) -> float:
    return sum(running.value("streamsvm_gate_verdicts_total", outcome=outcome) for outcome in OUTCOMES)


@pytest.mark.embedded_broker
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("compared", "expected"), [(1, [1, 2, 3, 4]), (5, [1, 2])])
def test_versions_do_not_lose_the_margin_again_and_again(
    compared: int,
    expected: list[int],
    restarted: bool,
    settings: Settings,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is a bit worse than the one before; that ends where the last five count, in one life or in two."""
    monkeypatch.setattr(constants, "GATE_VERSIONS", compared)
    settings = changed(settings, "output", gate_margin=0.15)
    shares = (0.0, 0.6, 1.0, 1.25)
    for life in (shares[:2], shares[2:]) if restarted else (shares,):
        with Running(settings, connection, train=tilting(*life)) as running:
            for number in range(1, len(life) + 1):  # none is judged by what comes after it: that depends on the hour
                produce(connection, settings.input.topic, records(ROWS, seed=int(100 * shares.index(life[number - 1]))))
                running.wait_for_rows(number * ROWS)
                running.wait_until(lambda n=number: verdicts(running) >= n)
    found = [head.gate for head in heads(connection, settings) if head.gate]
    assert current(connection, settings) == expected, [(gate.candidate, gate.recent) for gate in found]
    assert [one.number for one in found[2].recent] == ([2, 1] if compared > 1 else [2])
    assert found[2].recent[0].balanced_accuracy == found[2].present
