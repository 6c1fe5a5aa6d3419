"""What an outage is played upon: a trainer, or a scorer, that writes transactions all the time.

A subject is watched from outside: by the offsets of the partitions it writes, by its exit status and by /healthz. The
one who plays the fault stands in for its supervisor: status 75 means "start me again".
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, TopicSpec
from tests.constants import flags
from tests.consumers.trainers import settings_for
from tests.defects.disturbances import TRANSACTION_TIMEOUT
from tests.forked import ROOT
from tests.live.offsets import Partition, committed, look
from tests.live.process import DEADLINE_S, Daemon, arguments, ask, metrics
from tests.registry.test_subscriber import NAME, eventually, version_of
from tests.registry.test_subscriber import Trainer as VersionWriter

DIMENSION = 3
ROWS_A_VERSION = 20
ROWS_AHEAD = 6_000
TRAINER_OPTIONS = {
    "coreset_points": 11 * ROWS_A_VERSION // 4,
    "coreset_structure": "tree",
    "checkpoint_interval_s": 2,
}
"""A version every twenty rows, so that a transaction is open at almost every moment."""

SCORED_PARTITIONS = 8
SCORED_AHEAD = 3_000
SCORED_BATCH = 10
BAD_EVERY = 50
SESSION = ("session.timeout.ms=1500", "heartbeat.interval.ms=300")
VERIFY_TIMEOUT_S = 300.0
START_TIMEOUT_S = 240.0
"""Of a process on a machine where many brokers and daemons start at once."""
LOOK_S = 0.1
FOUND = re.compile(rb"@(\d+)$")


class Subject(Protocol):
    """A daemon under outages.

    Attributes
    ----------
    timeout_s : float
        How long one of its transactions may be open.
    daemon : Daemon
        The life that runs now.
    """

    name: str
    connection: Connection
    timeout_s: float
    daemon: Daemon

    @property
    def partitions(self) -> list[Partition]: ...

    def begin(self) -> None:
        """Start a life."""

    def feed(self) -> None:
        """Give it enough to do for the seconds until the fault, and for some after it."""

    def end(self) -> None:
        """Kill what still runs."""

    def green(self) -> bool:
        """Tell whether /healthz is green."""

    def says(self) -> str:
        """Return what /readyz answers, shortened."""

    def finish(self) -> dict[str, Any]:
        """End it, and count what its readers have."""


class _Process:
    """One daemon after the other."""

    name = ""

    def __init__(self, connection: Connection, timeout_s: float, shortened: bool, planted: str = "") -> None:
        self.connection, self.timeout_s = connection, timeout_s
        self._environment: Mapping[str, str] = {}
        self._planted = planted
        if shortened:
            self._planted = "+".join(filter(None, (planted, "ends-transactions-early")))
            self._environment = {TRANSACTION_TIMEOUT: str(timeout_s)}
        self.daemon: Daemon

    def end(self) -> None:
        """Kill what still runs."""
        if hasattr(self, "daemon"):
            self.daemon.kill()

    def start(self, command: list[str]) -> None:
        """Start a life, and wait until it answers over HTTP."""
        if self._planted:
            self.daemon = Daemon([self._planted, *command], self._environment, "tests.defects.process")
        else:
            self.daemon = Daemon(command)
        until = time.monotonic() + START_TIMEOUT_S
        while not self.daemon.events("configuration"):
            assert self.daemon.ended() is None, f"the {self.name} ended with {self.daemon.wait()}: {self.daemon.said}"
            assert time.monotonic() < until, f"the {self.name} does not start: {self.daemon.said}"
            time.sleep(LOOK_S)
            self.daemon.catch_up()

    def green(self) -> bool:
        """Tell whether /healthz is green."""
        with suppress(OSError):
            return ask(self.daemon, "healthz")[0] == 200
        return False

    def says(self) -> str:
        """Return what /readyz answers, shortened."""
        with suppress(OSError):
            return ask(self.daemon, "readyz")[1].strip()[:300]
        return "no answer"


class TrainerSubject(_Process):
    """A trainer of one partition, a version every `ROWS_A_VERSION` rows."""

    name = "trainer"

    def __init__(self, connection: Connection, directory: Path, timeout_s: float, shortened: bool, **more: Any) -> None:
        super().__init__(connection, timeout_s, shortened, **more)
        self.settings = settings_for(f"outage-{uuid.uuid4().hex[:8]}", directory / "checkpoint")
        self._random = random.Random(17)
        self._fed = 0
        Cluster(connection).create([TopicSpec(self.settings.input.topic, 1)])

    @property
    def partitions(self) -> list[Partition]:
        output = self.settings.output
        return [(topic, 0) for topic in (output.models_topic, output.aliases_topic, output.audit_topic)]

    def begin(self) -> None:
        self.start(arguments(self.settings, self.connection, **TRAINER_OPTIONS))

    def feed(self) -> None:
        done = self._published() * ROWS_A_VERSION
        with closing(Outbox(self.connection)) as outbox:
            for _ in range(max(ROWS_AHEAD - (self._fed - done), 0)):
                x = [self._random.gauss(0.0, 1.0) for _ in range(DIMENSION)]
                outbox.send(Message(self.settings.input.topic, encode(x, 1 if x[0] > 0 else -1), partition=0))
                self._fed += 1
            outbox.flush(DEADLINE_S)

    def _published(self) -> int:
        with suppress(OSError, AssertionError):
            return int(metrics(self.daemon).get("streamsvm_model_version", 0.0))
        return 0

    def finish(self) -> dict[str, Any]:
        if self.daemon.ended() is None:
            try:
                stopped = self.daemon.stop()
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                stopped = -9
        else:
            stopped = self.daemon.wait()
        numbers = Counter(self._numbers())
        newest = max(numbers, default=0)
        return {
            "versions": len(numbers),
            "doubled": sum(1 for count in numbers.values() if count > 1),
            "missing": newest - len(numbers),
            "verify": self._verify(),
            "stopped": stopped,
        }

    def _numbers(self) -> list[int]:
        keys = [message.key() or b"" for message in committed(self.connection, self.partitions[:1])]
        return [int(found[1]) for key in keys if (found := FOUND.search(key))]

    def _verify(self) -> int:
        options = {
            "name": self.settings.name,
            "bootstrap-servers": self.connection.servers,
            "output-models-topic": self.settings.output.models_topic,
        }
        command = [part for name, value in options.items() for part in (f"--{name}", value)]
        done = subprocess.run(
            [sys.executable, "-m", "consumers", "verify", *command],
            cwd=ROOT,
            capture_output=True,
            check=False,
            timeout=VERIFY_TIMEOUT_S,
        )
        return done.returncode


class ScorerSubject(_Process):
    """A scorer of several partitions, in small batches; every fiftieth record is a bad one."""

    name = "scorer"

    def __init__(self, connection: Connection, directory: Path, timeout_s: float, shortened: bool, **more: Any) -> None:
        super().__init__(connection, timeout_s, shortened, **more)
        unique = uuid.uuid4().hex[:8]
        self._points, self._models, self._scores = (f"{kind}-{unique}" for kind in ("points", "models", "scores"))
        self._group = f"g-{unique}"
        self._sent = 0
        models = [TopicSpec(self._models), TopicSpec(f"{self._models}.aliases")]
        scored = [TopicSpec(topic, SCORED_PARTITIONS) for topic in (self._points, self._scores)]
        Cluster(connection).create([*models, *scored, TopicSpec(f"{self._points}.dlq")])
        with closing(VersionWriter(connection, self._models)) as writer:
            writer.publish(version_of(3))

    @property
    def partitions(self) -> list[Partition]:
        return [*((self._scores, number) for number in range(SCORED_PARTITIONS)), (f"{self._points}.dlq", 0)]

    def begin(self) -> None:
        options = {
            "name": NAME,
            "bootstrap-servers": self.connection.servers,
            "output-models-topic": self._models,
            "scoring-topic": self._points,
            "scoring-output-topic": self._scores,
            "scoring-group": self._group,
            "http-port": 0,
        }
        command = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        self.start(
            [
                *flags({"SCORED_AT_ONCE": SCORED_BATCH}),
                "score",
                *command,
                *(part for option in SESSION for part in ("--kafka", option)),
            ]
        )

    def feed(self) -> None:
        with closing(Outbox(self.connection)) as outbox:
            for number in range(self._sent, self._sent + SCORED_AHEAD):
                value = b"bad" if number % BAD_EVERY == 7 else encode([float(number), 1.0], id=number)
                outbox.send(Message(self._points, value, partition=number % SCORED_PARTITIONS))
            outbox.flush(DEADLINE_S)
        self._sent += SCORED_AHEAD

    def finish(self) -> dict[str, Any]:
        answers: Counter[str] = Counter()

        def more_or_all(before: int) -> bool:
            answers.clear()
            answers.update(_source(message.headers()) for message in committed(self.connection, self.partitions))
            return len(answers) > before or len(answers) >= self._sent or self.daemon.ended() is not None

        with suppress(AssertionError):  # as long as more are answered, however slow the machine
            while len(answers) < self._sent and self.daemon.ended() is None:
                eventually(partial(more_or_all, len(answers)), "more are answered", DEADLINE_S)
        offsets = look(self.connection, self.partitions)
        if self.daemon.ended() is None:
            self.daemon.stop()
        return {
            "scores_missing": self._sent - len(answers),
            "scores_doubled": sum(1 for count in answers.values() if count > 1),
            "scores": self._sent,
            "apart": -1 if offsets is None else len(offsets.apart),
        }


def _source(headers: Any) -> str:
    named = {name: content.decode() for name, content in headers}
    if "streamsvm.source" in named:
        return str(named["streamsvm.source"])
    return "/".join(named[f"__streams.errors.{part}"] for part in ("topic", "partition", "offset"))


SUBJECTS = {"trainer": (TrainerSubject,), "scorer": (ScorerSubject,), "both": (TrainerSubject, ScorerSubject)}
TIMEOUTS_S = {"trainer": 30.0, "scorer": 10.0}
"""What the daemons have, or less; three of them is how long nothing may move."""
