"""The newest events of a topic, read without a consumer group and without a trace."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any, Final

from consumers.host.runtime import connect, schemas_of
from consumers.settings import Settings
from streamsvm.branches.events.features.recipe import Envelope
from streamsvm.branches.events.sampling import EventSampler
from streamsvm.config import PointsFormat
from streamsvm.kafka import Cluster

TIMEOUT_S: Final = 30.0


def newest_events(
    settings: Settings, topic: str, format_: PointsFormat, envelope: Envelope, most: int
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return at most so many of the newest events, an equal part of each partition; and what was no event, by reason.

    They stand in the order of their records' times.

    Raises
    ------
    StreamsvmError
        If the topic or a schema cannot be read.
    """
    cluster, found = Cluster(connect(settings, "cli")), list[tuple[int, dict[str, Any]]]()
    with schemas_of(settings) as schemas:
        sampler = EventSampler(format_, envelope, schemas)
        partitions = sorted(cluster.describe(topic).partitions)
        share = -(-most // max(1, len(partitions)))
        for partition in partitions:
            low, high = cluster.log_range(topic, partition)
            records = cluster.read_to_end(topic, partition, start=max(low, high - share), timeout_s=TIMEOUT_S)
            timed = ((record.timestamp_ms or 0, event) for record in records for event in sampler.events([record]))
            found.extend(islice(timed, min(share, most - len(found))))
    found.sort(key=lambda one: one[0])
    return [event for _, event in found], sampler.unreadable
