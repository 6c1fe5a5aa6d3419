"""Who owns which partitions of a topic: a member of a consumer group, or a process with a fixed share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from streamsvm.errors import TransientError
from streamsvm.kafka import Cluster


class Ownership(Protocol):
    """Says which partitions this process owns: `streamsvm.kafka.GroupMember` does, and `FixedShare`."""

    def poll(self) -> frozenset[int]:
        """Return the partitions that are owned now; hardly blocks. Call it often."""

    def commit(self, positions: Mapping[int, int]) -> None:
        """Show observers how far owned partitions are; returns at once, and a failure is only logged."""

    def close(self) -> None:
        """Give all of them up."""


class FixedShare:
    """The partitions whose number leaves an ordinal as the remainder of a division by a number of workers.

    Blocks at construction as `Cluster.describe` does.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    ordinal, of : int
        0 <= ordinal < of.
    look_every_s : float
        How often partitions that were added are looked for.

    Raises
    ------
    TopicMissing, BrokerUnavailable, ConfigurationError
        As for `Cluster.describe`.
    """

    def __init__(self, cluster: Cluster, topic: str, *, ordinal: int, of: int, look_every_s: float) -> None:
        self._cluster, self._topic = cluster, topic
        self._ordinal, self._of, self._every_s = ordinal, of, look_every_s
        self._owned = self._share()
        self._looked_at = time.monotonic()

    def poll(self) -> frozenset[int]:
        """See `Ownership`; now and then asks the broker, and takes it as it was if that does not answer."""
        if time.monotonic() - self._looked_at >= self._every_s:
            self._looked_at = time.monotonic()
            with suppress(TransientError):
                self._owned = self._share()
        return self._owned

    def commit(self, positions: Mapping[int, int]) -> None:
        """See `Ownership`; there is no group to show it in."""

    def close(self) -> None:
        """See `Ownership`."""

    def _share(self) -> frozenset[int]:
        partitions = self._cluster.describe(self._topic).partitions
        return frozenset(p for p in partitions if p % self._of == self._ordinal)
