"""People who move aliases: the shipped command line, each call with a reason that no other call has."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final

from tests.brokers.jvm import die_with_parent
from tests.forked import ROOT
from tests.live.history import Recorder, Type
from tests.live.process import words

COMMANDS: Final = ("pin", "unpin", "rollback", "alias", "remove", "retire")
PATIENCE_S: Final = 150.0
NOTHING_WRITTEN: Final = (2, 78)
"""Exit statuses that promise that nothing was written; any other says that nobody knows."""


class Operator:
    """One who moves something every so many seconds.

    `servers, models`: Where, and the topic of versions. `newest`: Returns the newest version of each model that has
    one.
    """

    def __init__(
        self,
        name: str,
        servers: str,
        models: str,
        newest: Callable[[], dict[str, int]],
        recorder: Recorder,
        chance: random.Random,
        pause_s: float,
    ) -> None:
        self._name, self._servers, self._models = name, servers, models
        self._newest, self._recorder, self._chance, self._pause_s = newest, recorder, chance, pause_s
        self.done = 0
        self._calls = 0
        self._process: subprocess.Popen[str] | None = None
        self._killed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s * (0.5 + self._chance.random())):
            newest = self._newest()
            if newest:
                model = self._chance.choice(sorted(newest))
                self._move(model, self._chance.choice(COMMANDS), newest[model])

    def _move(self, model: str, command: str, newest: int) -> None:
        self._calls += 1
        reason = f"{self._name}-{self._calls}"
        call = {"command": command, "model": model, "reason": reason}
        self._recorder.tell(self._name, "invoke", "move", **call)
        self._killed = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "consumers", "model", *self._words(command, newest), *self._options(model, reason)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            preexec_fn=die_with_parent,
        )
        said, status = self._wait(self._process)
        type_: Type = "ok" if status == 0 else "fail" if status in NOTHING_WRITTEN and not self._killed else "info"
        self.done += type_ == "ok"
        self._recorder.tell(self._name, type_, "move", **call, exit=status, said=said[-300:])

    @staticmethod
    def _wait(process: subprocess.Popen[str]) -> tuple[str, int | None]:
        try:
            said, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "", None
        return said.strip(), process.returncode

    def _words(self, command: str, newest: int) -> list[str]:
        number = str(self._chance.randint(max(1, newest - 20), newest))
        good = ["--alias", "good"]
        words = {
            "pin": ["pin", number],
            "unpin": ["pin", "--remove"],
            "alias": ["pin", number, *good],
            "remove": ["pin", "--remove", *good],
            "retire": ["retire", str(self._chance.randint(1, newest))],
        }
        return words.get(command, [command])

    def _options(self, model: str, reason: str) -> list[str]:
        told = {
            "name": model,
            "bootstrap-servers": self._servers,
            "output-models-topic": self._models,
            "reason": reason,
        }
        return words(told)

    def kill(self) -> None:
        """SIGKILL the call that is under way, if one is."""
        process = self._process
        if process is not None and process.poll() is None:
            self._killed = True
            process.kill()

    def stop(self) -> None:
        """Make no more calls; the one that is under way ends."""
        self._stopping.set()
        self._thread.join(PATIENCE_S + 5.0)
