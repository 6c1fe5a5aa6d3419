"""A trainer as the real process it is, to be killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from streamsvm.config import Settings
from streamsvm.kafka import Connection

DEADLINE_S = 60.0


def arguments(settings: Settings, connection: Connection) -> list[str]:
    """Return the command line that gives a trainer these settings."""
    points, coreset, training = settings.points, settings.coreset, settings.training
    assert points is not None
    options: dict[str, Any] = {
        "name": settings.name,
        "bootstrap-servers": connection.options["bootstrap.servers"],
        "input-topic": settings.input.topic,
        "input-batch-records": settings.input.batch_records,
        "points-dimension": points.dimension,
        "coreset-leaf-rows": coreset.leaf_rows,
        "coreset-bucket-points": coreset.bucket_points,
        "coreset-max-partitions": coreset.max_partitions,
        "svm-c": settings.svm.C,
        "output-models-topic": settings.output.models_topic,
        "training-policy": training.policy,
        "training-every-leaves": training.every_leaves,
        "checkpoint-directory": settings.checkpoint.directory,
        "checkpoint-interval-s": settings.checkpoint.interval_s,
        "http-port": 0,
        "log-format": "json",
    }
    return ["train", *(part for name, value in options.items() for part in (f"--{name}", str(value)))]


class Daemon:
    """One life of the process; its log lines can be waited for."""

    def __init__(self, command: list[str]) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSVM_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "consumers", *command],
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent.parent,
            env=environment,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, event: str, times: int = 1) -> dict[str, Any]:
        """Wait for the n-th log line of an event from now on, and return it."""
        while True:
            line = self._lines.get(timeout=DEADLINE_S)
            assert line is not None, "the process ended:\n" + "".join(self.log[-20:])
            self.log.append(line)
            if not line.startswith("{"):
                continue
            entry: dict[str, Any] = json.loads(line)
            if entry["event"] == event:
                times -= 1
                if not times:
                    return entry

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and return the exit status."""
        return self._end(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it ends by itself, and return the exit status."""
        status = self._process.wait(DEADLINE_S)
        self._drain()
        return status

    def _end(self, number: int) -> int:
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self.wait()

    def _drain(self) -> None:
        self._reader.join(DEADLINE_S)
        while (line := self._lines.get()) is not None:
            self.log.append(line)
        self._lines.put(None)
        assert self._process.stderr is not None
        self._process.stderr.close()
