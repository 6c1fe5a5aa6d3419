"""Runs a trainer with defaults on the embedded broker up to its first version, and prints what it took, as JSON.

It is what `streamsvm train` makes, but for settings from a command line. A process of its own: what counts is which
modules are loaded, and which threads run.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import consumers.cli.app  # noqa: F401 - as in a daemon
from consumers.host.runtime import Health
from consumers.host.supervision import Supervision
from consumers.host.web.server import HttpServer
from consumers.metrics import TRAINER, Metrics
from consumers.page.board import TrainerBoard
from consumers.page.site import site_of
from consumers.settings import CheckpointConfig, HttpConfig, Settings
from consumers.trainer.components import Components
from consumers.trainer.trainer import Trainer
from streamsvm.config import PointsConfig
from streamsvm.kafka import Cluster, Connection, Message, Outbox
from streamsvm.kafka.embedded import EmbeddedBroker

DEADLINE_S: Final = 240.0
"""A first run compiles for minutes where others use the processors."""
PAUSE_S: Final = 0.1
LOOKS: Final = 5
POINTS: Final = 20_000
FAMILIES: Final = "streamsvm_"


def main() -> None:
    """Run it."""
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as directory:
        settings = Settings(
            kafka={"bootstrap.servers": broker.bootstrap_servers},
            points=PointsConfig(dimension=2),
            checkpoint=CheckpointConfig(directory=Path(directory)),
            http=HttpConfig(port=0),
        )
        write(broker.connection, settings.input.topic)
        print(json.dumps(run(settings, broker.connection)))


def write(connection: Connection, topic: str) -> None:
    """Write points of two labels, on either side of a line."""
    outbox = Outbox(connection)
    for at in range(POINTS):
        label = 1 if at % 2 else -1
        text = json.dumps({"x": [label * (1.0 + at % 7), float(at % 11)], "y": label})
        outbox.send(Message(topic, text.encode(), partition=0))
    outbox.flush(DEADLINE_S)
    outbox.close()


def run(settings: Settings, connection: Connection) -> dict[str, list[str]]:
    """Return the names of the metrics, of the threads and of the modules once a version is published."""
    metrics, stop, health = (
        Metrics(TRAINER.of(settings)).with_process(),
        threading.Event(),
        Health(stuck_after_s=DEADLINE_S),
    )
    board, others = TrainerBoard(settings, metrics), set(threading.enumerate())
    components = Components(cluster=Cluster(connection), metrics=metrics, health=health, stop=stop, board=board)
    trainer = threading.Thread(target=Trainer(settings, components).run, name="trainer")
    site = site_of(settings, board, metrics, health)
    with HttpServer(settings.http, health, metrics.registry, site), Supervision(health, stop):
        trainer.start()
        try:
            wait_until(lambda: bool(metrics.registry.get_sample_value("streamsvm_model_version")), trainer)
            threads = [thread.name for thread in lasting_threads() - others]
        finally:
            stop.set()
            trainer.join()
    families = [family.name for family in metrics.registry.collect() if family.name.startswith(FAMILIES)]
    return {"metrics": sorted(families), "threads": sorted(threads), "modules": sorted(sys.modules)}


def lasting_threads() -> set[threading.Thread]:
    """Return the threads that run at each of several looks.

    A question to the broker has a thread of its own while it is asked, which a single look may meet.
    """
    lasting = set(threading.enumerate())
    for _ in range(LOOKS - 1):
        time.sleep(PAUSE_S)
        lasting &= set(threading.enumerate())
    return lasting


def wait_until(happened: Callable[[], bool], trainer: threading.Thread) -> None:
    """Wait for a version.

    Raises
    ------
    RuntimeError
        If the trainer ends before, or takes longer than `DEADLINE_S`.
    """
    end = time.monotonic() + DEADLINE_S
    while not happened():
        if not trainer.is_alive() or time.monotonic() > end:
            raise RuntimeError("the trainer published no version")
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
