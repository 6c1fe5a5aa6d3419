"""Scorers in play: topics with one version to score by, processes that share a group, and the steps that strike them.

Records are dealt over four partitions, and their offsets are the truth: the scores' and letters' sources must be just
those, each once, as any `read_committed` consumer sees them.
"""

from __future__ import annotations

import json
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Record, TopicSpec, members_of
from tests.constants import flags
from tests.deadline import eventually
from tests.defects.disturbances import TRANSACTION_TIMEOUT
from tests.live.process import DEADLINE_S, Daemon, metrics, scorer, started
from tests.live.strikes import step
from tests.promise.answers import source_of
from tests.promise.topics import of_records
from tests.registry.test_subscriber import NAME, Trainer, version_of

PARTITIONS: Final = 4
BAD_EVERY: Final = 50
LATEST_KILL_S: Final = 0.5
SHORT_SESSION: Final = ("session.timeout.ms=1500", "heartbeat.interval.ms=300")
DEFAULT_SESSION: Final[tuple[str, ...]] = ()
"""For scorers on a machine that may starve them: the group loses no member."""
LONG_SESSION: Final = ("session.timeout.ms=300000",)
"""Longer than any test: nothing goes on for want of a member that is dead, unless a successor takes its slot."""
SHORT_TRANSACTION_S: Final = 2.0
"""Of the scorers in which `ends-transactions-early` is planted."""
LOG_LINES: Final = 30


@dataclass
class Scoring:
    """What the steps act upon.

    `model`: By which the scorers score. `scorers`: The last lives of scorers, by their names in the scenario.
    """

    connection: Connection
    planted: str = ""
    model: str = NAME
    scorers: dict[str, Daemon] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        unique = uuid.uuid4().hex[:12]
        self.points, self.models, self.scores = f"points-{unique}", f"models-{unique}", f"scores-{unique}"
        self.group, self.sent = f"g-{unique}", 0
        self._started: list[Daemon] = []
        wide = [TopicSpec(topic, PARTITIONS) for topic in (self.points, self.scores)]
        narrow = [TopicSpec(topic) for topic in (self.models, f"{self.models}.aliases", f"{self.points}.dlq")]
        Cluster(self.connection).create([*wide, *narrow])
        self.publish()

    @property
    def servers(self) -> str:
        """Where scorers find the brokers."""
        return self.connection.servers

    def publish(self) -> None:
        """Publish the version to score by."""
        with closing(Trainer(self.connection, self.models)) as trainer:
            trainer.publish(version_of(3, name=self.model))

    def feed(self, count: int) -> None:
        """Store records, every fiftieth a bad one."""
        with closing(Outbox(self.connection)) as outbox:
            for number in range(self.sent, self.sent + count):
                value = b"bad" if number % BAD_EVERY == 7 else encode([float(number), 1.0], id=number)
                outbox.send(Message(self.points, value, partition=number % PARTITIONS))
            outbox.flush(DEADLINE_S)
        self.sent += count
        self.counts["points"] += count

    def ends(self) -> dict[int, int]:
        """Return how many records were stored in each partition."""
        return {partition: len(range(partition, self.sent, PARTITIONS)) for partition in range(PARTITIONS)}

    def begin(self, name: str, planted: str, crash_at: str, session: Sequence[str]) -> Daemon:
        """Start a life of a scorer."""
        topics = (self.models, self.points, self.scores)
        command = scorer(self.servers, self.model, *topics, scoring_group=self.group)
        command += [part for option in session for part in ("--kafka", option)]
        names = "+".join(filter(None, (self.planted, planted)))
        environment = {TRANSACTION_TIMEOUT: str(SHORT_TRANSACTION_S)}
        if crash_at:
            environment["STREAMSVM_TEST_CRASH_AT"] = crash_at
        self.scorers[name] = started([*flags({"SCORED_AT_ONCE": 50}), *command], names, environment)
        self._started.append(self.scorers[name])
        self.counts["processes"] += 1
        return self.scorers[name]

    def scored(self, name: str) -> float:
        """Return how many points a scorer says it has scored, 0 before it answers."""
        with suppress(OSError):
            return metrics(self.scorers[name]).get("streamsvm_scored_points_total", 0.0)
        return 0.0

    def stored(self, *topics: str) -> list[Record]:
        """Return the committed records of these topics, or of scores and letters."""
        cluster = Cluster(self.connection)
        return [
            record
            for topic in topics or (self.scores, f"{self.points}.dlq")
            for partition in cluster.describe(topic).partitions
            for record in cluster.read_to_end(topic, partition, timeout_s=DEADLINE_S)
        ]

    def wait_until(self, happened: Callable[[], object], what: str) -> None:
        """Wait until something has happened."""
        eventually(lambda: bool(happened()), what, DEADLINE_S)

    def judge(self, but: frozenset[str] = frozenset()) -> None:
        """One score, and the right one, for each good record; one letter for each bad one; nothing else."""
        counts = Counter(map(source_of, of_records(self.stored())))
        twice = [source for source, count in counts.items() if count > 1]
        assert not twice, f"{len(twice)} records are answered twice, such as {twice[0]}"
        wanted = {f"{self.points}/{part}/{offset}" for part, end in self.ends().items() for offset in range(end)}
        assert counts.keys() == wanted, f"{len(wanted - counts.keys())} records are not answered"
        for record in self.stored(self.scores):
            score = json.loads(record.value or b"")
            assert score["score"] == 3.0 * (score["id"] + 2.0)
            assert (score["model"], score["version"], score["points"]) == (self.model, 3, 270)

    def end_all(self) -> None:
        """End what still runs, and show the end of each log: pytest prints it where the test failed."""
        for number, daemon in enumerate(self._started):
            running = daemon.ended() is None
            if running:
                daemon.kill()
            daemon.catch_up()
            lines = [line for line in daemon.log[-LOG_LINES:] if '"event": "configuration"' not in line]
            print(f"scorer {number}, {'running' if running else 'ended'}:", *lines, sep="\n")


ScoringStep = Callable[[Scoring], None]


@step
def feed(play: Scoring, count: int) -> None:
    """Store records, every fiftieth a bad one."""
    play.feed(count)


@step
def begin(play: Scoring, *names: str, planted: str = "", session: Sequence[str] = SHORT_SESSION) -> None:
    """Start scorers at once, and wait until all have started."""
    for name in names:
        play.begin(name, planted, "", session)
    for name in names:
        play.scorers[name].wait_for("started")


@step
def crash(play: Scoring, name: str, point: str, *, planted: str = "", session: Sequence[str] = SHORT_SESSION) -> None:
    """Run a scorer that is killed at a named point."""
    daemon = play.begin(name, planted, point, session)
    assert daemon.wait() == -signal.SIGKILL, f"{point} was never reached:\n{daemon.said}"
    play.counts["named_kills"] += 1


@step
def kill_at_random(play: Scoring, times: int) -> None:
    """Kill one of two scorers, `a` and `b`, at random moments, again and again, while points stream in."""
    for _ in range(times):
        victim = random.choice(("a", "b"))
        play.feed(1_000)
        time.sleep(random.uniform(0.0, LATEST_KILL_S))  # not to wait for anything: the moment is the fault
        play.scorers[victim].kill()
        begin(victim)(play)
        play.counts["random_kills"] += 1


@step
def freeze(play: Scoring, name: str) -> None:
    """SIGSTOP."""
    play.scorers[name].freeze()


@step
def thaw(play: Scoring, name: str) -> None:
    """SIGCONT."""
    play.scorers[name].thaw()


@step
def stop(play: Scoring, *names: str) -> None:
    """SIGTERM; they must end well."""
    for name in names:
        assert play.scorers[name].stop() == 0, play.scorers[name].said


@step
def see(play: Scoring, name: str, event: str) -> None:
    """Wait for a log line of an event from now on."""
    play.scorers[name].wait_for(event)


@step
def seen(play: Scoring, name: str, *events: str, after: str = "") -> None:
    """Wait until a scorer has logged these events, in any order, after another one."""

    def logged() -> bool:
        daemon = play.scorers[name]
        daemon.catch_up()
        lines: list[dict[str, Any]] = [json.loads(line) for line in daemon.log if line.startswith("{")]
        told = [line["event"] for line in lines]
        return {*events} <= {*told[told.index(after) if after else 0 :]}

    play.wait_until(logged, f"it logs {', '.join(events)}")


@step
def feed_until(play: Scoring, name: str, event: str) -> None:
    """Store more and more records until a scorer logs an event."""

    def logged() -> bool:
        play.feed(200)
        play.scorers[name].catch_up()
        return bool(play.scorers[name].events(event))

    play.wait_until(logged, f"it logs {event}")


@step
def feed_until_all_work(play: Scoring, *names: str) -> None:
    """Store more and more records until each of these scorers has scored some."""
    play.wait_until(lambda: (play.feed(200), all(play.scored(name) for name in names))[1], "all are at work")


@step
def scored(play: Scoring, name: str, count: int) -> None:
    """Wait until a scorer has scored so many points."""
    play.wait_until(lambda: play.scored(name) >= count, f"it scores {count}")


@step
def all_answered(play: Scoring) -> None:
    """Wait until every record is answered."""
    play.wait_until(lambda: len(play.stored()) >= play.sent, "all is scored")


@step
def given_up(play: Scoring) -> None:
    """Wait until the group has no member."""
    play.wait_until(lambda: not members_of(play.connection, play.group), "the group gives its slot up")


@step
def same_id(play: Scoring, first: str, second: str) -> None:
    """Check that the second scorer took the slot of the first one over, with its transactional id."""
    ids = [play.scorers[name].events("slot_claimed")[0]["transactional_id"] for name in (first, second)]
    assert ids[0] == ids[1], "the successor did not take the slot: this shows something else"


@step
def slots(play: Scoring, **held: int) -> None:
    """Check which slot each scorer holds."""
    found = {name: play.scorers[name].events("slot_claimed")[-1]["slot"] for name in held}
    assert found == held


@step
def different_slots(play: Scoring, *names: str) -> None:
    """Check that the scorers have the first slots, each its own."""
    found = [play.scorers[name].events("slot_claimed")[-1]["slot"] for name in names]
    assert sorted(found) == list(range(len(names)))


@step
def finish(play: Scoring, name: str) -> None:
    """Let a scorer answer all that was fed, and stop it."""
    daemon = play.scorers[name]
    play.wait_until(lambda: len(play.stored()) >= play.sent or daemon.ended() is not None, "all is scored")
    assert daemon.stop() == 0, daemon.said
