"""Scorers killed, frozen and joined by others: one score for each point, one letter for each bad record.

The scorers are processes that share a group; the topics are read as any `read_committed` consumer does. Records are
dealt over four partitions, and their offsets are the truth: the scores' and letters' sources must be just those, each
once.
"""

from __future__ import annotations

import json
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
from confluent_kafka.admin import MemberDescription

from streamsvm.crashpoints import POINTS
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Record, TopicSpec
from streamsvm.kafka.group_slots import members_of
from tests.brokers.fixtures import TestBroker
from tests.constants import flags
from tests.faults.planted import TRANSACTION_TIMEOUT
from tests.forked import PROGRAM
from tests.live.process import DEADLINE_S, Daemon, metrics
from tests.registry.test_subscriber import NAME, Trainer, eventually, version_of

Note = Callable[[str, object], None]
PARTITIONS = 4
LOG_LINES = 30
BAD_EVERY = 50
NAMED = [point for point in POINTS if point.startswith("scores.")]
LATEST_KILL_S = 0.5
SESSION = ("session.timeout.ms=1500", "heartbeat.interval.ms=300")
DEFAULT_SESSION: tuple[str, ...] = ()
SHORT_TRANSACTION_S = 2.0
"""For scorers whose transactions end early."""
LONG_SESSION = ("session.timeout.ms=300000",)
"""Longer than any test: nothing goes on for want of a member that is dead, unless a successor takes its slot."""


class Site:
    """Topics with one version to score by, and the scorers of them."""

    def __init__(self, connection: Connection) -> None:
        unique = uuid.uuid4().hex[:12]
        self.connection = connection
        self.points, self.models, self.scores = f"points-{unique}", f"models-{unique}", f"scores-{unique}"
        self._group = f"g-{unique}"
        self._sent = 0
        self._started: list[Daemon] = []
        names = [TopicSpec(self.points, PARTITIONS), TopicSpec(self.models), TopicSpec(f"{self.models}.aliases")]
        Cluster(connection).create([*names, TopicSpec(self.scores, PARTITIONS), TopicSpec(f"{self.points}.dlq")])
        with closing(Trainer(connection, self.models)) as trainer:
            trainer.publish(version_of(3))

    def feed(self, count: int) -> None:
        """Store records, every fiftieth a bad one."""
        with closing(Outbox(self.connection)) as outbox:
            for number in range(self._sent, self._sent + count):
                value = b"bad" if number % BAD_EVERY == 7 else encode([float(number), 1.0], id=number)
                outbox.send(Message(self.points, value, partition=number % PARTITIONS))
            outbox.flush(DEADLINE_S)
        self._sent += count

    def start(self, planted: str = "", crash_at: str = "", session: tuple[str, ...] = SESSION) -> Daemon:
        """Start a scorer."""
        options = {
            "name": NAME,
            "bootstrap-servers": self.connection.servers,
            "output-models-topic": self.models,
            "scoring-topic": self.points,
            "scoring-output-topic": self.scores,
            "scoring-group": self._group,
            "http-port": 0,
        }
        command = [
            *flags({"SCORED_AT_ONCE": 50}),
            "score",
            *(part for name, value in options.items() for part in (f"--{name}", str(value))),
        ]
        command += [part for option in session for part in ("--kafka", option)]
        environment = {TRANSACTION_TIMEOUT: str(SHORT_TRANSACTION_S)}
        if crash_at:
            environment["STREAMSVM_TEST_CRASH_AT"] = crash_at
        module = "tests.faults.planted" if planted else PROGRAM
        daemon = Daemon([planted, *command] if planted else command, environment, module)
        self._started.append(daemon)
        return daemon

    def finish(self, daemon: Daemon) -> None:
        """Let a scorer come to the end of what was fed, and check the promise."""
        eventually(lambda: len(self.stored()) >= self._sent or daemon.ended() is not None, "all is scored", DEADLINE_S)
        assert daemon.stop() == 0, daemon.said
        self.check()

    def check(self) -> None:
        """One score, and the right one, for each good record; one letter for each bad one; nothing else."""
        counts = Counter(_source(record) for record in self.stored())
        twice = [source for source, count in counts.items() if count > 1]
        assert not twice, f"{len(twice)} records are answered twice, such as {twice[0]}"
        wanted = {
            f"{self.points}/{partition}/{offset}"
            for partition in range(PARTITIONS)
            for offset in range(len(range(partition, self._sent, PARTITIONS)))
        }
        assert counts.keys() == wanted, f"{len(wanted - counts.keys())} records are not answered"
        for record in self.stored(self.scores):
            score = json.loads(record.value or b"")
            assert score["score"] == 3.0 * (score["id"] + 2.0)
            assert (score["model"], score["version"], score["points"]) == (NAME, 3, 270)

    def clear(self) -> None:
        """End what still runs, and show the end of each log: pytest prints it where the test failed."""
        for number, daemon in enumerate(self._started):
            running = daemon.ended() is None
            if running:
                print(f"scorer {number} says that it scored {scored(daemon):g} of {self._sent} points")
                daemon.kill()
            daemon.catch_up()
            lines = [line for line in daemon.log[-LOG_LINES:] if '"event": "configuration"' not in line]
            print(f"scorer {number}, {'running' if running else 'ended'}:", *lines, sep="\n")

    @property
    def processes(self) -> int:
        return len(self._started)

    @property
    def sent(self) -> int:
        return self._sent

    def members(self) -> list[MemberDescription]:
        """Return the members of the scorers' group."""
        return members_of(self.connection, self._group)

    def stored(self, *topics: str) -> list[Record]:
        """Return the committed records of these topics, or of scores and letters."""
        return [
            record
            for topic in topics or (self.scores, f"{self.points}.dlq")
            for partition in Cluster(self.connection).describe(topic).partitions
            for record in Cluster(self.connection).read_to_end(topic, partition, timeout_s=DEADLINE_S)
        ]


def _source(record: Record) -> str:
    headers = {name: content.decode() for name, content in record.headers}
    if "streamsvm.source" in headers:
        return headers["streamsvm.source"]
    place = (headers[f"__streams.errors.{part}"] for part in ("topic", "partition", "offset"))
    return "/".join(place)


def scored(daemon: Daemon) -> float:
    """Return how many points a scorer says it has scored, 0 before it answers."""
    with suppress(OSError):
        return metrics(daemon).get("streamsvm_scored_points_total", 0.0)
    return 0.0


@pytest.fixture
def site(real_broker: TestBroker, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Topics of this test's own; no scorer outlives it."""
    made = Site(real_broker.connect(fetch_wait_max_ms=10))
    yield made
    made.clear()
    request.node.user_properties.append(("processes", made.processes))


def kill_at(site: Site, point: str, planted: str = "") -> None:
    """Run a scorer that dies at a point."""
    daemon = site.start(planted, crash_at=point)
    assert daemon.wait() == -signal.SIGKILL, f"{point} was never reached:\n{daemon.said}"


@pytest.mark.long
def test_a_kill_at_any_named_point_doubles_and_loses_nothing(site: Site, record_property: Note) -> None:
    """Before and after each step of a batch's transaction, at its first or at a later passage."""
    points = [f"{point}:{times}" for times, point in enumerate(NAMED, 1)]
    for point in points:
        site.feed(500)
        kill_at(site, point)
    site.finish(site.start())
    record_property("named_kills", len(points))
    record_property("points", site.sent)


@pytest.mark.long(keep=("scores.placed",))
@pytest.mark.parametrize("point", ["scores.sent", "scores.placed"])
def test_a_killed_scorer_is_succeeded_in_its_slot(site: Site, point: str, record_property: Note) -> None:
    """Its successor waits neither for the session nor for the transaction to time out: the slot is taken over."""
    site.feed(500)
    killed = site.start(crash_at=f"{point}:2", session=LONG_SESSION)
    claimed = killed.wait_for("slot_claimed")
    assert killed.wait() == -signal.SIGKILL, killed.said
    successor = site.start(session=LONG_SESSION)
    assert successor.wait_for("slot_claimed")["transactional_id"] == claimed["transactional_id"]
    site.finish(successor)
    record_property("points", site.sent)


@pytest.mark.long
def test_scorers_that_start_at_once_come_to_a_slot_each(site: Site, record_property: Note) -> None:
    """Three processes of one host, and nobody tells them apart: each ends in a slot of its own, and has work."""
    daemons = [site.start(session=DEFAULT_SESSION) for _ in range(3)]  # a starved machine loses no member
    for daemon in daemons:
        daemon.wait_for("started")
    eventually(
        lambda: (site.feed(200), all(scored(daemon) > 0 for daemon in daemons))[1], "all are at work", DEADLINE_S
    )
    for daemon in daemons[1:]:
        assert daemon.stop() == 0, daemon.said
    site.finish(daemons[0])
    slots = [[entry["slot"] for entry in daemon.events("slot_claimed")][-1] for daemon in daemons]
    assert sorted(slots) == [0, 1, 2]
    record_property("points", site.sent)


def kill_at_random(site: Site, kills: int, seed: int) -> None:
    """Kill one of two scorers at random moments, again and again, while points stream in."""
    chance = random.Random(seed)
    pair = [site.start(), site.start()]
    for daemon in pair:
        daemon.wait_for("started")
    for _ in range(kills):
        victim = chance.randrange(2)
        site.feed(1_000)
        time.sleep(chance.uniform(0.0, LATEST_KILL_S))  # not to wait for anything: the moment is the fault
        pair[victim].kill()
        pair[victim] = site.start()
        pair[victim].wait_for("started")
    assert pair[0].stop() == 0, pair[0].said
    site.finish(pair[1])


@pytest.mark.long
def test_kills_at_random_moments_double_and_lose_nothing(site: Site, record_property: Note) -> None:
    """Two scorers share the work; a handful of kills, each while a batch of points comes in."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    kill_at_random(site, 4, seed)
    record_property("random_kills", 4)
    record_property("points", site.sent)


@pytest.mark.faults_long
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_kill_at_every_passage_of_a_point_doubles_and_loses_nothing(
    site: Site, times: int, record_property: Note
) -> None:
    """Each of the points at each of the first three passages."""
    for point in NAMED:
        site.feed(500)
        kill_at(site, f"{point}:{times}")
    site.finish(site.start())
    record_property("named_kills", len(NAMED))


@pytest.mark.faults_long
def test_fifty_kills_double_and_lose_nothing(site: Site, record_property: Note) -> None:
    """The same, fifty times."""
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    kill_at_random(site, 50, seed)
    record_property("random_kills", 50)
    record_property("points", site.sent)


@pytest.mark.long
def test_a_frozen_scorer_that_wakes_adds_nothing(site: Site, record_property: Note) -> None:
    """SIGSTOP for longer than its session: another scores what it held, and it goes on as a member like any other."""
    frozen = site.start()
    frozen.wait_for("started")
    site.feed(5_000)
    eventually(lambda: scored(frozen) > 0, "it is at work", DEADLINE_S)
    frozen.freeze()
    other = site.start()
    other.wait_for("started")
    site.feed(1_000)
    eventually(lambda: scored(other) >= 1_000, "the other has taken over", DEADLINE_S)
    frozen.thaw()
    site.feed(3_000)
    eventually(lambda: len(site.stored()) >= site.sent, "both are through", DEADLINE_S)
    assert frozen.stop() == 0, frozen.said
    site.finish(other)
    record_property("points", site.sent)


def freeze(site: Site, planted: str) -> list[Daemon]:
    """Freeze a scorer with its second batch in hand, have a successor in its slot answer that, and thaw it."""
    site.feed(1_000)
    frozen = site.start(planted)
    frozen.wait_for("freezes")
    eventually(lambda: not site.members(), "the group gives its slot up", DEADLINE_S)
    other = site.start()
    other.wait_for("started")
    eventually(lambda: scored(other) >= 900, "the other answers what it held", DEADLINE_S)
    return thaw(site, frozen, other)


def freeze_beside(site: Site, planted: str, beside: str = "") -> list[Daemon]:
    """The same, but it is one in another slot, there before it, that answers the batch: nobody takes its slot."""
    other = site.start(beside)
    other.wait_for("started")
    frozen = site.start(planted)
    frozen.wait_for("started")
    eventually(
        lambda: (site.feed(200), frozen.catch_up(), frozen.events("freezes"))[2], "it has a second batch", DEADLINE_S
    )
    assert [daemon.events("slot_claimed")[-1]["slot"] for daemon in (other, frozen)] == [0, 1]
    eventually(lambda: len(site.stored()) >= site.sent, "the other answers what it held", DEADLINE_S)
    return thaw(site, frozen, other)


def thaw(site: Site, frozen: Daemon, other: Daemon) -> list[Daemon]:
    """Let the frozen scorer go on beside the other, and check the promise; return both."""
    frozen.thaw()
    site.feed(500)
    eventually(lambda: len(site.stored()) >= site.sent, "both are through", DEADLINE_S)
    assert frozen.stop() == 0, frozen.said
    site.finish(other)
    return [frozen, other]


def test_a_scorer_frozen_within_a_transaction_adds_nothing(site: Site, record_property: Note) -> None:
    """SIGSTOP with the scores stored, their positions not yet: its successor ends them, and it goes on elsewhere."""
    frozen, other = freeze(site, "freezes-before-its-positions")
    ids = [daemon.events("slot_claimed")[0]["transactional_id"] for daemon in (frozen, other)]
    assert ids[0] == ids[1], "the successor did not take the slot: this shows something else"
    record_property("points", site.sent)


@pytest.mark.long
def test_a_scorer_frozen_within_a_transaction_holds_up_nobody_for_ever(site: Site, record_property: Note) -> None:
    """The same, and nobody takes its slot: a scorer in another slot ends its transaction after three timeouts."""
    _, other = freeze_beside(site, "freezes-before-its-positions", "ends-transactions-early")
    assert other.events("taking_over_the_id_of_another")
    record_property("points", site.sent)


@pytest.mark.long
def test_a_scorer_frozen_before_a_transaction_adds_nothing(site: Site, record_property: Note) -> None:
    """SIGSTOP with a batch scored, and nobody fences it: when it wakes the group knows it no more, and refuses it."""
    frozen, _ = freeze_beside(site, "freezes-before-its-scores")
    assert frozen.events("batch_put_back")
    record_property("points", site.sent)


@pytest.mark.faults_long
def test_a_scorer_that_names_no_member_is_found(site: Site) -> None:
    """The row can fail: positions without the group's generation let a scorer that was replaced commit its batch."""
    with pytest.raises(AssertionError, match="answered twice"):
        freeze_beside(site, "names-no-member+freezes-before-its-scores")


LATE = {"publisher_renewed", "returned_late"}
"""What follows a call that was given up, in whichever order: a settlement takes as long as it takes."""


def happened_since_put_back(scorer: Daemon) -> set[str]:
    scorer.catch_up()
    events = [json.loads(line)["event"] for line in scorer.log if line.startswith("{")]
    return set(events[events.index("batch_put_back") :])


def test_a_client_that_hangs_is_given_up_and_does_no_harm_later(site: Site) -> None:
    """A call that does not return in time is left behind, its id taken over; when it does return, it adds nothing."""
    site.feed(300)
    scorer = site.start("hangs-in-the-client")
    scorer.wait_for("batch_put_back")
    eventually(lambda: happened_since_put_back(scorer) >= LATE, "it goes on, and the call returns", DEADLINE_S)
    site.feed(300)
    site.finish(scorer)


@pytest.mark.faults_long
@pytest.mark.parametrize("point", ["scores.placed", "scores.placed:3"])
def test_a_scorer_that_commits_beside_its_scores_is_found(site: Site, point: str) -> None:
    """The row can fail: positions committed after the scores' transaction, not in it, and a kill between the two."""
    site.feed(500)
    kill_at(site, point, "commits-beside-its-scores")
    with pytest.raises(AssertionError, match="answered twice"):
        site.finish(site.start("commits-beside-its-scores"))
