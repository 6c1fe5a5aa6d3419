"""Workers on three brokers: `python -m tests.faults.workers [--kills N] [--stops N] [--leaders N] [--state FILE]`.

Two members of a group learn four partitions into a compacted topic, and a trainer adopts what they leave; three Kafka
nodes keep everything three times, and two suffice. In rounds on fresh topics workers and the trainer are killed at
random moments, workers sleep until others have their partitions, and leaders are killed. After each round:

- `check_promise`: `verify` recomputes each version byte for byte;
- a learner in this process, which reads no topic of workers, comes to the training set of each version;
- of all that was ever written to the coresets topic, seen before compaction: at every prefix the highest manifest is
  complete, one name has one content, and each version stands where complete manifests stood;
- the newest manifests have the bytes of those of a worker that nobody disturbed.

A worker that is killed and not replaced shows how long its partitions rest. With `--state` only whole rounds count, and
the same command goes on until there are as many as it asks for.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from consumers.branches.workers.settings import coresets_topic
from consumers.host.exit_codes import EXIT_RETRYABLE
from consumers.settings import Settings
from streamsvm.branches.workers.coreset_records import place
from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster, Connection, Record, TopicSpec
from streamsvm.learning.learner import Learner
from streamsvm.model.version import Version, positions
from streamsvm.points import Position, Rows
from tests.brokers.cluster import NODES
from tests.brokers.cluster import Cluster as Brokers
from tests.brokers.settings import COMPACT_AT_ONCE
from tests.consumers.trainers import encoded, settings_for
from tests.live.process import Daemon, arguments
from tests.live.stage import NO_LIMITS, Stage
from tests.promise.states import Left, look
from tests.promise.topics import check_counts, check_promise, hold, of_records
from tests.streams import gaussian, rows_of

PARTITIONS: Final = 4
ROWS_A_LIFE: Final = 60
"""Of each partition, so that a life has something to learn."""
BAD_EVERY: Final = 17
"""Every such record is a bad one."""
KINDS: Final = ("kills", "stops", "leaders", "split_brains")
TRAINERS_SHARE: Final = 4
"""One kill in so many is the trainer's."""
TAKEOVERS_SHARE: Final = 5
"""One kill of a worker in so many is not followed by a start until the other worker has all partitions."""
LEAF_ROWS: Final = 20
"""Of `settings_for`."""
SESSION_S: Final = 6.0
LATEST_S: Final = 1.5
LEADERLESS_S: Final = 2.0
DEADLINE_S: Final = 180.0
LOOK_S: Final = 0.05
NOT_A_WORKERS: Final = ("--checkpoint-directory", "--checkpoint-interval-s")


def adopting(stage: Stage) -> Stage:
    """Return the stage with a trainer that reads no points, and saves twenty times a second."""
    training = stage.settings.training.model_copy(update={"policy": "latest", "from_coresets": True})
    own = {"name": stage.settings.output.models_topic, "training": training}
    options = {"training_from_coresets": "true", **NO_LIMITS}
    return replace(stage, settings=stage.settings.model_copy(update=own), options=options)


def command(settings: Settings, connection: Connection, options: Mapping[str, Any]) -> list[str]:
    """Return the command line of a worker of this trainer."""
    plain = arguments(settings, connection, **options)
    at = plain.index("train")
    pairs = list(zip(plain[at + 1 :: 2], plain[at + 2 :: 2], strict=True))
    worker = ["scale", "worker", *(part for pair in pairs if pair[0] not in NOT_A_WORKERS for part in pair)]
    return [*plain[:at], *worker]


def begin_worker(stage: Stage, environment: Mapping[str, str] | None, planted: str, **worker: Any) -> Daemon:
    """Start a worker of the group of this stage, or as these options say; it may not have started yet."""
    given = {f"worker_{name}": value for name, value in worker.items()}
    line = command(stage.settings, stage.connection, {**stage.options, **given})
    names = "+".join(filter(None, ("publishes-often", planted)))
    daemon = Daemon([names, *line], environment, "tests.faults.planted")
    stage.started.append(daemon)
    return daemon


def start_worker(
    stage: Stage, environment: Mapping[str, str] | None = None, planted: str = "", **worker: Any
) -> Daemon:
    """Start a worker, and wait until it has started."""
    daemon = begin_worker(stage, environment, planted, **worker)
    daemon.wait_for("worker_started")
    return daemon


def start_trainer(stage: Stage) -> Daemon:
    """Start a trainer, and wait until it has started."""
    trainer = stage.start()
    trainer.wait_for("started")
    return trainer


def feed(stage: Stage, number: int) -> int:
    """Put some more rows into every partition, bad ones among them; return how many are good."""
    bad = 0
    for partition in range(PARTITIONS):
        values: list[bytes | None] = [*encoded(gaussian(ROWS_A_LIFE, number * PARTITIONS + partition))]
        values[BAD_EVERY::BAD_EVERY] = [b"{"] * len(values[BAD_EVERY::BAD_EVERY])
        bad += values.count(b"{")
        stage.feed(values, partition)
    return ROWS_A_LIFE * PARTITIONS - bad


def fed(partition: int, times: int) -> Rows:
    """Return the rows that as many calls of `feed` have put into a partition."""
    accepted = np.ones(ROWS_A_LIFE, np.bool_)
    accepted[BAD_EVERY::BAD_EVERY] = False
    return Rows.union(
        [
            rows_of(
                gaussian(ROWS_A_LIFE, number * PARTITIONS + partition),
                partition,
                accepted=accepted,
                first_offset=number * ROWS_A_LIFE,
            )
            for number in range(times)
        ]
    )


def check_streaming(found: Sequence[Version], settings: Settings, times: int) -> None:
    """Check that a learner that reads row by row comes to the training set of each version."""
    rows = {partition: fed(partition, times) for partition in range(PARTITIONS)}
    learner = Learner(settings.models(), dict.fromkeys(rows, Position(0)), 1 << 30)
    for version in found:
        for partition, until in positions(version.lineage.cut).items():
            learner.learn(rows[partition], until=until)
        made = learner.cut().points.sha256()
        assert made == version.lineage.training_set_sha256, f"{version.key} has another training set than one learner's"


def check_letters(stage: Stage) -> None:
    """Check that each bad record has its letter, and no good one."""
    cluster, topic = Cluster(stage.connection), stage.settings.input.dead_letters
    letters = {
        (dict(record.headers)["__streams.errors.partition"], dict(record.headers)["__streams.errors.offset"])
        for partition in cluster.describe(topic).partitions
        for record in cluster.read_to_end(topic, partition, timeout_s=30.0)
    }
    source = stage.settings.input.topic
    bad = {
        (str(partition).encode(), str(record.offset).encode())
        for partition in range(PARTITIONS)
        for record in cluster.read_to_end(source, partition, timeout_s=30.0)
        if record.value == b"{"
    }
    assert letters == bad, "letters are missing, or there are too many"


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Look again and again until something has happened, or fail."""
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, f"not in {DEADLINE_S:.0f} s: {what}"
        time.sleep(LOOK_S)


def covers(trainer: Daemon, rows: int) -> bool:
    """Return whether a version that this process published covers all rows but those of open leaves."""
    trainer.catch_up()
    told = trainer.events("model_published")
    return bool(told) and told[-1]["points"] >= rows - PARTITIONS * LEAF_ROWS


def own_of(daemon: Daemon) -> set[int]:
    """Return the partitions that a worker learns now, as its log says."""
    daemon.catch_up()
    owned = set[int]()
    for entry in map(json.loads, filter(lambda line: line.startswith("{"), daemon.log)):
        if entry["event"] == "partition_restored":
            owned.add(entry["partition"])
        elif entry["event"] == "partitions_let_go":
            owned -= {*entry["partitions"]}
    return owned


def asleep(sleeper: Daemon, other: Daemon) -> bool:
    """Freeze a worker until its partitions were taken by the other one, and wake it; return whether they were."""
    other.catch_up()
    before = len(other.events("partition_restored"))
    sleeper.freeze()
    deadline = time.monotonic() + 2 * SESSION_S
    taken = False
    while not taken and time.monotonic() < deadline:  # it may have held no partition just then
        time.sleep(LOOK_S)
        other.catch_up()
        taken = len(other.events("partition_restored")) > before
    sleeper.thaw()
    return taken


class Tail:
    """Reads a topic as it is written, so that what compaction removes later was seen.

    Parameters
    ----------
    connection : Connection
    topic : str
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self._cluster, self._topic = Cluster(connection), topic
        self._reader = self._cluster.input(topic, None)
        self._begin()
        self.records: dict[int, list[Record]] = {partition: [] for partition in range(PARTITIONS)}
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
        self._thread.start()

    def _begin(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self._reader.assign(dict.fromkeys(range(PARTITIONS), 0))
                return
            except TopicMissing:  # one node may not know yet what another has just made
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for record in self._reader.poll(1_000, LOOK_S):
                    self.records[record.partition].append(record)
        except BaseException as error:  # noqa: BLE001 - shown by `end`
            self._failure = error

    def end(self) -> int:
        """Read what is left, and check that nothing was missed; return how many records compaction has removed."""
        ends = {p: self._cluster.log_range(self._topic, p)[1] for p in self.records}
        deadline = time.monotonic() + DEADLINE_S
        while self._failure is None and any(self._next(p) < end for p, end in ends.items()):
            assert time.monotonic() < deadline, "the coresets topic was not read to its end"
            time.sleep(LOOK_S)
        self.close()
        if self._failure is not None:
            raise self._failure
        kept = 0
        for partition, seen in self.records.items():
            offsets = [record.offset for record in seen]
            assert offsets == list(range(len(seen))), f"compaction was faster than who looks at partition {partition}"
            kept += len(list(self._cluster.read_to_end(self._topic, partition, timeout_s=30.0)))
        return sum(map(len, self.records.values())) - kept

    def _next(self, partition: int) -> int:
        seen = self.records[partition]
        return seen[-1].offset + 1 if seen else 0

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()
        self._reader.close()

    def checked(self) -> list[Left]:
        """Check the prefixes of each partition, as they were written."""
        found = [look(of_records(seen)) for seen in self.records.values()]
        hold(anomaly for one in found for anomaly in one.anomalies())
        return found

    def newest(self) -> dict[int, tuple[str, bytes]]:
        """Return the key, without its prefix, and the value of each partition's highest manifest."""
        highest = {}
        for partition, seen in self.records.items():
            made = [(one.key.decode().split("/", 2)[2], one.value) for one in seen if one.key and one.value]
            highest[partition] = max(one for one in made if one[0].startswith("m/"))
        return highest


def check_adopted(found: Sequence[Version], checked: Sequence[Left]) -> None:
    """Check that each version stands, in each partition, where a complete manifest stood, or where it began."""
    for version in found:
        for partition, at in positions(version.lineage.cut).items():
            assert at == Position(0) or place(at) in checked[partition].complete, (
                f"{version.key} stands at {at} in partition {partition}, where no complete manifest stood"
            )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What happens in a round."""

    kills: int = 0
    stops: int = 0
    leaders: int = 0
    split: bool = False
    compaction: bool = False

    def kinds(self, chance: random.Random) -> list[str]:
        """Return the faults in the order in which they come."""
        trainers = self.kills // TRAINERS_SHARE
        takeovers = 0 if self.split else -(-(self.kills - trainers) // TAKEOVERS_SHARE)
        made = {"takeover": takeovers, "worker": self.kills - trainers - takeovers, "trainer": trainers}
        kinds = [*Counter({**made, "stop": self.stops, "leader": self.leaders}).elements()]
        chance.shuffle(kinds)
        return kinds


@dataclass
class Round:
    """One round.

    Attributes
    ----------
    stage : Stage
        Of a trainer that adopts.
    nodes : Brokers
    plan : Plan
    seed : int
    counts : Counter
        What happened, and what was checked.
    seconds : dict
        Of takeovers.
    """

    stage: Stage
    nodes: Brokers
    plan: Plan
    seed: int
    planted: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def play(self) -> None:
        """Strike, let everything be learned, and check."""
        stage, plan, self._chance = self.stage, self.plan, random.Random(self.seed)
        self._empty: int | None = None
        stage.create(PARTITIONS)
        topic = coresets_topic(stage.settings)
        config = COMPACT_AT_ONCE if plan.compaction else {"cleanup.policy": "compact"}
        Cluster(stage.connection).create([TopicSpec(topic, PARTITIONS, config=config)])
        tail = Tail(stage.connection, topic)
        strikes = {
            "worker": self._kill_worker,
            "trainer": self._kill_trainer,
            "takeover": self._take_over,
            "stop": self._stop_worker,
            "leader": self._kill_leader,
        }
        try:
            self._trainer = self._started("started", stage.start)
            self._workers = [self._start(side) for side in range(2)]
            times = rows = 0
            for kind in plan.kinds(self._chance):
                rows += feed(stage, times)
                times += 1
                time.sleep(self._chance.uniform(0.0, LATEST_S))  # not to wait for anything: the moment is the fault
                strikes[kind]()
                self._tend()
            rows += feed(stage, times)
            self._finish(tail, rows, times + 1)
        finally:
            tail.close()
            stage.clear()

    # ------------------------------------------------------------------ faults

    def _kill_worker(self) -> None:
        victim = self._chance.randrange(2)
        self._workers[victim].kill()
        self._workers[victim] = self._start(victim)
        self.counts["kills"] += 1

    def _kill_trainer(self) -> None:
        self._trainer.kill()
        self._trainer = self._started("started", self.stage.start)
        self.counts["kills"] += 1
        self.counts["kills of the trainer"] += 1

    def _take_over(self) -> None:
        """Kill a worker; its place stays empty until its partitions are taken."""
        self._settle()
        victim = self._chance.randrange(2)
        self._empty = victim
        self._workers[victim].strike()
        killed = time.monotonic()
        self._until(lambda: own_of(self._workers[1 - victim]) == {*range(PARTITIONS)}, "the other worker has all")
        self.seconds.setdefault("takeover", []).append(round(time.monotonic() - killed, 2))
        self._empty = None
        self._workers[victim] = self._start(victim)
        self.counts["kills"] += 1

    def _stop_worker(self) -> None:
        victim = self._chance.randrange(2)
        if self.plan.split:
            self._workers[victim].freeze()
            time.sleep(self._chance.uniform(0.0, SESSION_S))
            self._workers[victim].thaw()
        else:
            self.counts["taken while stopped"] += asleep(self._workers[victim], self._workers[1 - victim])
        self.counts["stops"] += 1

    def _kill_leader(self) -> None:
        """Kill the leader of one of the topics, and bring it back while things go on."""
        settings = self.stage.settings
        topic, partitions = self._chance.choice(
            [
                (settings.input.topic, PARTITIONS),
                (coresets_topic(settings), PARTITIONS),
                (settings.output.models_topic, 1),
                (settings.output.aliases_topic, 1),
            ]
        )
        leader = self.nodes.leader(topic, self._chance.randrange(partitions))
        leader.kill()
        time.sleep(self._chance.uniform(0.0, LEADERLESS_S))  # the moment of its return is part of the fault
        leader.restart()
        self._until(lambda: self._in_sync() == {*NODES}, "all nodes are in sync")
        self.counts["leaders"] += 1

    def _in_sync(self) -> set[int]:
        topics = (self.stage.settings.input.topic, coresets_topic(self.stage.settings))
        return set.intersection(*(self.nodes.in_sync(topic, p) for topic in topics for p in range(PARTITIONS)))

    # --------------------------------------------------------------- processes

    def _start(self, side: int) -> Daemon:
        split = {"ordinal": 0, "of": 1} if self.plan.split else {}
        return self._started("worker_started", partial(begin_worker, self.stage, None, self.planted, **split))

    def _started(self, event: str, start: Callable[[], Daemon]) -> Daemon:
        """Start a process, again where it ends because the broker is away, as a supervisor does."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            daemon = start()
            while daemon.ended() is None and not daemon.events(event):
                assert time.monotonic() < deadline, daemon.said[-3_000:]
                time.sleep(LOOK_S)
                daemon.catch_up()
            if daemon.events(event):
                return daemon
            self._excuse(daemon)

    def _excuse(self, daemon: Daemon) -> None:
        assert daemon.wait() == EXIT_RETRYABLE, daemon.said[-3_000:]
        self.counts["ended 75"] += 1

    def _tend(self) -> None:
        """Start again what has ended because the broker was away."""
        for side, worker in enumerate(self._workers):
            if worker.ended() is not None and side != self._empty:
                self._excuse(worker)
                self._workers[side] = self._start(side)
        if self._trainer.ended() is not None:
            self._excuse(self._trainer)
            self._trainer = self._started("started", self.stage.start)

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until something has happened, and tend what runs meanwhile."""

        def tended() -> bool:
            self._tend()
            return happened()

        wait_until(tended, what)

    def _settle(self) -> None:
        """Wait until the workers own each partition once, both of them some."""

        def settled() -> bool:
            one, other = map(own_of, self._workers)
            return bool(one) and bool(other) and not one & other and one | other == {*range(PARTITIONS)}

        self._until(settled, "each partition has one worker")

    # ------------------------------------------------------------------ checks

    def _finish(self, tail: Tail, rows: int, times: int) -> None:
        stage, settings = self.stage, self.stage.settings
        self._until(lambda: covers(self._trainer, rows), f"a version covers {rows} rows, but for open leaves")
        for daemon in (*self._workers, self._trainer):
            assert daemon.stop() == 0, daemon.said[-3_000:]
        removed = tail.end()
        checked = tail.checked()
        found = check_promise(stage.connection, settings)
        check_counts(found)
        check_letters(stage)
        check_adopted(found, checked)
        check_streaming(found, settings, times)
        assert tail.newest() == self._undisturbed(times), "an undisturbed worker leaves other bytes"
        if self.plan.compaction:
            assert removed > 0, "nothing was compacted: this shows nothing of compaction"
        self.counts["split_brains"] += self.plan.split
        self.counts["versions"] += len(found)
        self.counts["rows"] += rows
        self.counts["manifests"] += sum(one.manifests for one in checked)
        self.counts["records compacted away"] += removed

    def _undisturbed(self, times: int) -> dict[int, tuple[str, bytes]]:
        """Return the newest manifests of a worker that learns the same input in one go."""
        with tempfile.TemporaryDirectory() as directory:
            clean = adopting(self.stage.elsewhere(Path(directory), "clean"))
            trainer = start_trainer(clean)
            tail = Tail(clean.connection, coresets_topic(clean.settings))
            try:
                worker = start_worker(clean, ordinal=0, of=1)
                wait_until(lambda: self._learned(tail, times), "an undisturbed worker has learned everything")
                assert worker.stop() == 0, worker.said[-3_000:]
                assert trainer.stop() == 0, trainer.said[-3_000:]
                tail.end()
                return tail.newest()
            finally:
                tail.close()

    @staticmethod
    def _learned(tail: Tail, times: int) -> bool:
        end = f"m/{place(Position(times * ROWS_A_LIFE))}".encode()
        return all(any((one.key or b"").endswith(end) for one in seen) for seen in tail.records.values())


@dataclass
class Total:
    """What whole rounds came to, in a file from which the next command goes on.

    Attributes
    ----------
    counts : Counter
    seconds : dict
    seeds : list of int
        Of the rounds.
    """

    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, file: Path | None) -> Total:
        """Return what the file says; nothing yet where there is none."""
        if file is None or not file.exists():
            return cls()
        told = json.loads(file.read_text(encoding="utf-8"))
        return cls(Counter(told["counts"]), told["seconds"], told["seeds"])

    def save(self, file: Path | None) -> None:
        """Write the file in one step: a command that is interrupted leaves the one before."""
        if file is not None:
            fresh = file.with_name(f"{file.name}.new")
            fresh.write_text(json.dumps(vars(self), indent=1) + "\n", encoding="utf-8")
            fresh.replace(file)

    def add(self, played: Round) -> None:
        """Add a round that is over."""
        self.counts += played.counts
        self.counts["rounds"] += 1
        self.seeds.append(played.seed)
        for kind, seconds in played.seconds.items():
            self.seconds.setdefault(kind, []).extend(seconds)

    def next(self, wanted: Mapping[str, int], per_round: int, *, compaction: bool) -> Plan | None:
        """Return the plan of the next round; None if there is as much as is wanted."""
        left = {kind: max(0, wanted[kind] - self.counts[kind]) for kind in KINDS}
        if not any(left.values()):
            return None
        rounds = max(1, -(-left["kills"] // per_round))
        share = {kind: -(-left[kind] // rounds) for kind in ("kills", "stops", "leaders")}
        return Plan(**share, split=left["split_brains"] > 0, compaction=compaction)

    def told(self) -> dict[str, Any]:
        """Return the figures for people."""
        return {
            **self.counts,
            "seconds until another worker had the partitions": sorted(self.seconds.get("takeover", [])),
        }


@contextmanager
def three_nodes() -> Iterator[tuple[Brokers, Connection]]:
    """Run three nodes."""
    nodes = Brokers()
    try:
        nodes.start()
        yield nodes, Connection(options={"bootstrap.servers": nodes.bootstrap_servers})
    finally:
        nodes.stop()


def run(
    nodes: Brokers,
    connection: Connection,
    total: Total,
    *,
    wanted: Mapping[str, int],
    per_round: int = 10,
    compaction: bool = False,
    seed: int | None = None,
    until: float = float("inf"),
    state: Path | None = None,
) -> Total:
    """Play rounds until there are as many faults as are wanted, or until a moment; raises where one finds a fault."""
    while time.monotonic() < until and (plan := total.next(wanted, per_round, compaction=compaction)):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            settings = settings_for(f"workers-{uuid.uuid4().hex[:8]}", Path(directory) / "checkpoint")
            own = random.SystemRandom().randrange(1 << 32) if seed is None else seed + len(total.seeds)
            played = Round(adopting(Stage(connection, settings)), nodes, plan, own)
            print(f"round {total.counts['rounds'] + 1}, seed {own}: {plan}", flush=True)
            played.play()
        total.add(played)
        total.save(state)
        counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(played.counts.items()))
        load = " ".join(f"{one:.1f}" for one in os.getloadavg())
        print(f"  {counts}; {time.monotonic() - begun:.0f} s; load {load}", flush=True)
    return total


def main(given: Sequence[str] | None = None) -> None:
    """Run, and say what it came to."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.workers", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="of workers and their trainer (%(default)s)")
    parser.add_argument("--stops", type=int, default=50, help="workers frozen until theirs was taken (%(default)s)")
    parser.add_argument("--leaders", type=int, default=20, help="nodes killed (%(default)s)")
    parser.add_argument("--split-brain", action="store_true", help="in one round both workers own everything")
    parser.add_argument("--compaction", action="store_true", help="the coresets topic is compacted within seconds")
    parser.add_argument("--round", type=int, default=10, metavar="KILLS", help="kills of a round (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the first round; by default each has a random one")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no round after that")
    parser.add_argument("--state", type=Path, metavar="FILE", help="what whole rounds came to; goes on from there")
    options = parser.parse_args(given)
    until = time.monotonic() + 60.0 * options.minutes
    wanted = {kind: getattr(options, kind, 0) for kind in KINDS} | {"split_brains": int(options.split_brain)}
    with three_nodes() as (nodes, connection):
        total = run(
            nodes,
            connection,
            Total.load(options.state),
            wanted=wanted,
            per_round=options.round,
            compaction=options.compaction,
            seed=options.seed,
            until=until,
            state=options.state,
        )
    print(json.dumps(total.told(), indent=2))


if __name__ == "__main__":
    main()
