"""Reports to systemd how the daemon is: started, alive, stopping, and in words what it waits for.

The protocol is that of sd_notify(3): datagrams of `KEY=value` lines to the socket that `NOTIFY_SOCKET` names. Without
that variable nothing is sent. `WATCHDOG=1` is sent only while `/healthz` would say 200, so a main loop that hangs is
ended, and started again, by `WatchdogSec`.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Self

from consumers.host.runtime import Health

PERIOD_S: Final = 1.0
"""Seconds between two looks at the daemon's health; `WatchdogSec` must be a few times that."""


class Supervision:
    """Sends notices while it is open; a daemon that no supervisor started sends none.

    Parameters
    ----------
    health : Health
    stop : threading.Event
        Set when the daemon was told to stop.
    environment : mapping of str to str
        Where `NOTIFY_SOCKET` may stand.
    """

    def __init__(self, health: Health, stop: threading.Event, environment: Mapping[str, str] = os.environ) -> None:
        self._health, self._stop = health, stop
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervision", daemon=True)

    def __enter__(self) -> Self:
        if self._address:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        if self._address:
            self._thread.join()
            self._send("STOPPING=1", "STATUS=stopping")

    def _watch(self) -> None:
        started = False
        said = ""
        while not self._closed.wait(PERIOD_S):
            lines = []
            if self._health.started and not started:
                started = True
                lines.append("READY=1")
            healthy, _ = self._health.healthy()
            if healthy:
                lines.append("WATCHDOG=1")
            status = self._status()
            if status != said:
                said = status
                lines.append(f"STATUS={status}")
            if lines:
                self._send(*lines)

    def _status(self) -> str:
        """Return the state of the process, in one line."""
        if self._stop.is_set():
            return "stopping"
        ready, answer = self._health.ready()
        if ready:
            return "working"
        waiting = "; ".join(f"{part}: {why}" for part, why in answer["waiting_for"].items())
        return f"waiting for {waiting}".replace("\n", " ")

    def _send(self, *lines: str) -> None:
        """Send one notice; a supervisor that is gone or does not listen hears nothing, and the daemon goes on."""
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notices:
            notices.settimeout(PERIOD_S)
            notices.sendto("\n".join(lines).encode(), self._address)


def _address(name: str) -> str:
    """Return the socket's address: an absolute path, or an abstract name, which is written with @."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else ""
