"""Where the rows of a person are: the places of rows with an id, or in records with a key, found by reading the log.

No index is kept, so no bytes a row are paid for it; the price is one read of all that the log holds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from consumers.branches.history.deletes import Named
from consumers.streams.identity import TopicIdentity
from streamsvm.config import ModelConfig
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.points import Position

BATCH_RECORDS: Final = 1_000
POLL_S: Final = 0.1


@dataclass(slots=True)
class FoundRows:
    """Where rows of some names are.

    Attributes
    ----------
    places : mapping of partition to set of Position
    met_ids, met_keys : set of str
        Names that a row has which is not younger than the name's time.
    """

    places: dict[int, set[Position]] = field(default_factory=dict)
    met_ids: set[str] = field(default_factory=set)
    met_keys: set[str] = field(default_factory=set)

    def add(self, partition: int, at: Position, time_ms: int, name: str, until: int | None, met: set[str]) -> None:
        """Take in a row that has a name, unless it is younger than the name's time."""
        if until is None or time_ms <= until:
            met.add(name)
            self.places.setdefault(partition, set()).add(at)


def rows_named(
    cluster: Cluster,
    topic: str,
    config: ModelConfig,
    named: Named,
    *,
    schemas: SchemaRegistry | None = None,
    timeout_s: float,
) -> FoundRows:
    """Read a topic from its beginning to its present end, and return where the rows of these ids and keys are.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    config : ModelConfig
        By which records are decoded.
    named : Named
        Ids of rows, where an id that is a number is written as one; and keys of records, as UTF-8.
    schemas : SchemaRegistry, optional
    timeout_s : float
        Seconds to wait without progress.

    Raises
    ------
    TransientError
        If nothing came in time.
    Recreated
        If the topic was deleted and made again meanwhile.
    """
    decoder = PointDecoder(config.points, labeled=False, schemas=schemas, recipe=config.recipe)
    of_records = {key.encode(): (key, until) for key, until in named.keys.items()}
    topic_id = cluster.topic_id(topic) or ""
    identity = TopicIdentity(
        cluster, topic, topic_id, {}, remedy="No row was looked for in it, and nothing was changed."
    )
    ranges = {p: cluster.log_range(topic, p) for p in cluster.describe(topic).partitions}
    found = FoundRows()
    left = {partition: end for partition, (first, end) in ranges.items() if end > first}
    source, since = cluster.input(topic, None), time.monotonic()
    try:
        if left:
            source.assign({partition: ranges[partition][0] for partition in left})
        while left:
            records = source.poll(BATCH_RECORDS, POLL_S)
            if records:
                since = time.monotonic()
            keyed = {(r.partition, r.offset): r.key for r in records if r.key in of_records} if of_records else {}
            decoded = decoder.decode(records)
            own = iter(decoded.ids)
            for rows in decoded.rows:
                columns = zip(rows.offset.tolist(), rows.row.tolist(), rows.time_ms.tolist(), strict=True)
                for offset, row, time_ms in columns:
                    at, name = Position(offset, row), next(own, None)
                    if name is not None and str(name) in named.ids:
                        found.add(rows.partition, at, time_ms, str(name), named.ids[str(name)], found.met_ids)
                    key = keyed.get((rows.partition, offset))
                    if key is not None:
                        found.add(rows.partition, at, time_ms, *of_records[key], found.met_keys)
            read = {r.partition: r.offset + 1 for r in records}
            met = {partition: source.seen_end(partition) for partition in left}
            left = {p: end for p, end in left.items() if read.get(p, 0) < end and (met[p] or 0) < end}
            if time.monotonic() - since > timeout_s:
                raise TransientError(
                    f"{topic}{sorted(left)} returned no records within {timeout_s:g} s",
                    "Check that the broker runs and that no transaction is open there, and try again.",
                )
    finally:
        source.close()
    identity.confirm({partition: end for partition, (_, end) in ranges.items()})
    return found
