"""What `verify` knows of the past: refined versions, and rows that were erased."""

from __future__ import annotations

from typing import Final

import msgspec

from consumers.branches.history.erased_rows import ErasedRows
from consumers.settings import Settings
from consumers.verify.verifier import Replays, Verifier, Verifies
from streamsvm.branches.history.refined_part import Refined
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.learning.recipe import remade
from streamsvm.model.left_out import Places
from streamsvm.model.version import Lineage, Version
from streamsvm.verification.recomputation import NotRecomputable, certifier_of


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

    def value(self, version: Version, lineage: Lineage, replayed: Replays) -> bytes | None:
        """Return the value that a refined version must have; raises `NotRecomputable`."""
        if (refined := version.lineage.fact(Refined)) is not None:
            return _refined(version, refined, lineage, replayed)
        return None


def _refined(version: Version, refined: Refined, lineage: Lineage, replayed: Replays) -> bytes:
    """Return the value of a refined version: that of its cut, and so many reads after it."""
    recomputation, made = replayed.made(version)
    try:
        certifier = certifier_of(version, refined.keep, made)
    except ConfigurationError as error:
        raise NotRecomputable(f"it cannot be a refined version: {error.what}") from None
    if certifier is None:
        raise NotRecomputable("no configuration makes such a version")
    for _ in range(refined.reads):
        certificate = replayed.read(version, certifier)
    found = msgspec.structs.replace(
        refined, objective=certificate.reached, bound=certificate.bound, bounded=certificate.bounded
    )
    again = remade(made, recomputation.config, certifier.best)
    replayed.last = again
    return recomputation.encoded(again, version, lineage, (found,))


VERIFIES: Final = Verifies(PastVerifier)
