"""Ranges of the input read again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from consumers.streams.identity import TopicIdentity
from streamsvm.config import ModelConfig
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.points import Position, Rows

BATCH_RECORDS: Final = 4_000
POLL_S: Final = 0.1

Log = Mapping[int, tuple[int, int]]
"""First offset and end of each partition."""


class Ranges:
    """Reads any ranges of one topic, one after the other.

    Parameters
    ----------
    cluster : Cluster
    topic, topic_id : str
        The id is empty where the broker gives none.
    config : ModelConfig
        By which records are decoded.
    timeout_s : float
        Seconds to wait without progress.
    schemas : SchemaRegistry, optional
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        topic_id: str,
        config: ModelConfig,
        timeout_s: float,
        schemas: SchemaRegistry | None = None,
    ) -> None:
        self._topic, self._timeout_s = topic, timeout_s
        labeled = config.label_rule is None  # else labels are of a log of their own
        self._decoder = PointDecoder(config.points, labeled=labeled, schemas=schemas, recipe=config.recipe)
        self._input = cluster.input(topic, None)
        self._identity = TopicIdentity(cluster, topic, topic_id, {}, remedy="What is of the old topic stays as it is.")

    def __enter__(self) -> Ranges:
        return self

    def __exit__(self, *exception: object) -> None:
        self._input.close()

    def rows(self, partition: int, start: Position, end: Position) -> Iterator[Rows]:
        """Yield the rows of a range that the log holds, in order.

        Raises
        ------
        OffsetOutOfRange
            If the log no longer holds its beginning.
        TransientError
            If nothing came in time.
        Recreated
            If the topic is another one by now; no row of it is yielded.
        """
        if end <= start:
            return
        self._input.assign({partition: start.offset})
        since = time.monotonic()
        while True:
            records = self._input.poll(BATCH_RECORDS, POLL_S)
            if records:
                self._identity.confirm(records.ends())
            for rows in self._decoder.decode(records).rows:
                since = time.monotonic()
                first, stop = rows.index_of(start), rows.index_of(end)
                if first < stop:
                    yield rows.slice(first, stop)
                if stop < len(rows) or rows.position_after(len(rows) - 1) >= end:
                    return
            met = self._input.seen_end(partition)
            if met is not None and met >= end.offset:
                return
            if time.monotonic() - since > self._timeout_s:
                raise TransientError(
                    f"{self._topic}[{partition}] returned no records up to offset {end.offset} within "
                    f"{self._timeout_s:g} s",
                    "Check that the broker runs and that no transaction is open there, and try again.",
                )
