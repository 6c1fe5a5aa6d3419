"""The clients under test as processes: daemons, started again whenever they end, and what they say of themselves.

A daemon's supervisor does what systemd does with the unit of this project: it starts the process again after a pause,
unless it ended with a refusal (78). Where the run has made a topic again, a refusal is followed by one start with the
option that it names, `--reset` or `--scoring-on-gap beginning`: that is what an operator does.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.forked import PROGRAM
from tests.live.history import Recorder, Type
from tests.live.process import Daemon, page_at

LOOK_S: Final = 1.0
ANSWER_S: Final = 3.0
STOP_S: Final = 60.0
REFUSED: Final = 78
MOST_SAID: Final = 2_000
WAY_OUT: Final = re.compile(r"--(reset|scoring-on-gap) ([0-9A-Za-z._/-]*[0-9A-Za-z])")
"""What a refusal tells a person to add, once."""
POINTS: Final = re.compile(r"^streamsvm_scored_points_total (\S+)", re.MULTILINE)
BATCHES: Final = re.compile(r'^streamsvm_scored_batches_total\{outcome="committed"\} (\S+)', re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """What is supervised.

    `command`: What follows `streamsvm`. `module`: What Python runs, see `tests.live.process.Daemon`. `writes`: Topics
    for whose standstill it answers. `group`: Of a scorer; else empty. `pause_s`: Seconds before it is started again, up
    to twice as many.
    """

    name: str
    command: Sequence[str]
    writes: tuple[str, ...]
    group: str = ""
    pause_s: float = 1.0
    module: str = PROGRAM


class Supervised:
    """One unit, started again and again until it is stopped.

    `logs`: Directory for what it says. `may_go_on`: Tells whether a topic was made again, so that what a refusal tells
    a person to add is to be added.
    """

    def __init__(
        self, unit: Unit, recorder: Recorder, logs: Path, chance: random.Random, may_go_on: Callable[[], bool]
    ) -> None:
        self.unit = unit
        self.lives = 0
        self.batches = 0
        self.committed = 0
        """Versions and batches that it is known to have committed, in all of its lives."""
        self.learns = False
        """Whether the life of now has taken up partitions, as workers do."""
        self._recorder, self._logs, self._chance, self._may_go_on = recorder, logs, chance, may_go_on
        self._process: Daemon | None = None
        self._stopping = threading.Event()
        self._killed = False
        self._http = ""
        self._added: list[str] = []
        self._counted = 0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._supervise, self._look)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def kill(self) -> None:
        """SIGKILL the life of now; another one follows."""
        self._killed = True
        if self.runs:
            self._life.strike()

    def freeze(self) -> None:
        """SIGSTOP."""
        if self.runs:
            self._life.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        if self.runs:
            self._life.thaw()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not heard."""
        self._stopping.set()
        if not self.lives:
            return
        self.thaw()
        if self.runs:
            self._life.terminate()
        self._threads[0].join(STOP_S)
        if self._threads[0].is_alive():
            self.kill()
            self._threads[0].join(STOP_S)

    @property
    def runs(self) -> bool:
        """Whether a life is under way."""
        return self._process is not None and self._process.ended() is None

    @property
    def client(self) -> str:
        """The name of its life of now in the history."""
        return f"{self.unit.name}/{self.lives}"

    @property
    def _life(self) -> Daemon:
        assert self._process is not None
        return self._process

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            status = self._live()
            if status == REFUSED and not self._added:
                return
            self._stopping.wait(self.unit.pause_s * (1.0 + self._chance.random()))

    def _live(self) -> int:
        self.lives += 1
        self._killed, self._http, self._counted, self.learns = False, "", 0, False
        given, self._added = self._added, []
        self._recorder.tell(self.client, "invoke", "life", daemon=self.unit.name, added=given)
        self._process = Daemon([*self.unit.command, *given], module=self.unit.module)
        said = self._listen()
        status = self._life.wait()
        self._tell_end(status, said)
        return status

    def _listen(self) -> str:
        """Take in every line until the process ends; return its last words."""
        last = ""
        file = self._logs / f"{self.unit.name}-{self.lives}.log"
        with file.open("w", encoding="utf-8") as log:
            for line in self._life.lines():
                log.write(line)
                last = line.strip()
                if line.startswith("{"):
                    with contextlib.suppress(ValueError):
                        self._hear(json.loads(line))
        return last

    def _hear(self, event: dict[str, Any]) -> None:
        if event.get("event") == "configuration":
            self._http = str(event.get("http", ""))
        elif event.get("event") == "partition_restored":
            self.learns = True
        elif event.get("event") == "model_published":
            self.committed += 1
            model, _, number = str(event["version"]).rpartition("@")
            self._recorder.tell(self.client, "ok", "publish", model=model, number=int(number))

    def _tell_end(self, status: int, said: str) -> None:
        if status == REFUSED and self._may_go_on() and (found := WAY_OUT.search(said)):
            self._added = [f"--{found[1]}", found[2]]
        type_: Type = "info" if self._killed else "ok" if status == 0 else "fail"
        told = {"daemon": self.unit.name, "exit": status, "said": said[-MOST_SAID:]}
        self._recorder.tell(self.client, type_, "life", **told)

    # ---------------------------------------------------------------- its pages

    def _look(self) -> None:
        while not self._stopping.wait(LOOK_S):
            if self._http and self.runs:
                self.look()

    def look(self) -> None:
        """Ask the daemon how it is, and what it has done so far."""
        client, http = self.client, self._http
        healthy, ready = self._ask(f"{http}/healthz"), self._ask(f"{http}/readyz")
        if healthy is not None and ready is not None:
            told = {"daemon": self.unit.name, "writes": self.unit.writes, "waiting": ready[1][:200]}
            self._recorder.tell(client, "ok", "health", healthy=healthy[0] == 200, ready=ready[0] == 200, **told)
        if self.unit.group and (metrics := self._ask(f"{http}/metrics")) is not None and client == self.client:
            self._count(client, metrics[1])

    def _count(self, client: str, metrics: str) -> None:
        points, batches = (found[1] if (found := each.search(metrics)) else "0" for each in (POINTS, BATCHES))
        counted = int(float(batches))
        fresh = max(counted - self._counted, 0)
        self.batches += fresh
        self.committed += fresh
        self._counted = counted
        self._recorder.tell(
            client, "ok", "score", group=self.unit.group, points=int(float(points)), batches=int(float(batches))
        )

    @staticmethod
    def _ask(address: str) -> tuple[int, str] | None:
        with contextlib.suppress(OSError, ValueError):
            return page_at(address, ANSWER_S)
        return None
