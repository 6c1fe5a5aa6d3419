"""Where the rows of a person are: the places of rows with an id, or in records with a key, found by reading the log.

No index is kept, so no bytes a row are paid for it; the price is one read of all that the log holds.
"""

from __future__ import annotations

import time
from collections.abc import Collection
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
    decoder = PointDecoder(config.points, labeled=False, schemas=schemas, recipe=config.recipe)
    wanted, of_records = set(ids), {key.encode() for key in keys}
    met_ids, met_keys = set[str](), set[bytes]()
    places: dict[int, set[Position]] = {}
    topic_id = topic_id or cluster.topic_id(topic) or ""
    identity = TopicIdentity(
        cluster, topic, topic_id, {}, remedy="No row was looked for in it, and nothing was changed."
    )
    ranges = {p: cluster.log_range(topic, p) for p in cluster.describe(topic).partitions}
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
            met_keys |= {key for key in keyed.values() if key is not None}
            decoded = decoder.decode(records)
            own = iter(decoded.ids)
            for rows in decoded.rows:
                for offset, row in zip(rows.offset.tolist(), rows.row.tolist(), strict=True):
                    name = next(own, None)
                    is_wanted = name is not None and str(name) in wanted
                    if is_wanted:
                        met_ids.add(str(name))
                    if is_wanted or (rows.partition, offset) in keyed:
                        places.setdefault(rows.partition, set()).add(Position(offset, row))
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
    missing = [f"id {one}" for one in sorted(wanted - met_ids)]
    missing += [f"key {one.decode()}" for one in sorted(of_records - met_keys)]
    return {partition: sorted(own) for partition, own in sorted(places.items())}, missing
