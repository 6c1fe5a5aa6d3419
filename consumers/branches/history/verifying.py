"""What `verify` knows of the past: versions of a stretch, and rows that were erased."""

from __future__ import annotations

from typing import Final

import msgspec

from consumers.branches.history.deletes_obeyed import DeletesObeyed
from consumers.branches.history.erased_rows import ErasedRows
from consumers.branches.history.stretches import rebuilt
from consumers.settings import Settings
from consumers.verify.verifier import Replays, Verifier, Verifies
from streamsvm.branches.history.built_part import Built
from streamsvm.branches.history.deletes_part import DeletesApplied
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.model.left_out import Places
from streamsvm.model.version import Lineage, Version
from streamsvm.supports import CERTIFICATE, STRETCH, require


class PastVerifier(Verifier):
    """The branch's own.

    Parameters
    ----------
    cluster : Cluster
    settings : Settings
    timeout_s : float
    schemas : SchemaRegistry, optional
    """

    def __init__(
        self, cluster: Cluster, settings: Settings, timeout_s: float, schemas: SchemaRegistry | None = None
    ) -> None:
        self._cluster, self._timeout_s, self._schemas = cluster, timeout_s, schemas
        self._erased = ErasedRows(cluster, settings.output.aliases_topic, timeout_s)
        self._deletes = DeletesObeyed(cluster, self._erased, timeout_s, schemas)

    def left_out(self, version: Version) -> Places:
        """Return the rows that were erased before a version was published; raises `RowsLeftOut`."""
        return self._erased.left_out(version)

    def facts(self, version: Version) -> tuple[msgspec.Struct, ...]:
        """Return under which record of erased rows a version was made, and what it says of deletes if that is true."""
        claimed = version.lineage.fact(DeletesApplied)
        true = claimed is not None and self._deletes.are_obeyed(version, claimed)
        return (*self._erased.facts(version), *((claimed,) if claimed is not None and true else ()))

    def value(self, version: Version, lineage: Lineage, replayed: Replays) -> bytes | None:
        """Return the value that a version of a stretch must have; raises `NotRecomputable`."""
        if version.lineage.fact(Built) is not None:
            return self._built(version, lineage, replayed)
        return None

    def require_certifiable(self, version: Version) -> None:
        """Return if a version is of no stretch; raises `ConfigurationError`."""
        require_of_all(version)

    def _built(self, version: Version, lineage: Lineage, replayed: Replays) -> bytes:
        self._erased.require_built_without(version)
        topic_id, log = replayed.log_of(version.lineage.topic)
        value, rows = rebuilt(self._cluster, version, lineage, topic_id, log, self._timeout_s, self._schemas)
        replayed.count(rows)
        return value


def require_of_all(version: Version) -> None:
    """Return if a version is of everything up to its cut.

    Raises
    ------
    ConfigurationError
    """
    is_stretch = version.lineage.fact(Built) is not None
    require({CERTIFICATE: True, STRETCH: is_stretch}, {STRETCH: version.key})


VERIFIES: Final = Verifies(PastVerifier)
