"""systemd is told when the daemon works, and not told so when it hangs.

Oracle: a datagram socket in systemd's part, and the protocol of sd_notify(3).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consumers.host import supervision
from consumers.host.exit_codes import EXIT_CONFIGURATION, EXIT_FATAL, EXIT_RETRYABLE, EXIT_UNFORESEEN
from consumers.host.runtime import Health
from consumers.host.supervision import Supervision
from tests.consumers.command import run
from tests.deploy.checkers import program
from tests.deploy.files import DEPLOY

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
USAGE = 2
"""Exit status of a command line that cannot be read, by the library that reads it."""


class Supervisor:
    """Listens in systemd's place."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.settimeout(20.0)

    def until(self, wanted: Callable[[str], bool]) -> list[str]:
        """Return the lines that came, up to the first that is wanted."""
        lines: list[str] = []
        while not any(wanted(line) for line in lines):
            lines += self._socket.recv(4096).decode().split("\n")
        return lines

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["file", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "file" else f"@streamsvm-test-{os.getpid()}"


@pytest.fixture
def supervisor(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setattr(supervision, "PERIOD_S", 0.01)
    listening = Supervisor(address)
    yield listening
    listening.close()


def test_daemon_is_ready_once_its_main_loop_turns(supervisor: Supervisor, address: str) -> None:
    """READY=1 comes with the first beat, not before, and once; the status says what is waited for."""
    health, stop = Health(stuck_after_s=60.0), threading.Event()
    health.require("broker", "no broker at b:9092")
    with Supervision(health, stop, {"NOTIFY_SOCKET": address}):
        before = supervisor.until(lambda line: line == "STATUS=waiting for broker: no broker at b:9092")
        before += supervisor.until(lambda line: line == "WATCHDOG=1")
        health.beat()
        supervisor.until(lambda line: line == "READY=1")
        health.require("broker", "")
        after = supervisor.until(lambda line: line == "STATUS=working")
        stop.set()
        after += supervisor.until(lambda line: line == "STATUS=stopping")
    after += supervisor.until(lambda line: line == "STOPPING=1")
    assert "READY=1" not in before
    assert "READY=1" not in after


def test_watchdog_hears_nothing_of_a_daemon_that_hangs(supervisor: Supervisor, address: str) -> None:
    """Once /healthz is red, WATCHDOG=1 stops, so that WatchdogSec ends the process."""
    now = [0.0]
    health = Health(stuck_after_s=60.0, clock=lambda: now[0])
    health.require("broker", "")
    health.beat()
    with Supervision(health, threading.Event(), {"NOTIFY_SOCKET": address}):
        supervisor.until(lambda line: line == "WATCHDOG=1")
        now[0] = 61.0
        supervisor.until(lambda line: "has not turned for 61 s" in line)
        now[0] = 62.0  # the status changes with every second of the loop's silence: a notice that can be awaited
        silent = supervisor.until(lambda line: "has not turned for 62 s" in line)
        assert "WATCHDOG=1" not in silent


@pytest.mark.parametrize("variables", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "relative"}])
def test_daemon_without_supervisor_runs_alone(variables: dict[str, str]) -> None:
    """Nobody listens: no thread, no notice, no error."""
    threads = threading.active_count()
    with Supervision(Health(stuck_after_s=60.0), threading.Event(), variables):
        assert threading.active_count() == threads


def test_supervisor_that_is_gone_does_not_disturb(tmp_path: Path) -> None:
    """A socket that does not exist is passed over."""
    with Supervision(Health(stuck_after_s=60.0), threading.Event(), {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        pass


def test_supervisor_that_does_not_listen_holds_up_nothing(supervisor: Supervisor, address: str) -> None:
    """Its queue is full of notices that it never read: the daemon still ends."""
    target = "\0" + address[1:] if address.startswith("@") else address
    full = False
    while not full:  # a sender's own memory is full before the queue is, so each notice has a sender of its own
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            try:
                sender.sendto(b"WATCHDOG=1", target)
            except BlockingIOError:
                full = True
    reporting = Supervision(Health(stuck_after_s=60.0), threading.Event(), {"NOTIFY_SOCKET": address})
    ended = threading.Thread(target=lambda: reporting.__enter__().__exit__(), daemon=True)
    ended.start()
    ended.join(20.0)
    assert not ended.is_alive()
    assert supervisor.until(lambda line: line == "WATCHDOG=1")


def test_command_tells_its_supervisor(tmp_path: Path) -> None:
    """A trainer that ends because no broker answers says so to systemd, too."""
    listening = Supervisor(str(tmp_path / "notify"))
    given = ["--name", "m", "--input-topic", "in", "--points-dimension", "2", "--http-port", "0"]
    place = ["--checkpoint-directory", str(tmp_path / "checkpoint"), "--bootstrap-servers", "127.0.0.1:9"]
    ended = run("train", *given, *place, NOTIFY_SOCKET=str(tmp_path / "notify"))
    assert ended.returncode == 75, ended.stderr
    assert "STOPPING=1" in listening.until(lambda line: line == "STOPPING=1")
    listening.close()


def runnable(unit: Path, folder: Path) -> Path:
    """Return a copy of a template as an instance, whose program exists on this machine."""
    copy = folder / unit.name.replace("@", "@pulsars")
    copy.write_text(unit.read_text().replace("/opt/streamsvm/bin/streamsvm", sys.executable))
    return copy


def analyzed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [program("systemd-analyze", "Debian: apt install systemd"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_is_valid(unit: Path, tmp_path: Path) -> None:
    """systemd's own checker takes the unit without a word."""
    checked = analyzed("verify", runnable(unit, tmp_path))
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_mistake_in_a_unit_is_found(unit: Path, tmp_path: Path) -> None:
    """A misspelt option is named."""
    copy = runnable(unit, tmp_path)
    copy.write_text(copy.read_text().replace("WatchdogSec=", "WatchDogSec="))
    assert "WatchDogSec" in analyzed("verify", copy).stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_is_hardened(unit: Path, tmp_path: Path) -> None:
    """systemd finds little that the daemon could reach if it were taken over: at most 2 of 10."""
    checked = analyzed("security", "--offline=true", "--threshold=20", runnable(unit, tmp_path))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_leaves_no_core_dump(unit: Path) -> None:
    """A dump would hold passwords and points."""
    assert "LimitCORE=0" in unit.read_text().splitlines()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_unit_restarts_what_another_start_can_help(unit: Path) -> None:
    """Statuses 75 and 1 are tried again; wrong usage, a fatal error and a refused state wait for a person."""
    lines = unit.read_text().splitlines()
    assert "Restart=on-failure" in lines
    (kept_down,) = [line.partition("=")[2].split() for line in lines if line.startswith("RestartPreventExitStatus=")]
    assert sorted(map(int, kept_down)) == [USAGE, EXIT_FATAL, EXIT_CONFIGURATION]
    assert not {str(EXIT_RETRYABLE), str(EXIT_UNFORESEEN)} & set(kept_down)
    assert "Type=notify" in lines
