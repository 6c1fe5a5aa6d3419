"""A topic whose partitions have no leader for a while, as a daemon that reads it sees them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from consumers.streams import input_watch
from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster, Place, Watermarks
from tests.consumers.trainers import Running


def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a daemon that is made from now on ask often, and show soon what does not answer."""
    monkeypatch.setattr(input_watch, "INTERVAL_S", 0.1)
    monkeypatch.setattr(input_watch, "PATIENCE_S", 0.3)


def shows(daemon: Running, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a daemon is unready, and well, while nobody says how far a topic goes, and ready afterwards."""
    daemon.wait_until(lambda: daemon.health.ready()[0])
    marks, log_range = Cluster.marks, Cluster.log_range

    def all_marks(cluster: Cluster, places: Iterable[Place]) -> dict[Place, Watermarks]:
        wanted = list(places)
        for name, partition in wanted:
            refuse(name, partition)
        return marks(cluster, wanted)

    def one_range(cluster: Cluster, name: str, partition: int) -> tuple[int, int]:
        refuse(name, partition)
        return log_range(cluster, name, partition)

    def refuse(name: str, partition: int) -> None:
        if name == topic:
            raise TransientError(f"{name}[{partition}] has no leader")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Cluster, "marks", all_marks)
        meanwhile.setattr(Cluster, "log_range", one_range)
        daemon.wait_until(lambda: f"{topic}[0]" in daemon.health.ready()[1]["waiting_for"].get("partitions", ""))
        assert daemon.health.healthy()[0]
    daemon.wait_until(lambda: daemon.health.ready()[0])
