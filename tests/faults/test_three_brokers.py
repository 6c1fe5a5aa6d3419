"""Workers on three brokers: they, their trainer and leaders are killed, two own everything, the topic is compacted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamsvm.branches.workers.coreset_records import place
from streamsvm.kafka import Connection
from streamsvm.model.version import positions
from tests.brokers.cluster import Cluster as Brokers
from tests.brokers.jvm import CannotRun
from tests.consumers.trainers import settings_for
from tests.faults.workers import Plan, Round, Total, adopting, check_adopted, run, three_nodes
from tests.live.stage import Stage
from tests.model.test_model import version_of
from tests.promise.states import Left

Note = Callable[[str, object], None]
Nodes = tuple[Brokers, Connection]
WANTED = {"kills": 4, "stops": 1, "leaders": 1, "split_brains": 0}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Three nodes; each round leaves them well."""
    try:
        with three_nodes() as made:
            yield made
    except CannotRun as error:
        pytest.skip(f"no cluster: {error}")


def noted(total: Total, note: Note) -> None:
    """Give what was counted to the test's report."""
    for kind, count in total.counts.items():
        note(kind.replace(" ", "_"), count)


@pytest.mark.long
def test_kills_of_workers_and_leaders_change_nothing(nodes: Nodes, tmp_path: Path, record_property: Note) -> None:
    """A run that was interrupted goes on from its file: counts add up."""
    state = tmp_path / "state.json"
    run(*nodes, Total(), wanted=WANTED | {"kills": 2, "stops": 0}, compaction=True, state=state)
    total = run(*nodes, Total.load(state), wanted=WANTED, compaction=True, state=state)
    assert {kind: total.counts[kind] for kind in WANTED} == WANTED
    assert total.counts["rounds"] == len(total.seeds) == 2
    assert len(total.seconds["takeover"]) == 2
    noted(total, record_property)


@pytest.mark.long
def test_two_workers_that_own_everything_change_nothing(nodes: Nodes, record_property: Note) -> None:
    """For a whole round, with kills on both sides."""
    noted(run(*nodes, Total(), wanted=WANTED | {"leaders": 0, "split_brains": 1}), record_property)


@pytest.mark.faults_long
def test_fifty_kills_change_nothing(nodes: Nodes, record_property: Note) -> None:
    """`python -m tests.faults.workers` is the longer form."""
    wanted = {"kills": 50, "stops": 12, "leaders": 5, "split_brains": 1}
    noted(run(*nodes, Total(), wanted=wanted, compaction=True), record_property)


@pytest.mark.faults_long
def test_a_worker_that_writes_manifests_first_is_found(nodes: Nodes, tmp_path: Path) -> None:
    """The round can fail: at some prefix of the topic the highest manifest lacks its parts."""
    brokers, connection = nodes
    stage = adopting(Stage(connection, settings_for("workers-planted", tmp_path / "checkpoint")))
    with pytest.raises(AssertionError, match="lacks"):
        Round(stage, brokers, Plan(kills=1), 3, planted="manifest-first").play()


def test_a_version_without_a_complete_manifest_is_found() -> None:
    """At its place, in its partition; a manifest of another place is none."""
    version = version_of()
    ((_, at),) = positions(version.lineage.cut).items()
    checked = Left(1, 1, (), (), frozenset({place(at)}))
    check_adopted([version], [checked])
    with pytest.raises(AssertionError, match="where no complete manifest stood"):
        check_adopted([version], [Left(1, 1, (), (), frozenset({f"{place(at)}0"}))])


def test_rounds_share_out_what_is_left() -> None:
    """Stops and leaders with the kills; a split brain first, and once; nothing is left over."""
    wanted = {"kills": 25, "stops": 5, "leaders": 2, "split_brains": 1}
    total, plans = Total(), list[Plan]()
    while (plan := total.next(wanted, 10, compaction=True)) is not None:
        plans.append(plan)
        done = {"kills": plan.kills, "stops": plan.stops, "leaders": plan.leaders, "split_brains": int(plan.split)}
        total.counts += Counter(done)
    assert [(one.kills, one.stops, one.leaders, one.split) for one in plans] == [
        (9, 2, 1, True),
        (8, 2, 1, False),
        (8, 1, 0, False),
    ]
