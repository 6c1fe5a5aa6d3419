"""Workers in play: a stream of four partitions that two of a group learn, and a trainer that adopts what they leave.

At the end every version is recomputed in one process from the log, each bad record has its letter, and at every prefix
of the coresets topic the highest manifest is complete.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from consumers.branches.workers.settings import coresets_topic
from consumers.host import EXIT_RETRYABLE
from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, Record, TopicSpec
from tests.branches.workers.group_workers import check_topic
from tests.brokers.cluster import NODES
from tests.brokers.settings import COMPACT_AT_ONCE
from tests.consumers.trainers import encoded
from tests.deadline import eventually
from tests.kafka import foreign
from tests.live.cluster import Brokers
from tests.live.process import Daemon, arguments
from tests.live.stage import NO_LIMITS, Stage
from tests.live.strikes import step
from tests.promise.states import adopted
from tests.promise.topics import check_counts, check_promise, hold, records_of
from tests.streams import gaussian

PARTITIONS: Final = 4
ROWS: Final = 60
"""Rows that each partition gets at a time, so that a life has something to learn."""
BAD_EVERY: Final = 17
LEAF_ROWS: Final = 20
"""Of `settings_for`."""
SESSION_S: Final = 6.0
LATEST_S: Final = 1.5
LEADERLESS_S: Final = 2.0
PATIENCE_S: Final = 180.0
LOOK_S: Final = 0.05
ALONE: Final = {"ordinal": 0, "of": 1}
"""Options of a worker that owns every partition, whoever else does."""
NOT_A_WORKERS: Final = ("--checkpoint-directory", "--checkpoint-interval-s")


def command(settings: Settings, connection: Connection, options: Mapping[str, Any]) -> list[str]:
    """Return the command line of a worker of this trainer."""
    plain = arguments(settings, connection, **options)
    at = plain.index("train")
    pairs = zip(plain[at + 1 :: 2], plain[at + 2 :: 2], strict=True)
    kept = [part for pair in pairs if pair[0] not in NOT_A_WORKERS for part in pair]
    return [*plain[:at], "scale", "worker", *kept]


@dataclass
class Adopting:
    """What the steps act upon.

    `stage`: Of a trainer that learns by itself; `adopting` is that of the one that reads no points. `nodes`: Three
    brokers that may be struck. `planted`: What is changed in each worker. `compacted`: Whether the coresets topic is
    compacted within seconds. `begun_alone`: Whether the trainer learned by itself before there were workers.
    """

    stage: Stage
    nodes: Brokers | None = None
    planted: str = ""
    compacted: bool = False
    begun_alone: bool = False
    rows: int = 0
    fed: int = 0
    workers: dict[str, Daemon] = field(default_factory=dict)
    options: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        training = self.stage.settings.training.model_copy(update={"policy": "latest", "from_coresets": True})
        own = {"name": self.stage.settings.output.models_topic}
        settings = self.stage.settings.model_copy(update=own)
        self.stage = replace(self.stage, settings=settings, options={**NO_LIMITS, "training_policy": "latest"})
        adopts = settings.model_copy(update={"training": training})
        self.adopting = replace(
            self.stage, settings=adopts, options={"training_from_coresets": "true", **self.stage.options}
        )
        self.stage.create(PARTITIONS)
        spec = TopicSpec(coresets_topic(adopts), PARTITIONS, config={"cleanup.policy": "compact"})
        Cluster(self.stage.connection).create([spec])

    # ------------------------------------------------------------- processes

    def begin_trainer(self, planted: str = "") -> None:
        """Start the trainer that adopts."""
        self.trainer = self._started("started", lambda: self.adopting.start(planted))

    def begin_worker(self, name: str, environment: Mapping[str, str] | None = None, **options: Any) -> Daemon:
        """Start a worker, one of the group or as these options say."""
        self.options[name] = options
        self.workers[name] = self._started("worker_started", lambda: self._worker(environment, options))
        return self.workers[name]

    def _worker(self, environment: Mapping[str, str] | None, options: Mapping[str, Any]) -> Daemon:
        given = {f"worker_{name}": value for name, value in options.items()}
        line = command(self.adopting.settings, self.stage.connection, {**self.adopting.options, **given})
        names = "+".join(filter(None, ("publishes-often", self.planted)))
        return self.stage.start_command(line, names, environment)

    def _started(self, event: str, start: Callable[[], Daemon]) -> Daemon:
        """Start a process, again where it ends because a broker is away, as a supervisor does."""
        until = time.monotonic() + PATIENCE_S
        daemon = start()
        while not daemon.events(event):
            assert time.monotonic() < until, daemon.said[-3_000:]
            if daemon.ended() is not None:
                self._excuse(daemon)
                daemon = start()
            time.sleep(LOOK_S)
            daemon.catch_up()
        self.counts["processes"] += 1
        return daemon

    @staticmethod
    def _excuse(daemon: Daemon) -> None:
        assert daemon.wait() == EXIT_RETRYABLE, daemon.said[-3_000:]

    def tend(self) -> None:
        """Start again what has ended because a broker was away."""
        for name, worker in self.workers.items():
            if worker.ended() is not None:
                self._excuse(worker)
                self.begin_worker(name, **self.options[name])
        if self.trainer.ended() is not None:
            self._excuse(self.trainer)
            self.begin_trainer()

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until something has happened, and tend what runs meanwhile."""

        def tended() -> bool:
            self.tend()
            return happened()

        eventually(tended, what, PATIENCE_S, LOOK_S)

    # ---------------------------------------------------------------- checks

    def covered(self) -> bool:
        """Return whether a version of this life of the trainer covers all rows but those of open leaves."""
        self.trainer.catch_up()
        told = self.trainer.events("model_published")
        return bool(told) and told[-1]["points"] >= self.rows - PARTITIONS * LEAF_ROWS

    def judge(self, but: frozenset[str] = frozenset()) -> None:
        """Check what was left, refused and published."""
        connection, settings = self.stage.connection, self.adopting.settings
        found = check_promise(connection, settings)
        check_counts(found)
        self._check_letters()
        if self.compacted:
            assert self._removed(coresets_topic(settings)) > 0, "nothing was compacted: this shows nothing"
        else:
            left = check_topic(connection, settings, PARTITIONS)
            assert sum(one.manifests for one in left) >= PARTITIONS
            if not self.begun_alone:  # its own versions stand where no worker was
                hold(adopted(records_of(connection, settings.output.models_topic), dict(enumerate(left))))
        self.counts["versions"] += len(found)

    def end_all(self) -> None:
        """End what still runs; three brokers are well again."""
        self.stage.clear()
        if self.nodes is not None:
            self.nodes.revive()

    def _removed(self, topic: str) -> int:
        cluster = Cluster(self.stage.connection)
        ends = sum(cluster.log_range(topic, partition)[1] for partition in range(PARTITIONS))
        kept = (cluster.read_to_end(topic, partition, timeout_s=30.0) for partition in range(PARTITIONS))
        return ends - sum(len(list(records)) for records in kept)

    def _check_letters(self) -> None:
        source = self.stage.settings.input
        bad = {
            (b"%d" % partition, b"%d" % record.offset)
            for partition, record in self._records(source.topic)
            if record.value == b"{"
        }

        def letters() -> list[tuple[bytes, bytes]]:
            headers = [dict(record.headers) for _, record in self._records(source.dead_letters)]
            return [(one["__streams.errors.partition"], one["__streams.errors.offset"]) for one in headers]

        # The newest bad records stand behind the last whole leaf, so that a version may be there before their letters.
        eventually(lambda: {*letters()} >= bad, "letters of all bad records", PATIENCE_S)
        assert {*letters()} == bad, "there are letters of good records"

    def _records(self, topic: str) -> Iterator[tuple[int, Record]]:
        cluster = Cluster(self.stage.connection)
        for partition in cluster.describe(topic).partitions:
            for record in cluster.read_to_end(topic, partition, timeout_s=30.0):
                yield partition, record


@step
def compact_at_once(play: Adopting) -> None:
    """Have the coresets topic compacted within seconds."""
    play.compacted = True
    for name, value in COMPACT_AT_ONCE.items():
        foreign.set_option(play.stage.connection, coresets_topic(play.adopting.settings), name, value)


@step
def feed(play: Adopting) -> None:
    """Put some more rows into every partition, bad ones among them."""
    for partition in range(PARTITIONS):
        values: list[bytes | None] = [*encoded(gaussian(ROWS, play.fed * PARTITIONS + partition))]
        values[BAD_EVERY::BAD_EVERY] = [b"{"] * len(values[BAD_EVERY::BAD_EVERY])
        play.rows += ROWS - values.count(b"{")
        play.stage.feed(values, partition)
    play.fed += 1


@step
def trainer(play: Adopting, planted: str = "") -> None:
    """Start the trainer that adopts."""
    play.begin_trainer(planted)


@step
def workers(play: Adopting, /, *names: str, **options: Any) -> None:
    """Start workers."""
    for name in names:
        play.begin_worker(name, **options)


@step
def crash_worker(play: Adopting, point: str) -> None:
    """Feed a worker that owns everything until it is killed at a named point; another takes its place."""
    doomed = play.begin_worker("a", {"STREAMSVM_TEST_CRASH_AT": point}, **ALONE)
    for _ in range(3):
        feed()(play)
    assert doomed.wait() == -signal.SIGKILL, f"{point} was never reached: {doomed.said}"
    play.begin_worker("a", **ALONE)
    play.counts["named_kills"] += 1


@step
def crash_opening(play: Adopting, point: str) -> None:
    """Let a trainer learn alone; the one that then leaves its states for workers is killed at a named point."""
    play.begun_alone = True
    play.stage.run_through(1)
    doomed = play.adopting.start(environment={"STREAMSVM_TEST_CRASH_AT": point})
    assert doomed.wait() == -signal.SIGKILL, f"{point} was never reached: {doomed.said}"
    play.counts["named_kills"] += 1


def _amid(play: Adopting) -> None:
    """Feed, and let a random time pass: the moment is the fault."""
    feed()(play)
    time.sleep(random.uniform(0.0, LATEST_S))


@step
def kill_worker(play: Adopting, name: str = "") -> None:
    """SIGKILL a worker, any or this one, at a random moment; another is started in its place."""
    _amid(play)
    victim = name or random.choice([*play.workers])
    play.workers[victim].kill()
    play.begin_worker(victim, **play.options[victim])
    play.counts["kills"] += 1
    play.tend()


@step
def kill_trainer(play: Adopting) -> None:
    """SIGKILL the trainer at a random moment, and start it again."""
    _amid(play)
    play.trainer.kill()
    play.begin_trainer()
    play.counts["kills"] += 1
    play.tend()


@step
def put_to_sleep(play: Adopting) -> None:
    """SIGSTOP a worker until its partitions were taken by the other one, and SIGCONT."""
    _amid(play)
    sleeper, other = random.sample([*play.workers.values()], 2)
    other.catch_up()
    before, until = len(other.events("partition_restored")), time.monotonic() + 2 * SESSION_S
    sleeper.freeze()
    while time.monotonic() < until and len(other.events("partition_restored")) == before:
        time.sleep(LOOK_S)  # the sleeper may have held no partition just then
        other.catch_up()
    sleeper.thaw()
    play.counts["stops"] += 1
    play.tend()


@step
def kill_leader(play: Adopting) -> None:
    """SIGKILL the broker that leads one of the topics, and start it again while things go on."""
    assert play.nodes is not None
    _amid(play)
    settings = play.adopting.settings
    wide = (settings.input.topic, coresets_topic(settings))
    places = [(topic, partition) for topic in wide for partition in range(PARTITIONS)]
    leader = play.nodes.leader(*random.choice([*places, (settings.output.models_topic, 0)]))
    leader.kill()
    time.sleep(random.uniform(0.0, LEADERLESS_S))  # the moment of its return is part of the fault
    leader.restart()
    nodes = play.nodes
    play.wait_until(lambda: all(nodes.in_sync(*one) == {*NODES} for one in places), "all nodes are in sync")
    play.counts["leaders"] += 1


@step
def finish(play: Adopting) -> None:
    """Let all rows be learned, and stop everything."""
    play.wait_until(play.covered, f"a version covers {play.rows} rows, but for open leaves")
    for daemon in (*play.workers.values(), play.trainer):
        assert daemon.stop() == 0, daemon.said[-3_000:]
