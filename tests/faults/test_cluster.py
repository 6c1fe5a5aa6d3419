"""Leader killed, rolling restart, one node lost for good: three brokers, two needed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, Connection, Marks, Place, TopicSpec, Watermarks
from tests.brokers.cluster import NODES
from tests.brokers.cluster import Cluster as Brokers
from tests.brokers.jvm import CannotRun
from tests.faults.faulty import Scene, Trainee


@dataclass
class Nodes(Scene):
    """A scene with three brokers."""

    cluster: Brokers = field(kw_only=True)

    def wait_until_in_sync(self, trainee: Trainee, count: int) -> None:
        """Wait until so many nodes hold all of the trainer's pointers."""
        topic = trainee.settings.output.aliases_topic
        trainee.wait_until(lambda: len(self.cluster.in_sync(topic)) == count, f"{count} nodes are in sync")


@pytest.fixture(scope="module")
def _nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    try:
        cluster = Brokers()
        cluster.start()
    except CannotRun as error:
        pytest.skip(f"no cluster: {error}")
    connection = Connection(options={"bootstrap.servers": cluster.bootstrap_servers})
    nodes = Nodes(connection, connection, tmp_path_factory.mktemp("nodes"), cluster=cluster)
    try:
        yield nodes
    finally:
        nodes.dismiss()
        cluster.stop()


@pytest.fixture
def nodes(_nodes: Nodes, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    """Three nodes, all of them well again after each test."""
    yield _nodes
    _nodes.tell(request.node)
    _nodes.dismiss()
    for node in _nodes.cluster.nodes.values():
        node.revive()


@pytest.mark.long
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.faults_long)])
def test_a_killed_leader_only_delays(nodes: Nodes, times: int) -> None:
    """The leader of the models topic is killed in the midst of publishing, and comes back: another one takes over."""
    trainee = nodes.trainee("steady" if times == 1 else "unhurried")
    daemon = trainee.begin()
    for _ in range(times):
        daemon.wait_for("model_published", times=4)
        leader = nodes.cluster.leader(trainee.settings.output.models_topic)
        leader.kill()
        nodes.counts["leaders_killed"] += 1
        daemon.wait_for("model_published", times=2)
        leader.restart()
        nodes.wait_until_in_sync(trainee, len(NODES))
    trainee.finish()


@pytest.mark.long
def test_a_leader_that_is_gone_gives_no_marks(nodes: Nodes) -> None:
    """Who asks how far partitions go is told the truth, or nothing; and the truth again from the next leader."""
    places = [(f"{uuid.uuid4().hex[:8]}", 0) for _ in range(3)]
    Cluster(nodes.direct).create([TopicSpec(topic, 1) for topic, _ in places])
    marks = Marks(nodes.direct)

    def told() -> dict[Place, Watermarks]:
        while True:
            with suppress(TransientError):  # a leader that does not know yet that it is one
                return marks.of(places)

    assert set(told().values()) == {Watermarks(0, 0)}
    nodes.cluster.leader(places[0][0]).kill()
    nodes.counts["leaders_killed"] += 1
    assert set(told().values()) == {Watermarks(0, 0)}


@pytest.mark.faults_long
def test_a_rolling_restart_only_delays(nodes: Nodes) -> None:
    """Each node in turn is shut down in good order and started again, as an upgrade does."""
    trainee = nodes.trainee("unhurried")
    daemon = trainee.begin()
    for node in nodes.cluster.nodes.values():
        daemon.wait_for("model_published", times=2)
        node.shut_down()
        nodes.counts["nodes_restarted"] += 1
        node.start()
        nodes.wait_until_in_sync(trainee, len(NODES))
    trainee.finish()


def below_the_minimum(nodes: Nodes, trainee: Trainee, missing: str = "") -> None:
    """Take one node away for good, then a second one, which comes back; let the trainer finish on two."""
    daemon = trainee.begin()
    daemon.wait_for("model_published", times=4)
    lost, second = (node for node in nodes.cluster.nodes.values() if node.node != 1)
    lost.kill()
    nodes.counts["nodes_lost"] += 1
    daemon.wait_for("model_published", times=2)
    second.kill()
    nodes.counts["times_below_the_minimum"] += 1
    trainee.check_amid()
    trainee.wait_until(lambda: not trainee.ready()[0], "it is not ready")
    assert any(trainee.ready()[1].values()), "it does not say what it waits for"
    if missing:
        trainee.wait_until(lambda: missing in trainee.ready()[1], f"it is not ready for want of {missing}")
    second.restart()
    trainee.finish()


@pytest.mark.long
def test_below_the_minimum_it_waits(nodes: Nodes) -> None:
    """One node lost changes nothing; with a second one gone it waits, is not ready and says why; then it goes on."""
    below_the_minimum(nodes, nodes.trainee("steady"))


@pytest.mark.faults_long
def test_below_the_minimum_shows_one_that_gives_up(nodes: Nodes) -> None:
    """Planted: a trainer that ends when it cannot publish does not get through."""
    with pytest.raises(AssertionError, match="the process ended"):
        below_the_minimum(nodes, nodes.trainee("steady", "impatient", "gives-up"), "publish")


@pytest.mark.faults_long
def test_below_the_minimum_shows_one_that_is_always_ready(nodes: Nodes) -> None:
    """Planted: nobody would see that it waits."""
    with pytest.raises(AssertionError, match="it took too long"):
        below_the_minimum(nodes, nodes.trainee("steady", "always-ready"))
