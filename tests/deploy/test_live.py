"""Every panel has an answer from a real Prometheus that watches a real run, and its checker likes what it scrapes.

A trainer, a scorer and a Prometheus are at work on the HTRU2 survey: real processes, a real broker, no containers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit

import numpy as np
import pytest

from consumers.metrics import PROCESS, SCORER, TRAINER
from consumers.settings import Settings
from streamsvm.datasets import load_htru2
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import die_with_parent, free_ports
from tests.deploy.files import RULES, queries
from tests.deploy.prometheus import Prometheus, page
from tests.live.process import Daemon

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not os.environ.get("GITHUB_ACTIONS")
        and (shutil.which("prometheus") is None or shutil.which("promtool") is None),
        reason="prometheus and promtool are not on PATH (Debian: apt install prometheus)",
    ),
]

PARTITIONS: Final = 3
DEADLINE_S: Final = 180.0
PAUSE_S: Final = 0.5
MALFORMED: Final = (b"not json", b'{"x": [1.0], "y": 1}')
"""A record that is no JSON, and one of a wrong dimension, for trainer and scorer alike."""


class Live:
    """Everything at work, until the stack of contexts is closed; it leaves nothing behind.

    `connection`: A broker. `directory`: Empty; for the checkpoint and Prometheus. `prefix`: Of the topics' names.
    `stack`: Ends what is started here.
    """

    def __init__(self, connection: Connection, directory: Path, prefix: str, stack: ExitStack) -> None:
        self._labeled, self._points = f"{prefix}-labeled", f"{prefix}-points"
        X, y, _ = load_htru2()
        order = np.random.default_rng(7).permutation(len(y))
        self._X, self._y = X[order], np.where(y[order] > 0, 1, -1)
        self.sent = 0
        Cluster(connection).create([TopicSpec(topic, PARTITIONS) for topic in (self._labeled, self._points)])
        self._outbox = stack.enter_context(closing(Outbox(connection)))
        common = {
            "name": prefix,
            "bootstrap-servers": connection.options["bootstrap.servers"],
            "output-models-topic": f"{prefix}-models",
            "http-port": 0,
        }
        trained = {
            "input-topic": self._labeled,
            "points-dimension": self._X.shape[1],
            "coreset-points": 5_500,
            "svm-tune": "auto",
            "svm-probability": "sigmoid",
            "checkpoint-directory": directory / "checkpoint",
            "checkpoint-interval-s": 5,
        }
        scored = {"scoring-topic": self._points, "scoring-output-topic": f"{prefix}-scores"}
        self.trainer, self.trainer_url = self._daemon(stack, "train", common | trained)
        self.trainer.wait_for("started")
        self.scorer, self.scorer_url = self._daemon(stack, "score", common | scored)
        self._watch(stack, directory)

    def _daemon(self, stack: ExitStack, command: str, options: dict[str, Any]) -> tuple[Daemon, str]:
        daemon = Daemon([command, *(part for name, value in options.items() for part in (f"--{name}", str(value)))])
        stack.callback(daemon.kill)
        address: str = daemon.wait_for("configuration")["http"]
        return daemon, address.rstrip("/")

    def _watch(self, stack: ExitStack, directory: Path) -> None:
        program = shutil.which("prometheus")
        assert program is not None
        jobs = {"streamsvm-trainer": self.trainer_url, "streamsvm-scorer": self.scorer_url}
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": [urlsplit(url).netloc]}]}
                for name, url in jobs.items()
            ],
        }
        file = directory / "prometheus.json"  # JSON is YAML
        file.write_text(json.dumps(configuration))
        (port,) = free_ports(1)
        options = [f"--config.file={file}", f"--storage.tsdb.path={directory / 'series'}", "--log.level=error"]
        process = subprocess.Popen(
            [program, *options, f"--web.listen-address=127.0.0.1:{port}"], preexec_fn=die_with_parent
        )
        stack.callback(process.wait, 30)
        stack.callback(process.terminate)
        self.prometheus = Prometheus(f"http://127.0.0.1:{port}")

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

    def feed_until(self, what: str, happened: Callable[[], bool], lacks: Callable[[], str] = str) -> None:
        """Go on feeding until something has happened; fail, and say what is lacking, if it takes too long."""
        pause, waited_s = threading.Event(), 0.0
        while True:
            self.feed(1_000)
            try:
                if happened():
                    return
            except URLError:  # Prometheus does not answer yet
                pass
            for daemon in (self.trainer, self.scorer):
                assert daemon.ended() is None, daemon.said
            assert waited_s < DEADLINE_S, f"{what}: not within {DEADLINE_S:.0f} s {lacks()}"
            pause.wait(PAUSE_S)
            waited_s += PAUSE_S


@pytest.fixture(scope="module")
def live(real_broker: TestBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A trainer and a scorer at work, with two bad records behind them."""
    with ExitStack() as stack:
        running = Live(real_broker.connection, tmp_path_factory.mktemp("live"), real_broker.name("live"), stack)
        running.feed_malformed()
        yield running


OF_OTHER_DAEMONS: Final = {
    "streamsvm_prequential_label_": "more than two labels",
    "streamsvm_input_open_transaction_records": "a producer whose transaction is open",
    "streamsvm_memory_short_share": "a memory that forgets",
}
"""Series that daemons with two labels and `memory = all` have none of, and who has them."""
PLAIN: Final = {"trainer": TRAINER.of(Settings()), "scorer": SCORER.of(Settings())}
OF_BRANCHES: Final = {one.name for one in (*TRAINER, *SCORER)} - {one.name for own in PLAIN.values() for one in own}
"""Metrics of branches that are off in these daemons."""


def is_of_others(promql: str) -> bool:
    """Tell whether a query is of what these daemons do not do."""
    named = re.findall(r"streamsvm_\w+", promql)
    return any(
        name.removesuffix("_total") in OF_BRANCHES or any(other in name for other in OF_OTHER_DAEMONS) for name in named
    )


def test_every_panel_has_an_answer(live: Live) -> None:
    """No query of any dashboard comes back empty from daemons at work, but those of what these daemons do not do."""
    unanswered = [query for query in queries() if not is_of_others(query.promql)]

    def all_answered() -> bool:
        unanswered[:] = [query for query in unanswered if not live.prometheus.query(query.runnable)]
        return not unanswered

    live.feed_until("an answer to every query", all_answered, lambda: str(unanswered))


def test_rules_evaluate_without_errors(live: Live) -> None:
    """Prometheus evaluates every shipped rule over what it scraped."""
    live.feed_until(
        "every rule evaluated", lambda: all(rule["health"] != "unknown" for rule in live.prometheus.rules())
    )
    assert {rule["name"]: rule.get("lastError", "") for rule in live.prometheus.rules() if rule["health"] != "ok"} == {}


@pytest.mark.parametrize("daemon", ["trainer", "scorer"])
def test_promtool_likes_what_is_scraped(live: Live, daemon: str) -> None:
    """Names, types, units and help texts are as Prometheus asks, and the metrics are those that are declared."""
    url = live.trainer_url if daemon == "trainer" else live.scorer_url
    text = page(f"{url}/metrics")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    declared = {one.name for one in (*PLAIN[daemon], *PROCESS)}
    told = {line.split()[2].removesuffix("_total") for line in text.splitlines() if line.startswith("# TYPE")}
    assert told == declared
