"""Memory over a long run at full speed: `python -m tests.faults.endurance --minutes 30 [--plot FILE]`.

A producer keeps the input ahead of the trainer by a bounded number of records, and the input keeps a bounded number of
bytes; the trainer's resident set is sampled each second.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from streamsvm.kafka import Connection, Message, Outbox
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import settings_for
from tests.faults.daemon import Daemon
from tests.faults.observed import lag, metrics
from tests.faults.stage import Stage
from tests.streams import gaussian

RESULTS: Final = Path(__file__).parent.parent / "benchmarks" / "results"
DIMENSION: Final = 8
DISTINCT_RECORDS: Final = 20_000
MOST_AHEAD: Final = 1_000_000
LEAST_AHEAD: Final = 300_000
RETENTION: Final = {"retention_bytes": str(2 << 30), "segment_bytes": str(64 << 20)}
SAMPLE_S: Final = 1.0
OPTIONS: Final = {
    "points_dimension": DIMENSION,
    "svm_c": None,
    "coreset_train_points": 20_000,
    "training_every_leaves": 10,
    "training_policy": "latest",
    "input_batch_records": 5_000,
    "checkpoint_interval_s": 10.0,
}


class Producer:
    """Sends records as fast as the broker takes them, while it is told to."""

    def __init__(self, connection: Connection, topic: str) -> None:
        made = gaussian(DISTINCT_RECORDS, dimension=DIMENSION)
        self._values = [
            json.dumps({"x": [round(float(entry), 5) for entry in x], "y": int(y)}).encode()
            for x, y in zip(made.X, made.y, strict=True)
        ]
        self._outbox = Outbox(connection)
        self._topic = topic
        self._go, self._end = threading.Event(), threading.Event()
        self._go.set()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def throttle(self, ahead: float) -> None:
        """Rest while the trainer is far behind."""
        if ahead > MOST_AHEAD:
            self._go.clear()
        elif ahead < LEAST_AHEAD:
            self._go.set()

    def close(self) -> None:
        """Stop sending."""
        self._end.set()
        self._go.set()
        self._thread.join()
        self._outbox.close()

    def _run(self) -> None:
        while not self._end.is_set():
            self._go.wait()
            for value in self._values:
                self._outbox.send(Message(self._topic, value, partition=0))
            self.sent += len(self._values)


def run(connection: Connection, minutes: float) -> list[dict[str, float]]:
    """Run a trainer at full speed and return a sample a second."""
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(connection, settings_for("endurance", Path(directory)), OPTIONS)
        stage.create(**RETENTION)
        producer = Producer(connection, stage.settings.input.topic)
        daemon = stage.start()
        try:
            daemon.wait_for("started")
            return samples(daemon, producer, minutes * 60)
        finally:
            producer.close()
            stage.clear()


def samples(daemon: Daemon, producer: Producer, seconds: float) -> list[dict[str, float]]:
    """Sample the process once a second."""
    taken: list[dict[str, float]] = []
    begun = time.monotonic()
    while (now := time.monotonic() - begun) < seconds:
        assert daemon.ended() is None, daemon.said
        said = metrics(daemon)
        producer.throttle(lag(said))
        taken.append(
            {
                "s": round(now, 2),
                "rss_mb": round(daemon.rss_bytes() / 2**20, 2),
                "rows": said.get('streamsvm_input_rows_total{outcome="accepted"}', 0.0),
                "points_held": said.get("streamsvm_points_held", 0.0),
                "version": said.get("streamsvm_model_version", 0.0),
                "lag": lag(said),
            }
        )
        time.sleep(SAMPLE_S)  # the interval between two samples
    return taken


def summary(taken: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return what the run came to; growth is that of the second half, in MB an hour, by least squares."""
    late = taken[len(taken) // 2 :]
    mean_s = sum(each["s"] for each in late) / len(late)
    mean_mb = sum(each["rss_mb"] for each in late) / len(late)
    spread = sum((each["s"] - mean_s) ** 2 for each in late)
    slope = sum((each["s"] - mean_s) * (each["rss_mb"] - mean_mb) for each in late) / spread if spread else 0.0
    last = taken[-1]
    return {
        "minutes": round(last["s"] / 60, 2),
        "rows": int(last["rows"]),
        "rows_per_s": round(last["rows"] / last["s"]),
        "versions": int(last["version"]),
        "rss_mb_max_first_half": max(each["rss_mb"] for each in taken[: len(taken) // 2 or 1]),
        "rss_mb_max_second_half": max(each["rss_mb"] for each in late),
        "rss_mb_per_hour_second_half": round(slope * 3600, 2),
    }


def plot(taken: Sequence[dict[str, float]], file: Path) -> None:
    """Draw the resident set and the rows learned over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    memory = figure.add_subplot()
    minutes = [each["s"] / 60 for each in taken]
    memory.plot(minutes, [each["rss_mb"] for each in taken], color="tab:blue")
    memory.set_ylim(bottom=0)
    memory.set_xlabel("minutes")
    memory.set_ylabel("resident set, MB", color="tab:blue")
    learned = memory.twinx()
    learned.plot(minutes, [each["rows"] / 1e6 for each in taken], color="tab:orange", linewidth=1)
    learned.set_ylim(bottom=0)
    learned.set_ylabel("million points learned", color="tab:orange")
    figure.savefig(file, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, say what it came to, and keep the samples and the plot."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.endurance", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (%(default)s)")
    parser.add_argument(
        "--plot", type=Path, default=RESULTS / "endurance.png", metavar="FILE", help="PNG (%(default)s)"
    )
    parser.add_argument("--json", type=Path, default=RESULTS / "endurance.json", metavar="FILE", help="%(default)s")
    options = parser.parse_args(arguments)
    broker = JvmBroker()
    try:
        broker.start()
        taken = run(Connection(options={"bootstrap.servers": broker.bootstrap_servers}), options.minutes)
    finally:
        broker.stop()
    found = summary(taken)
    print(json.dumps(found, indent=2))
    options.json.write_text(json.dumps({"summary": found, "samples": taken}) + "\n", encoding="utf-8")
    plot(taken, options.plot)


if __name__ == "__main__":
    main()
