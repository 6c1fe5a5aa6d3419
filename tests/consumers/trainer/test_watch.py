"""Looks at the input topic: whatever ends one is said, and never a silence."""

from __future__ import annotations

from typing import Any, cast

import pytest

from consumers.trainer.topic_watch import ThreadedWatch
from streamsvm.kafka import Cluster
from tests.deadline import eventually

PATIENCE_S = 10.0


class Broken:
    """A cluster whose client fails in a way that nobody foresaw."""

    def describe(self, topic: str) -> Any:
        raise RuntimeError(f"no words for {topic}")


def test_a_look_that_fails_unforeseen_fails_the_loop() -> None:
    """Otherwise every later look would fail as quietly, and a deleted topic never be noticed."""
    watch = ThreadedWatch(cast(Cluster, Broken()), "t")
    watch.ask({})
    with pytest.raises(RuntimeError, match="no words for t"):
        eventually(lambda: watch.take() is not None, "the look fails", PATIENCE_S)
