"""What `verify` knows of the past: rows that were erased."""

from __future__ import annotations

from typing import Final

import msgspec

from consumers.branches.history.erased_rows import ErasedRows
from consumers.settings import Settings
from consumers.verify.verifier import Verifier, Verifies
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.model.left_out import Places
from streamsvm.model.version import Version


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
        self,
        cluster: Cluster,
        settings: Settings,
        timeout_s: float,
        schemas: SchemaRegistry | None = None,  # noqa: ARG002
    ) -> None:
        self._erased = ErasedRows(cluster, settings.output.aliases_topic, timeout_s)

    def left_out(self, version: Version) -> Places:
        """Return the rows that were erased before a version was published; raises `RowsLeftOut`."""
        return self._erased.left_out(version)

    def facts(self, version: Version) -> tuple[msgspec.Struct, ...]:
        """Return under which record of erased rows a version was made."""
        return self._erased.facts(version)


VERIFIES: Final = Verifies(PastVerifier)
