"""A trainer as the real process it is: to be killed, frozen, copied and measured."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from consumers.settings import Settings
from streamsvm.kafka import Connection
from tests.constants import flags
from tests.deadline import Late
from tests.forked import PROGRAM, Forked
from tests.live.stopping import stop

DEADLINE_S = 120.0
"""A machine that CI shares gives a process a tenth of its time for a minute on end."""
SAMPLE_S = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def arguments(settings: Settings, connection: Connection, **more: Any) -> list[str]:
    """Return the command line that gives a trainer these settings.

    `more` are options, underscores for dashes, and constants by their names.
    """
    points, coreset, training = settings.points, settings.coreset, settings.training
    assert points is not None
    options: dict[str, Any] = {
        "name": settings.name,
        "bootstrap-servers": connection.options["bootstrap.servers"],
        "input-topic": settings.input.topic,
        "points-dimension": points.dimension if settings.recipe is None else None,
        "coreset-points": coreset.points,
        "coreset-structure": coreset.structure,
        "svm-c": settings.svm.C,
        "output-models-topic": settings.output.models_topic,
        "training-policy": training.policy,
        "training-every-leaves": training.every_leaves,
        "checkpoint-directory": settings.checkpoint.directory,
        "checkpoint-interval-s": settings.checkpoint.interval_s,
        "http-port": 0,
    }
    fixed = {"BATCH_RECORDS": 17} | {name: more.pop(name) for name in [*more] if name.isupper()}
    options |= {name.replace("_", "-"): value for name, value in more.items()}
    return [*flags(fixed), "train", *words({name: value for name, value in options.items() if value is not None})]


def words(options: Mapping[str, Any]) -> list[str]:
    """Return options as a command line has them."""
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]


def scorer(servers: str, name: str, models: str, points: str, scores: str, **more: Any) -> list[str]:
    """Return the command line of a scorer; `more` are options, underscores for dashes."""
    options = {
        "name": name,
        "bootstrap-servers": servers,
        "output-models-topic": models,
        "scoring-topic": points,
        "scoring-output-topic": scores,
        "http-port": 0,
    }
    return ["score", *words(options | {option.replace("_", "-"): value for option, value in more.items()})]


def started(
    command: Sequence[str], planted: str = "", environment: Mapping[str, str] | None = None, build: str = ""
) -> Daemon:
    """Start a process; `planted` names what of `tests.defects` is done to it, `build` a later release."""
    module = "tests.defects.process" if planted else "tests.live.later" if build else PROGRAM
    return Daemon([*filter(None, (planted or build,)), *command], environment, module)


class Daemon:
    """One life of the process; its log lines can be waited for.

    `command`: What follows `streamsvm`. `environment`: Variables on top of this process's own, which are passed on
    without those of streamsvm. `module`: What Python runs; a planted defect has a module of its own. See
    `tests.forked`.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None, module: str = PROGRAM) -> None:
        self._process = self._begin(command, environment or {}, module)
        self._printed = threading.Thread(target=self._pass_on, daemon=True)
        self._printed.start()
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _begin(self, command: list[str], environment: Mapping[str, str], module: str) -> Forked | subprocess.Popen[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
        return Forked(module, command, {**inherited, **environment})

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as told:  # closed at its end, whether or not anybody waits for the process
            for line in told:
                self._lines.put(line)
        self._lines.put(None)

    def _pass_on(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            for line in printed:
                print(line, end="")

    def _next_line(self) -> str | None:
        """Return the next line of its log, None at its end."""
        try:
            return self._lines.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise Late(f"it says nothing for {DEADLINE_S:.0f} s:\n" + "".join(self.log[-20:])) from None

    def lines(self) -> Iterator[str]:
        """Yield the lines of its log until it ends, however long it says nothing; nobody else may read them."""
        while (line := self._lines.get()) is not None:
            yield line
        self._lines.put(None)

    def wait_for(self, event: str, times: int = 1) -> dict[str, Any]:
        """Wait for the n-th log line of an event from now on, and return it."""
        while True:
            line = self._next_line()
            assert line is not None, "the process ended:\n" + "".join(self.log[-20:])
            self.log.append(line)
            if not line.startswith("{"):
                continue
            entry: dict[str, Any] = json.loads(line)
            if entry["event"] == event:
                times -= 1
                if not times:
                    return entry

    def reaches_version(self, number: int) -> bool:
        """Wait until it says, or has said, that such a version or a later one is there; False if the process ends."""
        newest = max(map(_version_in, self.log), default=0)
        while newest < number and (line := self._next_line()) is not None:
            self.log.append(line)
            newest = max(newest, _version_in(line))
        if newest < number:
            self._lines.put(None)
        return newest >= number

    def catch_up(self) -> None:
        """Take in what it has logged by now, without waiting for more."""
        with suppress(queue.Empty):
            while (line := self._lines.get_nowait()) is not None:
                self.log.append(line)
            self._lines.put(None)

    @property
    def said(self) -> str:
        """Everything it has logged and we have read."""
        return "".join(self.log)

    def events(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of an event among those read."""
        entries = [json.loads(line) for line in self.log if line.startswith("{")]
        return [entry for entry in entries if entry["event"] == event]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def rss_bytes(self) -> int:
        """Return its resident set now."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * PAGE_BYTES

    def freeze(self) -> None:
        """SIGSTOP: it keeps its locks and connections, and does nothing."""
        stop(self._process.pid)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def strike(self) -> None:
        """SIGKILL, without waiting."""
        self._process.kill()

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and return the exit status."""
        return self._end(signal.SIGTERM)

    def wait(self, timeout_s: float = DEADLINE_S) -> int:
        """Wait until it ends by itself, and return the exit status."""
        status = self._process.wait(timeout_s)
        self._drain()
        return status

    def ended(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def _end(self, number: int) -> int:
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self.wait()

    def _drain(self) -> None:
        self._reader.join(DEADLINE_S)
        while (line := self._lines.get()) is not None:
            self.log.append(line)
        self._lines.put(None)


def _version_in(line: str) -> int:
    """Return the number of the newest version that a line of a trainer's log tells of, by whomever; 0 if of none."""
    entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {"event": ""}
    if entry["event"] == "started":
        return int(entry.get("next_version", 1)) - 1
    return int(entry["version"].split("@")[1]) if entry["event"] == "model_published" else 0


def metrics(daemon: Daemon) -> dict[str, float]:
    """Return what the process says of itself."""
    address = daemon.events("configuration")[0]["http"]
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def read_all(daemon: Daemon) -> int:
    """Wait until the process has no lag, and return its largest resident set on the way."""
    peak, left, until = 0, -1.0, time.monotonic() + DEADLINE_S
    while left != 0:
        assert time.monotonic() < until, f"{left:.0f} records are not learned"
        if daemon.ended() is not None:
            daemon.wait()
            raise AssertionError(f"the process ended:\n{daemon.said}")
        with suppress(OSError):  # it may end between two questions
            peak = max(peak, daemon.rss_bytes())
            left = lag(metrics(daemon))
        time.sleep(SAMPLE_S)
    return peak


def lag(counted: dict[str, float]) -> float:
    """Return how many records of partition 0 are still to be learned, -1 as long as that is not known."""
    return counted.get('streamsvm_input_lag_records{partition="0"}', -1.0)


def ask(daemon: Daemon, page: str) -> tuple[int, str]:
    """Return status and text of one of the daemon's pages."""
    (configuration,) = daemon.events("configuration")
    return page_at(f"{configuration['http']}/{page}")


def page_at(address: str, timeout_s: float = 10.0) -> tuple[int, str]:
    """Return status and text of a page."""
    try:
        with urllib.request.urlopen(address, timeout=timeout_s) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
