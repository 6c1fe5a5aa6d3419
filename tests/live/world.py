"""Everything of one run: brokers, topics, trainers, scorers, operators and readers, and what they have come to."""

from __future__ import annotations

import random
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from tests.brokers.jvm import CannotRun
from tests.constants import flags
from tests.forked import PROGRAM
from tests.interop.programs import install_node_reader, node_packages
from tests.live.cluster import DEFAULTS, Brokers
from tests.live.history import Recorder
from tests.live.operators import Operator
from tests.live.process import scorer, words
from tests.live.readers import Follower, Place, TailReader, Watcher, read_to_end, tell_positions
from tests.live.supervised import Supervised, Unit
from tests.live.workload import DIMENSION, EARLY_MS, HORIZON_MS, JUMPS_MS, WRONG, Feeder, Source
from tests.promise.answers import SOURCE, Point, source_of_headers

MODELS: Final = "models"
GROUP: Final = "scorers"
POINTS: Final = "points"
SCORES: Final = "scores"
LETTERS: Final = "points.dlq"
POINT_PARTITIONS: Final = 4
LEAF_ROWS: Final = 10
INPUT_PARTITIONS: Final = {"a": 1, "b": 2, "c": 1, "d": 1, "e": 2}
"""The models of a run, and of how many partitions each learns: `a` has two trainers, labels of `d` come later, workers
learn `e`."""
LABELS: Final = {"d": "labels-d"}
"""Of each model whose labels come later, their topic."""
CORESETS: Final = {"e": "e.coresets"}
"""Of each model that workers learn, where they leave it."""
WORKERS: Final = 2
MADE_AGAIN: Final = ("c", "d")
"""Models whose topics are deleted and made again."""
ANY_TIME: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str((1 << 63) - 1)}
"""Takes records with whatever timestamp, as brokers before Kafka 3.6 did, and keeps them."""
RIVAL_AFTER: Final = 5
RIVAL_PAUSE_S: Final = 12.0
"""Two that compete take the id from each other: each is started again only after a good while."""
LOOK_S: Final = 0.25
FIRST_VERSION_S: Final = 300.0
OPERATOR_PAUSE_S: Final = 10.0
MOST_SETTLING_S: Final = 600.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run is to be.

    `transactions`: How many there must be, once things go wrong, before everything is made well and looked at.
    `faults`: How many of them there must be by then. `defaults`: Kafka's own settings. `rate`: Rows a second into each
    model's topic; twice as many points to be scored. `bound_s`: Patience: seconds for which something may stand still
    while nothing is wrong. `most_s`: Seconds of that, after which the run ends, however many transactions there were.
    `defect`: What is planted in the daemons, if anything; see `defects`. `planted_in`: ``train``, ``score``, ``scale``
    or ``read``. `node`: Whether a reader in Node.js takes part. `models`: Which of the models there are.
    """

    nemeses: tuple[str, ...]
    transactions: int
    seed: int
    faults: int = 3
    brokers: int = 1
    defaults: bool = False
    rate: float = 20.0
    bound_s: float = 90.0
    most_s: float = 3_600.0
    defect: str = ""
    planted_in: str = ""
    node: bool = True
    models: tuple[str, ...] = tuple(INPUT_PARTITIONS)
    scorers: int = 2
    operators: int = 2

    @property
    def inputs(self) -> dict[str, int]:
        """Return the models and of how many partitions each learns."""
        return {model: INPUT_PARTITIONS[model] for model in self.models}


@dataclass
class Seen:
    """What a reader of committed records has seen so far; the run steers by it, the checker does not know it."""

    newest: dict[str, int] = field(default_factory=dict)
    cuts: dict[tuple[str, int], int] = field(default_factory=dict)
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    answered: set[Point] = field(default_factory=set)
    versions: int = 0

    def take(self, told: dict[str, Any]) -> None:
        """Take a record in."""
        if told["topic"] == MODELS and told["value"] is not None:
            self.versions += 1
            name, number = told["value"]["name"], told["value"]["version"]
            self.newest[name] = max(number, self.newest.get(name, 0))
            lineage = told["value"]["lineage"]
            self.ids[name] = lineage["topic_id"], *([lineage["labels"]["topic_id"]] if lineage["labels"] else [])
            for part in lineage["cut"]:
                self.cuts[name, part["partition"]] = part["offset"]
        elif told["topic"] in (SCORES, LETTERS):
            id_ = told["value"]["id"] if SOURCE in told["headers"] else None
            self.answered.add((source_of_headers(told["headers"]), id_))


class World:
    """A run's brokers and clients.

    `directory`: For checkpoints and logs.
    """

    def __init__(self, plan: Plan, recorder: Recorder, directory: Path) -> None:
        self.plan, self.recorder, self.directory = plan, recorder, directory
        self.brokers = Brokers(plan.brokers, DEFAULTS if plan.defaults else {})
        self.counts: Counter[str] = Counter()
        self.seen = Seen()
        self.trainers: list[Supervised] = []
        self.scorers: list[Supervised] = []
        self.workers: list[Supervised] = []
        self.guests: list[Supervised] = []
        self.operators: list[Operator] = []
        self._readers: list[TailReader | Follower | Watcher] = []
        self._chance = random.Random(plan.seed)
        self._ids: dict[str, str] = {}
        self._made_again = False
        self.skipped: list[str] = []
        self._logs = directory / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)

    # ------------------------------------------------------------------ begin

    def begin(self) -> None:
        """Start everything."""
        self.brokers.start()
        self._create_topics()
        self._tell_facts()
        self.feeder = Feeder(
            self.brokers.direct, self._sources(), self.behind, self.recorder, random.Random(self.plan.seed)
        )
        self._start_readers()
        self.feeder.start()
        self._make_daemons()
        first = [self.trainers[0], *(self.workers if self.plan.models[0] in CORESETS else [])]
        for daemon in first:
            daemon.start()
        self._wait_for_the_first()
        for daemon in self.daemons:
            if daemon not in first:
                daemon.start()
        self._start_operators()
        threading.Thread(target=self._start_rival, daemon=True).start()

    def _create_topics(self) -> None:
        for_ever, zstd = {"retention.ms": "-1", "retention.bytes": "-1"}, {"compression.type": "zstd"}
        self.brokers.create(MODELS, config={"cleanup.policy": "compact", **for_ever, **zstd})
        self.brokers.create(f"{MODELS}.aliases", config={"cleanup.policy": "compact", **zstd})
        self.brokers.create(f"{MODELS}.audit", config={"cleanup.policy": "delete", **for_ever})
        for model, partitions in self.plan.inputs.items():
            for topic in _topics(model):
                self._make(topic, partitions)
                self.brokers.create(f"{topic}.dlq")
            if model in CORESETS:
                self.brokers.create(CORESETS[model], partitions, {"cleanup.policy": "compact"})
        self._make(POINTS, POINT_PARTITIONS)
        self.brokers.create(SCORES, POINT_PARTITIONS)
        self.brokers.create(LETTERS)

    def _make(self, topic: str, partitions: int) -> None:
        """Make a topic that is fed, and tell the history."""
        self.brokers.create(topic, partitions, ANY_TIME)
        self._ids[topic] = self.brokers.topic_id(topic, self._ids.get(topic, ""))
        self.recorder.tell("feeder", "ok", "topic", topic=topic, topic_id=self._ids[topic])

    def _sources(self) -> dict[str, Source]:
        rate = self.plan.rate
        sources = {
            _input(model): Source(
                partitions=count, rate=rate, labeled=model not in LABELS, labels=LABELS.get(model, "")
            )
            for model, count in self.plan.inputs.items()
        }
        points = Source(partitions=POINT_PARTITIONS, rate=2.0 * rate if self.plan.scorers else 0.0)
        return {**sources, POINTS: points}

    def _tell_facts(self) -> None:
        site = {
            "models": MODELS,
            "aliases": f"{MODELS}.aliases",
            "audit": f"{MODELS}.audit",
            "inputs": {model: _input(model) for model in self.plan.inputs},
            "rows_per_version": LEAF_ROWS * (max(INPUT_PARTITIONS.values()) + 1),
            "coresets": {model: topic for model, topic in CORESETS.items() if model in self.plan.models},
            "joins": {
                model: {
                    "labels": labels,
                    "letters": [f"{topic}.dlq" for topic in _topics(model)],
                    "horizon_ms": HORIZON_MS,
                    "early_ms": EARLY_MS,
                    "absent": "dead_letter",
                }
                for model, labels in LABELS.items()
                if model in self.plan.models
            },
        }
        scoring = {"group": GROUP, "points": POINTS, "scores": SCORES, "letters": LETTERS, "model": "a"}
        plan = self.plan
        self.recorder.tell(
            "run",
            "info",
            "run",
            seed=plan.seed,
            brokers=plan.brokers,
            settings="defaults" if plan.defaults else "frequent",
            nemeses=plan.nemeses,
            bound_s=plan.bound_s,
            defect=plan.defect,
            sites=[site],
            scorings=[scoring],
        )

    def _make_daemons(self) -> None:
        self.trainers = [self._trainer(f"trainer-{model}", model) for model in self.plan.inputs]
        learned = [model for model in self.plan.inputs if model in CORESETS]
        self.workers = [self._worker(model, n) for model in learned for n in range(1, WORKERS + 1)]
        self.scorers = [self._scorer(f"scorer-{number}") for number in range(1, self.plan.scorers + 1)]

    def _wait_for_the_first(self) -> None:
        """Let one trainer publish before the others start: on a machine that is new to it, it compiles for minutes."""
        pause, waited_s = threading.Event(), 0.0
        while not self.seen.newest and waited_s < FIRST_VERSION_S:
            pause.wait(LOOK_S)
            waited_s += LOOK_S

    def _unit(self, part: str, name: str, command: Sequence[str], **more: Any) -> Supervised:
        planted = self.plan.defect and self.plan.planted_in == part
        fixed = flags({"WATCH_INTERVAL_S": 5.0, "SCORED_AT_ONCE": 5, "LABEL_EARLY_S": EARLY_MS / 1_000})
        module, given = ("tests.defects.process", [self.plan.defect]) if planted else (PROGRAM, [])
        unit = Unit(name=name, command=[*given, *fixed, part, *command], module=module, **more)
        return Supervised(unit, self.recorder, self._logs, random.Random(self._chance.random()), self._may_go_on)

    def _learned(self, model: str) -> dict[str, Any]:
        """Return the options of all who learn a model."""
        return {
            "name": model,
            "bootstrap-servers": self.brokers.through,
            "input-topic": _input(model),
            "output-models-topic": MODELS,
            "points-dimension": DIMENSION,
            "coreset-points": 11 * LEAF_ROWS // 2,
            "coreset-structure": "tree",
            "training-every-leaves": 1,
            "http-port": 0,
        }

    def _trainer(self, name: str, model: str, pause_s: float = 1.0) -> Supervised:
        options = {
            **self._learned(model),
            "checkpoint-directory": self.directory / name,
            "checkpoint-interval-s": 2,
            "training-policy": "every",
        }
        if model in CORESETS:
            options |= {"training-policy": "latest", "training-from-coresets": "true"}
        if model in LABELS:
            options |= {
                "labels-topic": LABELS[model],
                "labels-horizon": HORIZON_MS / 1_000,
                "labels-absent": "dead_letter",
            }
        topics = (MODELS, f"{MODELS}.aliases", f"{MODELS}.audit")
        return self._unit("train", name, words(options), writes=topics, pause_s=pause_s)

    def _worker(self, model: str, number: int) -> Supervised:
        options = {
            **self._learned(model),
            "training-from-coresets": "true",
            "training-policy": "latest",
        }
        command = ["worker", *words(options)]
        return self._unit("scale", f"worker-{model}-{number}", command, writes=(CORESETS[model],))

    def _scorer(self, name: str) -> Supervised:
        command = scorer(self.brokers.through, "a", MODELS, POINTS, SCORES, scoring_group=GROUP)
        session = ["--kafka", "session.timeout.ms=3000", "--kafka", "heartbeat.interval.ms=500"]
        return self._unit("score", name, [*command[1:], *session], writes=(SCORES, LETTERS), group=GROUP)

    def _start_rival(self) -> None:
        """Give model `a` a second trainer, on a copy of the first one's directory, once there is one to copy."""
        pause = threading.Event()
        while self.seen.newest.get("a", 0) < RIVAL_AFTER:
            if pause.wait(1.0):
                return
        with suppress(shutil.Error, OSError):
            shutil.copytree(self.directory / "trainer-a", self.directory / "trainer-a-rival")
        rival = self._trainer("trainer-a-rival", "a", pause_s=RIVAL_PAUSE_S)
        self.trainers[0].unit = replace(self.trainers[0].unit, pause_s=RIVAL_PAUSE_S)
        self.trainers.append(rival)
        rival.start()

    def _start_operators(self) -> None:
        for number in range(1, self.plan.operators + 1):
            chance = random.Random(self._chance.random())
            name = f"operator-{number}"
            newest: Callable[[], dict[str, int]] = lambda: dict(self.seen.newest)  # noqa: E731
            self.operators.append(
                Operator(name, self.brokers.through, MODELS, newest, self.recorder, chance, pause_s=OPERATOR_PAUSE_S)
            )

    def _start_readers(self) -> None:
        direct = self.brokers.direct
        self._readers.append(TailReader("tail", direct, self.outputs, self.recorder, self.seen.take))
        self._readers.append(Watcher(direct, self.outputs, self.recorder))
        follow = [
            "tests.defects.process" if self.plan.planted_in == "read" else "tests.live.subscriber",
            *([self.plan.defect, "read"] if self.plan.planted_in == "read" else []),
        ]
        given = [self.brokers.through, MODELS, "a"]
        self._readers.append(Follower("subscriber", [sys.executable, "-m", *follow, *given], self.recorder))
        if self.plan.node:
            self._start_node()

    def _start_node(self) -> None:
        try:
            (self.directory / "node_modules").symlink_to(node_packages(), target_is_directory=True)
        except CannotRun as missing:
            self.skipped.append(f"no reader in Node.js: {missing}")
            return
        install_node_reader(self.directory)
        shutil.copy(Path(__file__).with_name("reader.mjs"), self.directory)
        topics = [MODELS, f"{MODELS}.aliases", f"{MODELS}.audit", SCORES]
        command = ["node", str(self.directory / "reader.mjs"), self.brokers.direct, *topics]
        self._readers.append(Follower("node", command, self.recorder))

    # ------------------------------------------------------------ what it is

    @property
    def daemons(self) -> list[Supervised]:
        """All trainers, workers and scorers."""
        return [*self.trainers, *self.workers, *self.scorers]

    @property
    def outputs(self) -> list[Place]:
        """Every partition that is written by those under test."""
        single = [MODELS, f"{MODELS}.aliases", f"{MODELS}.audit", LETTERS]
        several = {SCORES: POINT_PARTITIONS}
        several |= {CORESETS[model]: count for model, count in self.plan.inputs.items() if model in CORESETS}
        return [*((topic, 0) for topic in single), *((topic, p) for topic, n in several.items() for p in range(n))]

    @property
    def batches(self) -> int:
        """How many batches scorers say to have committed."""
        return sum(daemon.batches for daemon in [*self.scorers, *self.guests])

    @property
    def moves(self) -> int:
        """How many moves operators were told to be done."""
        return sum(operator.done for operator in self.operators)

    @property
    def transactions(self) -> int:
        """How many transactions are known to be committed."""
        return self.seen.versions + self.batches + self.moves

    def writer(self, daemon: Supervised) -> bytes:
        """Return what the transactional ids of a daemon begin with."""
        if daemon.unit.group:
            return GROUP.encode()
        model = daemon.unit.name.split("-")[1]
        return f"streamsvm/{model}/{MODELS}".encode()

    # ------------------------------------------------------------ what is done

    def guest(self) -> Supervised:
        """Start one more scorer."""
        daemon = self._scorer(f"scorer-guest-{len(self.guests) + 1}")
        self.guests.append(daemon)
        daemon.start()
        return daemon

    def inputs(self) -> list[str]:
        """Return the topics that models are made of."""
        return [topic for model in self.plan.models for topic in _topics(model)]

    def recreatable(self) -> list[str]:
        """Return the topics of this run that may be made again: an input, one of labels, one that is scored."""
        found = [topic for topic in self.inputs() if _model(topic) in MADE_AGAIN]
        return [*found, *([POINTS] if self.plan.scorers else [])] or self.inputs()

    def readers_of(self, topic: str) -> list[Supervised]:
        """Return the daemons that read one of these topics."""
        if topic == POINTS:
            return self.scorers
        return [trainer for trainer in self.trainers if trainer.unit.name.split("-")[1] == _model(topic)]

    def recreate(self, topic: str) -> None:
        """Delete a topic, make it again under its name, and fill it at once."""
        partitions = POINT_PARTITIONS if topic == POINTS else INPUT_PARTITIONS[_model(topic)]

        def again() -> None:
            self.recorder.tell("feeder", "info", "topic", topic=topic)
            self.brokers.delete(topic)
            self._make(topic, partitions)

        self._made_again = True
        self.feeder.renew(topic, again)

    def _may_go_on(self) -> bool:
        return self._made_again

    def mistake(self, clock: str, topic: str) -> None:
        """Give one of the producers of a topic a wrong clock."""
        self.feeder.clocks.wrong[topic] = WRONG[clock]

    def jump(self, chance: random.Random) -> None:
        """Let the clock of the producers' machine jump."""
        self.feeder.clocks.jumped_ms += chance.choice(JUMPS_MS)

    def mend_clocks(self) -> None:
        """Let every producer's clock be that of its machine."""
        self.feeder.clocks.wrong.clear()

    def heal(self) -> None:
        """Make everything well, and tell so."""
        self.mend_clocks()
        for daemon in self.daemons:
            daemon.thaw()
        self.brokers.revive()
        self.recorder.tell("nemesis", "info", "heal")

    def settle(self) -> bool:
        """Feed the last points, and wait until all are answered and all models follow, or the bound is over."""
        self.feeder.stop()
        self.feeder.close()
        self.feeder.flush()
        pause, still_s, waited_s, before = threading.Event(), 0.0, 0.0, -1
        while still_s < self.plan.bound_s + 10.0 and waited_s < MOST_SETTLING_S:
            waiting = self.waiting()
            if not waiting and not self._hidden():
                return True
            pause.wait(LOOK_S)
            waited_s += LOOK_S
            still_s = still_s + LOOK_S if sum(waiting.values()) == before else 0.0
            before = sum(waiting.values())
        return False

    def waiting(self) -> dict[str, int]:
        """Return how many records of each input wait for an answer or a version, where there are any."""
        slack = LEAF_ROWS * (max(INPUT_PARTITIONS.values()) + 1)
        least = {POINTS: 0, **{_input(model): slack for model in self.plan.inputs}}
        return {topic: waiting for topic, most in least.items() if (waiting := self.behind(topic)) > most}

    def behind(self, topic: str) -> int:
        """Return how many records of an input were not answered, or are not covered by a version."""
        ends = self.feeder.ends
        if topic == POINTS:
            fed, first = (
                sum(ends[POINTS, partition] for partition in range(POINT_PARTITIONS)),
                self.feeder.first[POINTS],
            )
            answered = sum(id_ is None or id_ >= first for _, id_ in tuple(self.seen.answered))  # it grows meanwhile
            return fed - answered if self.plan.scorers else 0
        model = _model(topic)
        cuts = self.seen.cuts if self.seen.ids.get(model) == tuple(self._ids[one] for one in _topics(model)) else {}
        return sum(ends[topic, p] - cuts.get((model, p), 0) for p in range(INPUT_PARTITIONS[model]))

    def _hidden(self) -> dict[Place, int]:
        watcher = next(reader for reader in self._readers if isinstance(reader, Watcher))
        with suppress(KafkaException):
            return watcher.look()
        return {("?", 0): 1}

    # -------------------------------------------------------------------- end

    def look_for_the_last_time(self, *, settled: bool) -> None:
        """Stop everybody, and read everything."""
        for daemon in [*self.daemons, *self.guests]:
            daemon.look()
        self.recorder.tell("run", "info", "end", settled=settled)
        for operator in self.operators:
            operator.stop()
        stopping = [threading.Thread(target=daemon.stop) for daemon in self.daemons]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        for reader in self._readers:
            reader.stop()
        direct = self.brokers.direct
        tell_positions(direct, GROUP, [(POINTS, partition) for partition in range(POINT_PARTITIONS)], self.recorder)
        refused = [(f"{topic}.dlq", 0) for model in self.plan.models if model in LABELS for topic in _topics(model)]
        for isolation in ("read_committed", "read_uncommitted"):
            read_to_end(f"final-{isolation}", direct, isolation, [*self.outputs, *refused], self.recorder)

    def end(self) -> None:
        """Leave nothing behind."""
        for daemon in [*self.daemons, *self.guests]:
            daemon.stop()
        self.brokers.stop()


def _input(model: str) -> str:
    return f"labeled-{model}"


def _model(topic: str) -> str:
    return topic.rpartition("-")[2]


def _topics(model: str) -> list[str]:
    """Return the topics that a model is made of: its input, and where labels come later that of these."""
    return [_input(model), *([LABELS[model]] if model in LABELS else [])]
