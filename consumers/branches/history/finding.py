"""Where the rows of a person are: the places of rows with an id, or in records with a key, found by reading the log.

No index is kept, so no bytes a row are paid for it; the price is one read of all that the log holds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from consumers.streams.identity import TopicIdentity
from streamsvm.config import ModelConfig
from streamsvm.errors import TransientError
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.points import Position

BATCH_RECORDS: Final = 1_000
POLL_S: Final = 0.1


def found_by(
    cluster: Cluster,
    topic: str,
    config: ModelConfig,
    ids: Collection[str],
    keys: Collection[str],
    *,
    topic_id: str = "",
    schemas: SchemaRegistry | None = None,
    timeout_s: float,
) -> tuple[dict[int, list[Position]], list[str]]:
    """Read a topic from its beginning to its present end, and return where rows of these ids and keys are.

    As `looked_for`, of names without a time.

    Parameters
    ----------
    cluster : Cluster
    topic : str
    config : ModelConfig
        By which records are decoded.
    ids : collection of str
        Of rows; an id that is a number is written as one.
    keys : collection of str
        Of records, as UTF-8.
    topic_id : str
        Of the topic whose places are wanted; by default of the one that there is.
    schemas : SchemaRegistry, optional
    timeout_s : float
        Seconds to wait without progress.

    Returns
    -------
    places : mapping of partition to list of Position
    missing : list of str
        Ids and keys that no row has.

    Raises
    ------
    TransientError
        If nothing came in time.
    Recreated
        If the topic is not the one whose places are wanted, or was deleted and made again meanwhile.
    """
    found = looked_for(
        cluster,
        topic,
        config,
        dict.fromkeys(ids),
        dict.fromkeys(keys),
        topic_id=topic_id,
        schemas=schemas,
        timeout_s=timeout_s,
    )
    missing = [f"id {one}" for one in sorted(set(ids) - found.met_ids)]
    missing += [f"key {one}" for one in sorted(set(keys) - found.met_keys)]
    return {partition: sorted(own) for partition, own in sorted(found.places.items())}, missing


@dataclass(slots=True)
class FoundRows:
    """Where rows of some names are.

    Attributes
    ----------
    ends : mapping of partition to int
        Up to where the topic was read.
    places : mapping of partition to set of Position
    met_ids, met_keys : set of str
        Names that a row has, which is not younger than the name's time.
    younger : int
        Rows of these names that are.
    """

    ends: dict[int, int]
    places: dict[int, set[Position]] = field(default_factory=dict)
    met_ids: set[str] = field(default_factory=set)
    met_keys: set[str] = field(default_factory=set)
    younger: int = 0

    def add(self, partition: int, at: Position, time_ms: int, named: Mapping[str, int | None], met: set[str]) -> None:
        """Take in a row with the names that it has, each with its time."""
        own = {name for name, until in named.items() if until is None or time_ms <= until}
        self.younger += len(named) - len(own)
        met |= own
        if own:
            self.places.setdefault(partition, set()).add(at)


def looked_for(
    cluster: Cluster,
    topic: str,
    config: ModelConfig,
    ids: Mapping[str, int | None],
    keys: Mapping[str, int | None],
    *,
    start: Mapping[int, int] | None = None,
    topic_id: str = "",
    schemas: SchemaRegistry | None = None,
    timeout_s: float,
) -> FoundRows:
    """Read a topic to its present end, and return where rows of these ids and keys are that are not younger.

    Parameters
    ----------
    cluster, topic, config, topic_id, schemas, timeout_s
        As of `found_by`.
    ids, keys : mapping of str to int or None
        Each with the time, in milliseconds, up to which its rows are wanted; None: all are.
    start : mapping of partition to int, optional
        Where to begin; at the first offset by default.

    Raises
    ------
    TransientError, Recreated
        As of `found_by`.
    """
    decoder = PointDecoder(config.points, labeled=False, schemas=schemas, recipe=config.recipe)
    of_records = {key.encode(): (key, until) for key, until in keys.items()}
    topic_id = topic_id or cluster.topic_id(topic) or ""
    identity = TopicIdentity(
        cluster, topic, topic_id, {}, remedy="No row was looked for in it, and nothing was changed."
    )
    ranges = {p: cluster.log_range(topic, p) for p in cluster.describe(topic).partitions}
    ranges = {p: (max(first, (start or {}).get(p, first)), end) for p, (first, end) in ranges.items()}
    found = FoundRows({partition: end for partition, (_, end) in ranges.items()})
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
                    if name is not None and str(name) in ids:
                        found.add(rows.partition, at, time_ms, {str(name): ids[str(name)]}, found.met_ids)
                    key = keyed.get((rows.partition, offset))
                    if key is not None:
                        found.add(rows.partition, at, time_ms, dict([of_records[key]]), found.met_keys)
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
    identity.confirm(found.ends)
    return found
