"""Whether a version is without the rows that deletes name, as it says: both logs are read again.

Invariant: what is found follows from the two logs, up to the positions that the version names, and from nothing else.
"""

from __future__ import annotations

from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.finding import looked_for
from streamsvm.branches.history.deletes import Wanted, offsets_of
from streamsvm.branches.history.deletes_part import DeletesApplied
from streamsvm.errors import TopicMissing
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.model.version import Version, positions
from streamsvm.points import Position
from streamsvm.verification.recomputation import configuration_of


class DeletesObeyed:
    """Reads the rows that deletes name once for each of their positions.

    Parameters
    ----------
    cluster : Cluster
    erased : ErasedRows
    timeout_s : float
    schemas : SchemaRegistry, optional
    """

    def __init__(
        self, cluster: Cluster, erased: ErasedRows, timeout_s: float, schemas: SchemaRegistry | None = None
    ) -> None:
        self._cluster, self._erased, self._timeout_s, self._schemas = cluster, erased, timeout_s, schemas
        self._named: dict[tuple[str, DeletesApplied], dict[int, set[Position]]] = {}

    def are_obeyed(self, version: Version, claimed: DeletesApplied) -> bool:
        """Return whether every row that the deletes name, of what was looked at, is left out of a version.

        Where the deletes are gone, by retention or with their topic, the version's word is all that is left.
        """
        if not any(end for _, end in claimed.cut):
            return True
        lineage = version.lineage
        base, cut = positions(lineage.base), positions(lineage.cut)
        erased = self._erased.of_input(version.name, lineage.topic, lineage.topic_id)
        left_out = {} if erased is None else erased.places(version.number)
        named = self._rows_named(version, claimed)
        looked = offsets_of(claimed.input)
        return all(
            at in left_out.get(partition, ())
            for partition, own in named.items()
            if partition in base
            for at in own
            if base[partition] <= at < cut[partition] and at.offset < looked.get(partition, 0)
        )

    def _rows_named(self, version: Version, claimed: DeletesApplied) -> dict[int, set[Position]]:
        key = version.lineage.topic, claimed
        if key not in self._named:
            self._named[key] = self._read(version, claimed)
        return self._named[key]

    def _read(self, version: Version, claimed: DeletesApplied) -> dict[int, set[Position]]:
        wanted = Wanted(claimed.by)
        try:
            if (self._cluster.describe(claimed.topic).topic_id or "") != claimed.topic_id:
                return {}
            for partition, end in claimed.cut:
                for record in self._cluster.read_to_end(claimed.topic, partition, timeout_s=self._timeout_s):
                    if record.offset < end:
                        wanted.add(record.key, record.value, -1 if record.timestamp_ms is None else record.timestamp_ms)
        except TopicMissing:
            return {}
        return looked_for(
            self._cluster,
            version.lineage.topic,
            configuration_of(version.lineage),
            {name: wanted.until[name] for name in wanted.ids},
            {name: wanted.until[name] for name in wanted.keys},
            schemas=self._schemas,
            timeout_s=self._timeout_s,
        ).places
