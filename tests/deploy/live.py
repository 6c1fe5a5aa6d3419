"""A trainer, a scorer and a Prometheus at work on the HTRU2 survey: real processes, a real broker, no containers."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from streamsvm.datasets import load_htru2
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, TopicSpec
from tests.brokers.jvm import die_with_parent, free_ports
from tests.deploy.files import RULES
from tests.live.process import Daemon

PARTITIONS: Final = 3
DEADLINE_S: Final = 180.0
PAUSE_S: Final = 0.5
MALFORMED: Final = (b"not json", b'{"x": [1.0], "y": 1}')
"""A record that is no JSON, and one of a wrong dimension, for trainer and scorer alike."""
Series = list[dict[str, Any]]


class Live:
    """Everything at work while the context lasts; leaves nothing behind.

    Parameters
    ----------
    connection : Connection
        A broker.
    directory : Path
        Empty; for the checkpoint and Prometheus.
    prefix : str
        Of the topics' names.
    scrape_s : int
        Seconds between two scrapes.
    """

    def __init__(self, connection: Connection, directory: Path, prefix: str = "live", scrape_s: int = 1) -> None:
        self._connection = connection
        self._directory = directory
        self._scrape_s = scrape_s
        self._labeled, self._points = f"{prefix}-labeled", f"{prefix}-points"
        self._prefix = prefix
        X, y, _ = load_htru2()
        order = np.random.default_rng(7).permutation(len(y))
        self._X, self._y = X[order], np.where(y[order] > 0, 1, -1)
        self.sent = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        topics = [TopicSpec(self._labeled, PARTITIONS), TopicSpec(self._points, PARTITIONS)]
        Cluster(self._connection).create(topics)
        self._outbox = Outbox(self._connection)
        stack.callback(self._outbox.close)
        common = {
            "name": self._prefix,
            "bootstrap-servers": self._connection.options["bootstrap.servers"],
            "output-models-topic": f"{self._prefix}-models",
            "http-port": 0,
        }
        trained = {
            "input-topic": self._labeled,
            "points-dimension": self._X.shape[1],
            "coreset-points": 5_500,
            "svm-tune": "auto",
            "svm-probability": "sigmoid",
            "checkpoint-directory": self._directory / "checkpoint",
            "checkpoint-interval-s": 5,
        }
        scored = {"scoring-topic": self._points, "scoring-output-topic": f"{self._prefix}-scores"}
        self.trainer, self.trainer_url = self._daemon(stack, "train", common | trained)
        self.trainer.wait_for("started")
        self.scorer, self.scorer_url = self._daemon(stack, "score", common | scored)
        self._prometheus(stack)

    def _daemon(self, stack: ExitStack, command: str, options: dict[str, Any]) -> tuple[Daemon, str]:
        daemon = Daemon([command, *(part for name, value in options.items() for part in (f"--{name}", str(value)))])
        stack.callback(daemon.kill)
        address: str = daemon.wait_for("configuration")["http"]
        return daemon, address.rstrip("/")

    def _prometheus(self, stack: ExitStack) -> None:
        program = shutil.which("prometheus")
        assert program is not None
        jobs = {"streamsvm-trainer": self.trainer_url, "streamsvm-scorer": self.scorer_url}
        configuration = {
            "global": {"scrape_interval": f"{self._scrape_s}s", "evaluation_interval": "1s", "scrape_timeout": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": [urllib.parse.urlsplit(url).netloc]}]}
                for name, url in jobs.items()
            ],
        }
        file = self._directory / "prometheus.json"  # JSON is YAML
        file.write_text(json.dumps(configuration))
        (port,) = free_ports(1)
        options = [f"--config.file={file}", f"--storage.tsdb.path={self._directory / 'series'}", "--log.level=error"]
        process = subprocess.Popen(
            [program, *options, f"--web.listen-address=127.0.0.1:{port}"], preexec_fn=die_with_parent
        )
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        self._url = f"http://127.0.0.1:{port}"

    def feed(self, rows: int) -> None:
        """Send the next rows of the survey, over and over, labeled ones and a tenth as many to be scored."""
        for index in range(self.sent, self.sent + rows):
            x = self._X[index % len(self._X)]
            y = int(self._y[index % len(self._y)])
            self._outbox.send(Message(self._labeled, encode(x, y), partition=index % PARTITIONS))
            if index % 10 == 0:
                self._outbox.send(Message(self._points, encode(x), partition=index // 10 % PARTITIONS))
        self.sent += rows
        self._outbox.poll()

    def feed_malformed(self) -> None:
        """Send records that are no points."""
        for value in MALFORMED:
            for topic in (self._labeled, self._points):
                self._outbox.send(Message(topic, value, partition=0))

    def query(self, promql: str) -> Series:
        """Return Prometheus's answer without series that are not numbers."""
        series: Series = self._asked("query", query=promql)["result"]
        return [one for one in series if not math.isnan(float(one["value"][1]))]

    def rules(self) -> Series:
        """Return every rule with its health and its last error."""
        return [rule for group in self._asked("rules")["groups"] for rule in group["rules"]]

    def _asked(self, path: str, **parameters: object) -> dict[str, Any]:
        address = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            answered: dict[str, Any] = json.load(answer)["data"]
        return answered

    def scraped(self, url: str) -> str:
        """Return what a daemon shows a scraper."""
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def feed_until(self, what: str, happened: Callable[[], bool], rows: int = 1_000) -> None:
        """Go on feeding until something has happened; fail when it takes too long or a daemon ends."""
        pause, waited_s = threading.Event(), 0.0
        while True:
            self.feed(rows)
            try:
                if happened():
                    return
            except urllib.error.URLError:  # Prometheus does not answer yet
                pass
            for daemon in (self.trainer, self.scorer):
                assert daemon.ended() is None, daemon.said
            assert waited_s < DEADLINE_S, f"{what}: not within {DEADLINE_S:.0f} s"
            pause.wait(PAUSE_S)
            waited_s += PAUSE_S
