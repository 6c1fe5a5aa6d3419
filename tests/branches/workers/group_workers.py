"""Workers of their own under test: in threads, beside a trainer that adopts what they leave in the coresets topic."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from consumers.branches.workers.group_worker import GroupWorker
from consumers.branches.workers.metrics import WORKER
from consumers.branches.workers.settings import WorkerConfig, coresets_topic
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection
from tests.branches.workers.coreset_check import Checked, check
from tests.consumers.trainers import DEADLINE_S
from tests.deadline import Late

FAST: dict[str, Any] = {"publish_interval_s": 0.05, "publish_after_s": 0.2}


class WorkerRunning:
    """A worker in a thread.

    Parameters
    ----------
    settings, connection
        What it runs with.
    worker
        Options of its section; by default it is one of a group.
    """

    def __init__(self, settings: Settings, connection: Connection, **worker: Any) -> None:
        settings = settings.model_copy(update={"worker": WorkerConfig(**{**FAST, **worker})})
        self.metrics, self.health = Metrics(WORKER).with_process(), Health(stuck_after_s=60.0)
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._worker = GroupWorker(settings, Cluster(connection), self.metrics, self.health, self._stop)
        self._thread = threading.Thread(target=self._run, name="worker-under-test", daemon=True)

    def _run(self) -> None:
        try:
            self._worker.run()
        except BaseException as error:  # noqa: BLE001 - shown to the test
            self.failure = error

    def __enter__(self) -> WorkerRunning:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ask it to stop and wait until it has."""
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the worker did not stop"
        if self.failure is not None:
            raise self.failure

    def value(self, name: str, **labels: str) -> float:
        """Return a metric's value now; 0 where it has none yet."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def wait_until(self, happened: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Wait for something to have happened, or fail when the worker ends or takes too long."""
        pause, waited_s = threading.Event(), 0.0
        while not happened():
            if not self._thread.is_alive():
                self.stop()
                raise AssertionError("the worker ended early")
            if waited_s > deadline_s:
                raise Late(f"it did not happen in time: {self.health.ready()}")
            pause.wait(0.02)
            waited_s += 0.02


def check_topic(connection: Connection, settings: Settings, partitions: int) -> list[Checked]:
    """Check that at every prefix of every partition's log the highest manifest is complete; return what was found."""
    cluster, found = Cluster(connection), list[Checked]()
    for partition in range(partitions):
        records = cluster.read_to_end(coresets_topic(settings), partition, timeout_s=30.0)
        found.append(check((one.offset, one.key or b"", one.value) for one in records))
    faults = [fault for one in found for fault in one.faults]
    assert not faults, faults[0]
    return found
