"""What a scorer says of four mishaps: `python -m tests.consumers.watched_scorer [--json FILE]`, on the embedded broker.

A linear model of eight features has in its header how its scores lie on an audit sample of a Gaussian stream. Then a
scorer meets: points of another dimension; one bad row in a hundred; a hundred thousand records that wait; a feature
shifted by one standard deviation. For each: exit status, readiness, the page's verdict, the metrics, and which alerts'
conditions hold: the rules' own thresholds, taken by hand at one moment, over what was read since the start instead of
ten minutes, and without the rules' `for`.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import structlog

from consumers.host.exit_codes import exit_code
from consumers.host.runtime import Health
from consumers.metrics import SCORER, Metrics
from consumers.page.board import ScorerBoard
from consumers.page.site import Site
from consumers.scorer.components import ScorerComponents
from consumers.scorer.scorer import Scorer
from consumers.settings import OutputConfig, ScoringConfig, Settings
from streamsvm.errors import StreamsvmError
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, EmbeddedBroker, Message, Outbox, TopicSpec
from streamsvm.model import deciles_header as deciles
from streamsvm.model.deciles import deciles_of
from streamsvm.model.machine import LinearMachine, Model, Scaler
from tests.test_subscriber import NAME, Trainer, version_of

DIMENSION: Final = 8
PARTITIONS: Final = 4
AUDIT_POINTS: Final = 4_096
DEADLINE_S: Final = 120.0
COEFFICIENTS: Final = np.array([1.0, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1, 0.0])
SHOWN: Final = (
    "streamsvm_scored_points",
    "streamsvm_input_rows",
    "streamsvm_dead_letters",
    "streamsvm_input_mostly_rejected",
    "streamsvm_scores",
    "streamsvm_input_lag_records",
    "streamsvm_score_drift",
    "streamsvm_score_drift_chance",
    "streamsvm_score_drift_scores",
)


class Watched:
    """A scorer of its own topics, and what it says."""

    def __init__(self, connection: Connection, case: str) -> None:
        self._connection = connection
        models = f"{case}-models"
        Cluster(connection).create([TopicSpec(case, PARTITIONS), TopicSpec(models), TopicSpec(f"{models}.aliases")])
        self._settings = Settings(
            name=NAME,
            kafka={"bootstrap.servers": "unused:1"},
            output=OutputConfig(models_topic=models),
            scoring=ScoringConfig(topic=case, output_topic=f"{case}-scores", group=case),
        )
        self._metrics, self._health, self._stop = Metrics(SCORER), Health(stuck_after_s=60.0), threading.Event()
        self._board = ScorerBoard()
        self._site = Site(self._settings, self._board, self._metrics, self._health)
        self._error: StreamsvmError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        publish(connection, models)

    def _run(self) -> None:
        components = ScorerComponents(
            connection=self._connection,
            metrics=self._metrics,
            health=self._health,
            stop=self._stop,
            board=self._board,
        )
        scorer = Scorer(self._settings, components)
        try:
            scorer.run()
        except StreamsvmError as error:
            self._error = error

    def feed(self, values: Sequence[bytes], old_s: float = 0.0) -> None:
        """Store records."""
        with closing(Outbox(self._connection)) as outbox:
            for place, value in enumerate(values):
                outbox.send(Message(self._settings.scoring.topic, value, partition=place % PARTITIONS))
            outbox.flush(DEADLINE_S)
        time.sleep(old_s)

    def start(self) -> None:
        """Start the scorer."""
        self._thread.start()

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, or the scorer ended."""
        begun = time.monotonic()
        while not holds() and self._thread.is_alive():
            if time.monotonic() - begun > DEADLINE_S:
                raise TimeoutError(self._settings.scoring.topic)
            time.sleep(0.05)

    def total(self, name: str) -> float:
        """Return the sum over a metric's series."""
        return sum(self._metrics.values(name).values())

    def read(self) -> float:
        """Return how many records were committed."""
        return self.total("streamsvm_input_records")

    def said(self) -> dict[str, Any]:
        """Return what it says now."""
        status = self._site.status()
        ended = not self._thread.is_alive()
        exit_status = exit_code(self._error) if self._error else 0 if ended else None
        return {
            "exit_status": exit_status,
            "message": str(self._error) if self._error else "",
            "readyz": 200 if self._health.ready()[0] else 503,
            "waiting_for": {part: why for part, why in status.process.waiting_for.items() if why},
            "page": {
                "level": status.verdict.level,
                "headline": status.verdict.headline,
                "detail": status.verdict.detail,
            },
            "metrics": {name: shown(self._metrics.values(name)) for name in SHOWN},
            "alerts": self.alerts(ended=ended),
        }

    def alerts(self, *, ended: bool) -> list[str]:
        """Return the alerts of `deploy/prometheus/rules.yml` whose conditions hold now."""
        rows = self._metrics.values("streamsvm_input_rows")
        read, rejected = sum(rows.values()), rows.get(("rejected",), 0.0)
        index, chance = self.total("streamsvm_score_drift"), self.total("streamsvm_score_drift_chance")
        buckets = self._metrics.buckets("streamsvm_score_latency_seconds")
        late = sum(1 for bound, below in buckets if bound == 60.0 and below < 0.95 * buckets[-1][1])
        held = {
            "StreamsvmScorerDown": ended,
            "StreamsvmDeadLetters": read > 0 and rejected / read > 0.05,
            "StreamsvmMostlyRejected": self.total("streamsvm_input_mostly_rejected") > 0,
            "StreamsvmScoresLate": late > 0,
            "StreamsvmScoresDrifted": index > 0.25 and index > chance,
        }
        return [alert for alert, holds in held.items() if holds]

    def stop(self) -> None:
        """Stop it."""
        self._stop.set()
        self._thread.join(DEADLINE_S)


def shown(values: dict[tuple[str, ...], float]) -> dict[str, float | None] | float | None:
    """Return a metric's series for JSON."""
    plain = {",".join(labels): None if math.isnan(value) else value for labels, value in values.items()}
    return plain[""] if set(plain) == {""} else plain


def publish(connection: Connection, models: str) -> None:
    """Publish a linear version, whose header says how its scores lie on a sample of a standard Gaussian stream."""
    x = np.random.default_rng(1).normal(size=(AUDIT_POINTS, DIMENSION))
    model = Model(Scaler.identity(DIMENSION), LinearMachine(COEFFICIENTS, -0.5))
    reference = deciles_of(model.decision_function(x), np.ones(AUDIT_POINTS))
    assert reference is not None
    version = replace(version_of(1, dimension=DIMENSION), model=model)
    with closing(Trainer(connection, models)) as trainer:
        trainer.publish(version, extra={deciles.HEADER: deciles.encode(reference)})


def points(count: int, *, dimension: int = DIMENSION, shift: float = 0.0, seed: int = 2) -> list[bytes]:
    """Return standard Gaussian points, the first feature shifted."""
    x = np.random.default_rng(seed).normal(size=(count, dimension))
    x[:, 0] += shift
    return [encode(row.tolist()) for row in x]


def another_dimension(connection: Connection) -> dict[str, Any]:
    """Every point has four features; then the same after the input was proven by good points."""
    first = Watched(connection, "dimension")
    first.feed(points(5_000, dimension=4))
    first.start()
    first.wait(lambda: False)
    found = {"never scored before": first.said()}
    proven = Watched(connection, "dimension-later")
    proven.feed(points(2_000))
    proven.start()
    proven.wait(lambda: proven.read() == 2_000)
    proven.feed(points(5_000, dimension=4))
    proven.wait(lambda: proven.read() == 7_000)
    found["scored before"] = proven.said()
    proven.feed(points(1_000))
    proven.wait(lambda: proven.read() == 8_000)
    time.sleep(1.5)
    found["and again"] = {name: value for name, value in proven.said().items() if name in {"readyz", "page"}}
    proven.stop()
    return found


def bad_rows(connection: Connection) -> dict[str, Any]:
    """One row in a hundred is no point."""
    watched = Watched(connection, "bad")
    values = points(20_000)
    values[::100] = [b'{"x": "no"}'] * len(values[::100])
    watched.feed(values)
    watched.start()
    watched.wait(lambda: watched.read() == 20_000)
    time.sleep(1.5)
    found = watched.said()
    watched.stop()
    return found


def backlog(connection: Connection) -> dict[str, Any]:
    """A hundred thousand records wait for 65 seconds before the scorer starts."""
    watched = Watched(connection, "lag")
    watched.feed(points(100_000), old_s=65.0)
    watched.start()
    most, began = 0.0, {}
    while watched.read() < 100_000:
        lag = watched.total("streamsvm_input_lag_records")
        if lag > most:
            most, began = lag, watched.said()
        time.sleep(0.02)
    time.sleep(1.5)
    found = {"longest lag shown": most, "then": began, "all read": watched.said()}
    watched.stop()
    return found


def shifted(connection: Connection) -> dict[str, Any]:
    """Ten thousand points as ever, then ten thousand whose first feature is one standard deviation higher."""
    watched = Watched(connection, "shift")
    watched.feed(points(10_000))
    watched.start()
    watched.wait(lambda: watched.read() == 10_000)
    time.sleep(1.5)
    found = {"before": watched.said()}
    watched.feed(points(10_000, shift=1.0, seed=3))
    watched.wait(lambda: watched.read() == 20_000)
    time.sleep(1.5)
    found["after"] = watched.said()
    watched.stop()
    return found


CASES: Final = {
    "another dimension": another_dimension,
    "1 % bad rows": bad_rows,
    "a lag of 100,000": backlog,
    "a feature shifted by one standard deviation": shifted,
}


def main() -> None:
    """Run the cases and write what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the findings; standard output by default")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    found = {"time": datetime.now(UTC).isoformat()}
    with EmbeddedBroker() as broker:
        connection = Connection(options={**broker.connection.options, "fetch.wait.max.ms": 10}, embedded=True)
        found |= {case: run(connection) for case, run in CASES.items()}
    text = json.dumps(found, indent=2) + "\n"
    if given.json:
        given.json.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
