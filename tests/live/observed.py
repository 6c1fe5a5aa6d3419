"""What a process says of itself over HTTP, and what the system says of it."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from contextlib import suppress

from tests.live.process import DEADLINE_S, Daemon

SAMPLE_S = 0.05


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
    try:
        with urllib.request.urlopen(f"{configuration['http']}/{page}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
