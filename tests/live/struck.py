"""Strikes upon the brokers of scorers, their network and their group; each lasts as long as its context."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from streamsvm.kafka import Cluster, Record
from tests.brokers.jvm import JvmBroker
from tests.kafka import foreign
from tests.live.cluster import ANSWER_S, Brokers
from tests.live.proxy import Loss, Proxy
from tests.live.scoring import Scoring, all_answered, begin, given_up
from tests.promise.answers import source_of
from tests.promise.topics import of_records

OTHER_MODEL: Final = "another"
MODEL_HEADER: Final = "streamsvm.model"
LATENCY_S: Final = 0.2
BYTES_PER_S: Final = 30_000.0


@dataclass
class Struck(Scoring):
    """Scorers whose brokers stand behind networks of their own; `removed` are answers that retention has taken."""

    brokers: Brokers = field(kw_only=True)
    removed: list[Record] = field(default_factory=list)

    @property
    def servers(self) -> str:
        """Where scorers find the brokers: behind their networks."""
        return self.brokers.through

    def stored(self, *topics: str) -> list[Record]:
        """Return the same, with what retention took, but without what another model has answered."""
        found = [one for one in self.removed if one.topic in (topics or (one.topic,))] + super().stored(*topics)
        return [one for one in found if model_of(one) == self.model]

    def judge(self, but: frozenset[str] = frozenset()) -> None:
        """The same; and what says how far the input was scored names its end."""
        super().judge(but)
        progress = f"{self.scores}.progress"
        keys = ((one, (one.key or b"").decode().split(" ")) for one in super().stored(progress))
        ends = {int(key[2]): json.loads(one.value or b"")["offset"] for one, key in keys if key[0] == self.model}
        assert ends == self.ends()

    def end_all(self) -> None:
        """The same, and see that brokers and network are well."""
        super().end_all()
        self.brokers.revive()

    def stop_all(self) -> None:
        """Stop all scorers at once; each ends well."""
        for daemon in self.scorers.values():
            daemon.terminate()
        ends = {name: daemon.wait() for name, daemon in self.scorers.items()}
        assert {*ends.values()} == {0}, ends

    def told(self, event: str) -> None:
        """Wait until one of the scorers has logged an event."""

        def logged() -> bool:
            for daemon in self.scorers.values():
                daemon.catch_up()
            return any(daemon.events(event) for daemon in self.scorers.values())

        self.wait_until(logged, f"a scorer logs {event}")


def model_of(answer: Record) -> str:
    """Return the model that a score or a letter is of."""
    of = dict(answer.headers).get(MODEL_HEADER)
    return of.decode() if of is not None else str(json.loads(answer.value or b"{}").get("model"))


Strike = Callable[[Struck], AbstractContextManager[None]]

# -------------------------------------------------------------------- the nodes


def _leader(play: Struck) -> JvmBroker:
    return play.brokers.leader(play.points)


def _coordinator(play: Struck) -> JvmBroker:
    asked = play.brokers.admin.describe_consumer_groups([play.group], request_timeout=ANSWER_S)
    found = asked[play.group].result().coordinator.id
    return next(node for node in play.brokers.nodes if node.node == found)


def _transactions(play: Struck) -> JvmBroker:
    log, number = "__transaction_state", 0
    for character in f"{play.group}-0":  # as Java hashes a string
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    number = 2**32 - number if number >> 31 else number
    count = len(play.brokers.admin.list_topics(log, timeout=ANSWER_S).topics[log].partitions)
    return play.brokers.leader(log, number % count)


ROLES: Final[Mapping[str, Callable[[Struck], JvmBroker]]] = {
    "leader of the input": _leader,
    "coordinator of the group": _coordinator,
    "coordinator of the transactions": _transactions,
}


@contextmanager
def _killed(node: JvmBroker) -> Iterator[None]:
    node.kill()
    yield
    node.restart()


@contextmanager
def _stopped(node: JvmBroker) -> Iterator[None]:
    node.shut_down()
    yield
    node.start()


@contextmanager
def _restarted(node: JvmBroker) -> Iterator[None]:
    node.shut_down()
    node.launch()
    yield
    node.wait_until_up()


@contextmanager
def _frozen(node: JvmBroker) -> Iterator[None]:
    node.pause()
    yield
    node.resume()


HOW: Final[Mapping[str, Callable[[JvmBroker], AbstractContextManager[None]]]] = {
    "killed": _killed,
    "stopped": _stopped,
    "started again": _restarted,
    "frozen": _frozen,
}


def _on_node(how: str, role: str) -> Strike:
    return lambda play: HOW[how](ROLES[role](play))


# -------------------------------------------------- while the scorers are stopped


@contextmanager
def _between(act: Callable[[Struck], None], said: str, play: Struck) -> Iterator[None]:
    """Do something while no scorer runs; one of their next lives says so where there is something to say."""
    play.stop_all()
    given_up()(play)
    act(play)
    begin(*play.scorers)(play)
    yield
    if said:
        play.told(said)


def _delete_group(play: Struck) -> None:
    foreign.delete_group(play.connection, play.group)


def _set_positions(play: Struck, share: float) -> None:
    for partition, end in play.ends().items():
        foreign.commit(play.connection, play.group, play.points, partition, int(share * end), "")


def _leave_one_position(play: Struck) -> None:
    _delete_group(play)
    foreign.commit(play.connection, play.group, play.points, 0, 0, "")


def _rename_group(play: Struck) -> None:
    play.group += "-renamed"


def _let_another_model_score(play: Struck) -> None:
    """In the same group and into the same topics, from the first record on."""
    own, play.model = play.model, OTHER_MODEL
    others, play.scorers = play.scorers, {}
    play.publish()
    begin("another")(play)
    play.told("position_of_another_model")
    all_answered()(play)
    play.stop_all()
    play.judge()
    play.model, play.scorers = own, others


def _remove_scores(play: Struck) -> None:
    play.removed += Scoring.stored(play, play.scores)
    cluster = Cluster(play.connection)
    for partition in cluster.describe(play.scores).partitions:
        foreign.delete_records(play.connection, play.scores, partition, cluster.log_range(play.scores, partition)[1])


def _remove_what_was_scored(play: Struck) -> None:
    ends: dict[int, int] = {}
    for answer in of_records(play.stored()):
        _, partition, offset = source_of(answer).rsplit("/", 2)
        ends[int(partition)] = max(ends.get(int(partition), 0), int(offset) + 1)
    for partition, end in ends.items():
        foreign.delete_records(play.connection, play.points, partition, end)


# ------------------------------------------------------------------ the network


@contextmanager
def _network(treat: Callable[[Proxy], None], play: Struck) -> Iterator[None]:
    play.brokers.each_network(treat)
    yield
    play.brokers.each_network(Proxy.mend)


@contextmanager
def _node_away(play: Struck) -> Iterator[None]:
    network = play.brokers.networks[play.brokers.nodes.index(_coordinator(play))]
    network.go_silent()
    yield
    network.mend()


@contextmanager
def _answers_lost(play: Struck, *, applied: bool, repeats: bool) -> Iterator[None]:
    losses = [Loss(f"{play.group}-".encode(), applied=applied, repeats=repeats) for _ in play.brokers.networks]
    for network, loss in zip(play.brokers.networks, losses, strict=True):
        network.loss = loss
    yield
    play.wait_until(lambda: any(loss.happened.is_set() for loss in losses), "an answer is lost")


@contextmanager
def _quota(kind: str, most: str, play: Struck) -> Iterator[None]:
    """Limit everyone who has no limit of his own."""
    node = play.brokers.nodes[0]
    tool = [*node._java, "kafka.admin.ConfigCommand", "--bootstrap-server", node.bootstrap_servers, "--alter"]
    of = ["--entity-type", kind, "--entity-default"]
    subprocess.run([*tool, *of, "--add-config", most], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*tool, *of, "--delete-config", most.split("=")[0]], check=True, capture_output=True)


BETWEEN: Final[Mapping[str, Strike]] = {
    what: partial(_between, act, said)
    for what, act, said in (
        ("the group is deleted", _delete_group, ""),
        ("the positions are set back", partial(_set_positions, share=0.0), "position_ignored"),
        ("the positions are set ahead", partial(_set_positions, share=1.0), ""),
        ("all positions but one are removed", _leave_one_position, "position_ignored"),
        ("the group is renamed", _rename_group, ""),
        ("another model scores in the group", _let_another_model_score, ""),
        ("the scores are removed", _remove_scores, ""),
        ("the input is removed as far as it was scored", _remove_what_was_scored, ""),
    )
}
NETWORK: Final[Mapping[str, Strike]] = {
    "all connections are cut": partial(_network, Proxy.cut),
    "the network is silent": partial(_network, Proxy.go_silent),
    "the network is slow": partial(_network, partial(Proxy.slow, latency_s=LATENCY_S, bytes_per_s=BYTES_PER_S)),
    "the way to the group's coordinator is silent": _node_away,
    "the answer of a commit is lost": partial(_answers_lost, applied=True, repeats=False),
    "all answers of a commit are lost": partial(_answers_lost, applied=True, repeats=True),
    "all requests of a commit are lost": partial(_answers_lost, applied=False, repeats=True),
}
QUOTAS: Final[Mapping[str, Strike]] = {
    "a client may write little": partial(_quota, "clients", "producer_byte_rate=3000"),
    "a client may read little": partial(_quota, "clients", "consumer_byte_rate=500"),
    "a user may read little": partial(_quota, "users", "consumer_byte_rate=500"),
    "a client may ask little": partial(_quota, "clients", "request_percentage=0.05"),
}
NODES: Final[Mapping[str, Strike]] = {f"the {role} is {how}": _on_node(how, role) for role in ROLES for how in HOW}
STRIKES: Final[Mapping[str, Strike]] = {**NODES, **BETWEEN, **NETWORK, **QUOTAS}
