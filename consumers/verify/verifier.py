"""What a branch adds to `verify`: logs beside the input, and rows that versions are without.

A branch plugs a `Verifies` in at the socket ``verifiers``; one `Verifier` of each is made for a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from consumers.settings import Settings
from consumers.verify.source import ReplaySource
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.model.left_out import Places
from streamsvm.model.version import Version
from streamsvm.points import Position
from streamsvm.sockets import DAEMONS, plugged
from streamsvm.verification.recomputation import OtherLog, Recomputation


class Verifier:
    """Looks at the versions of one run. What a branch has nothing to say of stays as it is here."""

    def left_out(self, version: Version) -> Places:  # noqa: ARG002
        """Return the rows that a version was made without, though the log holds them.

        Raises
        ------
        NotRecomputable
            If nobody may make the version again.
        """
        return {}

    def facts(self, version: Version) -> tuple[msgspec.Struct, ...]:  # noqa: ARG002
        """Return what the branch's parts say of a version, as far as that does not follow from its rows."""
        return ()

    def other_log(self, version: Version) -> OtherLog | None:  # noqa: ARG002
        """Return a log beside the input that a version was made from; None: there is none."""
        return None

    def source(
        self,
        version: Version,  # noqa: ARG002
        recomputation: Recomputation,  # noqa: ARG002
        without: Places,  # noqa: ARG002
    ) -> ReplaySource | None:
        """Return what reads a version's rows but some; None where they are those of the input topic.

        Raises
        ------
        NotRecomputable
            If what the version says of its logs does not fit together.
        """
        return None


Begin = Callable[[Cluster, Settings, float, SchemaRegistry | None], Verifier]
"""Takes the cluster, the settings, the seconds to wait without progress, and the registry of schemas, if any."""


@dataclass(frozen=True, slots=True)
class Verifies:
    """What stands at the socket."""

    begin: Begin


def verifiers_of(
    cluster: Cluster, settings: Settings, timeout_s: float, schemas: SchemaRegistry | None
) -> tuple[Verifier, ...]:
    """Return those of a run."""
    found = plugged("verifiers", Verifies, DAEMONS)
    return tuple(one.begin(cluster, settings, timeout_s, schemas) for one in found)


def left_out_of(verifiers: Iterable[Verifier], version: Version) -> dict[int, frozenset[Position]]:
    """Return all rows that a version was made without; raises as `Verifier.left_out`."""
    found = dict[int, frozenset[Position]]()
    for verifier in verifiers:
        for partition, own in verifier.left_out(version).items():
            found[partition] = found.get(partition, frozenset()) | frozenset(own)
    return found
