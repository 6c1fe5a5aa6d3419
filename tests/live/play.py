"""A scenario in play: topics of its own, a trainer as a process, what was done to both, and the history of it.

What the checker believes is told here as it happens: which records were fed into which topic, and under which id. What
processes said of themselves, and what the topics hold, is told at the end by `judge`.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.deadline import eventually
from tests.defects.disturbances import CLOCK_FILE, EIO_FILE
from tests.live.checker import check
from tests.live.cluster import Brokers
from tests.live.history import Recorder, load
from tests.live.process import DEADLINE_S, Daemon, ask, metrics
from tests.live.readers import read_to_end
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise

ROWS_A_LEAF: Final = 20
LEAVES_A_VERSION: Final = 2
ROWS_A_VERSION: Final = ROWS_A_LEAF * LEAVES_A_VERSION
REFUSED: Final = 78
BAD: Final = b'{"x": [1'
"""A record that is no point: it is a dead letter, and counts as a row."""
MOST_SAID: Final = 2_000
LOOK_S: Final = 0.05


@dataclass
class Play:
    """What the steps of a scenario act upon.

    `stage`: The trainer: its settings, and the connection of the processes. `direct`: How the tests reach the broker,
    whatever is wrong with the network. `directory`: For checkpoints. `recorder`: Of the history. `brokers`: Those that
    may be ill-treated; None where the broker is everybody's. `planted`: Names of what is changed in each process of the
    trainer, see `tests.defects`. `rows`: How many records each partition of the input was fed. `first`: The offset of
    the next record of each partition. `before`: How many versions were due of former topics of the input's name.
    `whole`: Whether every version can be recomputed: from what the input still holds, by this build. `readable`:
    Whether this build can read every version. `plain`: Whether each record is a row of two labels with its label, so
    that the checker knows what is learned. `counted`: Whether each offset between base and cut is one row. `leaf_rows`:
    Rows of a leaf; two leaves are a version.
    """

    stage: Stage
    direct: Connection
    directory: Path
    recorder: Recorder
    brokers: Brokers | None = None
    planted: tuple[str, ...] = ()
    rows: Counter[int] = field(default_factory=Counter)
    whole: bool = True
    readable: bool = True
    plain: bool = True
    counted: bool = True
    leaf_rows: int = ROWS_A_LEAF
    counts: Counter[str] = field(default_factory=Counter)
    killed: set[int] = field(default_factory=set)
    before: int = 0
    first: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        (self.directory / "clock").touch()

    # ------------------------------------------------------------ the topic

    @property
    def topic(self) -> str:
        """The input."""
        return self.stage.settings.input.topic

    def create(self, partitions: int = 1, **config: str) -> None:
        """Create the input topic, and tell its id."""
        topic_id = Stage(self.direct, self.stage.settings).create(partitions, **config)
        self.first.clear()
        self.before = self.due
        self.rows.clear()
        self.recorder.tell("feeder", "ok", "topic", topic=self.topic, topic_id=topic_id)

    def feed(self, values: Sequence[bytes | None], partition: int = 0) -> None:
        """Store records in the input, and tell which."""
        Stage(self.direct, self.stage.settings).feed(values, partition)
        first = self.first[partition]
        self.first[partition] += len(values)
        self.rows[partition] += len(values)
        place = {"topic": self.topic, "partition": partition, "first": first, "last": first + len(values) - 1}
        self.recorder.tell("feeder", "ok", "feed", **place, records=[_told(value) for value in values])

    @property
    def due(self) -> int:
        """The number of the newest version that is due, of all that was fed, into former topics of the name as well."""
        return self.before + sum(rows // self.leaf_rows for rows in self.rows.values()) // LEAVES_A_VERSION

    # ---------------------------------------------------------- the process

    @property
    def daemon(self) -> Daemon:
        """The life that was begun last."""
        return self.stage.started[-1]

    def begin(self, environment: Mapping[str, str] | None = None, **options: Any) -> Daemon:
        """Start a life of the trainer."""
        self.counts["processes"] += 1
        files = {EIO_FILE: str(self.directory / "eio"), CLOCK_FILE: str(self.directory / "clock")}
        return self.stage.start("+".join(self.planted), {**files, **(environment or {})}, **options)

    def kill(self) -> None:
        """SIGKILL the life of now."""
        self.killed.add(len(self.stage.started) - 1)
        self.daemon.kill()

    def version(self) -> int:
        """Return the number of the newest version that the process knows to be published."""
        try:
            return int(metrics(self.daemon).get("streamsvm_model_version", 0.0))
        except OSError:
            raise AssertionError(f"the process ended with {self.daemon.wait()}: {self.daemon.said[-3000:]}") from None

    def waits_for(self) -> Mapping[str, str]:
        """Return what the process waits for, by its own word; nothing where it is ready."""
        try:
            said: dict[str, Any] = json.loads(ask(self.daemon, "readyz")[1])
        except OSError:
            raise AssertionError(f"the process ended with {self.daemon.wait()}: {self.daemon.said[-3000:]}") from None
        return {"": ""} if not said["ready"] and not said["waiting_for"] else dict(said["waiting_for"])

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Look again and again until something has happened, or fail when the process ends or it takes too long."""

        def look() -> bool:
            status = self.daemon.ended()
            assert status is None, f"the process ended with {status} before {what}: {self.daemon.wait()}"
            return happened()

        eventually(look, what, 2 * DEADLINE_S, LOOK_S)

    # ---------------------------------------------------------------- the end

    def elsewhere(self, name: str) -> Play:
        """Return the play of another trainer of the same input, through the good network; nothing is planted in it."""
        stage = replace(self._at_hand.elsewhere(self.directory / name, name), started=[])
        return replace(self, stage=stage, planted=())

    def copy(self) -> Play:
        """Return the play of another trainer of the same topics, on a copy of the directory as it is now."""
        directory = self.directory / f"copy-{self.counts['copies']}"
        self.counts["copies"] += 1
        shutil.copytree(self.stage.settings.checkpoint.directory, directory)
        return replace(self, stage=self.stage.in_directory(directory))

    @property
    def _at_hand(self) -> Stage:
        return replace(self.stage, connection=self.direct)

    def models(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return keys and values of the models topic."""
        return self._at_hand.models()

    def judge(self, but: frozenset[str] = frozenset()) -> None:
        """Let the checker judge the history, and recompute every version; `but` names anomalies that are no fault here.

        Raises `AssertionError` if anything is wrong.
        """
        if self.readable:
            found = check_promise(self.direct, self.stage.settings, recomputable=self.whole)
            if self.whole and self.counted:
                check_counts(found)
            self.counts["versions"] += len(found)
        self.judge_history(but)

    def end_all(self) -> None:
        """End every process, and see that brokers and network are well, whatever was done to them."""
        self.stage.clear()
        if self.brokers is not None:
            self.brokers.revive()

    def judge_unfinished(self, but: frozenset[str] = frozenset()) -> None:
        """End all, and let the checker judge what there is; a topic that no trainer has made yet is an empty one."""
        self.end_all()
        output = self.stage.settings.output
        names = (output.models_topic, output.aliases_topic, output.audit_topic)
        Cluster(self.direct).create([TopicSpec(name) for name in names])
        self.judge_history(but)

    def judge_history(self, but: frozenset[str] = frozenset()) -> None:
        """Let the checker judge what was recorded, and what the topics hold."""
        if not self.plain:
            return
        self._tell_the_rest()
        anomalies = [one.line() for one in check(load(self.recorder.file)) if one.name not in but]
        assert not anomalies, "\n".join(anomalies)

    def _tell_the_rest(self) -> None:
        """Tell what the lives of the trainer said, and read all that it wrote."""
        output, name = self.stage.settings.output, self.stage.settings.name
        pointers = {"aliases": output.aliases_topic, "audit": output.audit_topic}
        site = {
            "models": output.models_topic,
            **pointers,
            "inputs": {name: self.topic},
            "rows_per_version": ROWS_A_VERSION,
        }
        self.recorder.tell("run", "info", "run", sites=[site])
        for number, life in enumerate(self.stage.started):
            self._tell_life(f"trainer/{number}", life, killed=number in self.killed)
        places = [(topic, 0) for topic in (output.models_topic, *pointers.values())]
        for isolation in ("read_committed", "read_uncommitted"):
            read_to_end(f"final-{isolation}", self.direct.servers, isolation, places, self.recorder)
        self.recorder.close()

    def _tell_life(self, client: str, life: Daemon, *, killed: bool) -> None:
        status = life.ended()
        if status is not None:
            life.wait()
            said = {"exit": status, "said": (life.log or [""])[-1][:MOST_SAID]}
            self.recorder.tell(client, "info" if killed or status < 0 else "fail" if status else "ok", "life", **said)
        for entry in life.events("model_published"):
            model, _, number_ = str(entry["version"]).rpartition("@")
            self.recorder.tell(client, "ok", "publish", model=model, number=int(number_))


def _told(value: bytes | None) -> tuple[int, None, int | None, float]:
    """Return what the history keeps of a record: no time, no id, and label and weight of a point."""
    try:
        point = json.loads(value or b"")
        return 0, None, point["y"], point.get("w", 1.0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0, None, None, 1.0
