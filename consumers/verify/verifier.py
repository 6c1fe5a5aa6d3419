"""What a branch adds to `verify`: kinds of versions, logs beside the input, and rows that versions are without.

A branch plugs a `Verifies` in at the socket ``verifiers``; one `Verifier` of each is made for a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from consumers.settings import Settings
from consumers.verify.source import ReplaySource
from streamsvm.kafka import Cluster, SchemaRegistry
from streamsvm.learning.certifying import Certificate, Certifier
from streamsvm.learning.recipe import Made
from streamsvm.model.left_out import Places
from streamsvm.model.version import Lineage, Version
from streamsvm.points import Position
from streamsvm.sockets import DAEMONS, plugged
from streamsvm.verification.recomputation import OtherLog, Recomputation


class Replays(Protocol):
    """What a branch may ask of the input that is gone through again.

    Attributes
    ----------
    last : Made or None
        What the version whose value was returned last is of.
    """

    last: Made | None

    def log_of(self, topic: str) -> tuple[str | None, Mapping[int, tuple[int, int]]]:
        """Return the id of a topic, None where there is none, and what its log holds of each partition."""

    def count(self, rows: int) -> None:
        """Count rows that somebody else learned for a version."""

    def made(self, version: Version) -> tuple[Recomputation, Made]:
        """Return everything that a version's cut gives, and what names it."""

    def read(self, version: Version, certifier: Certifier) -> Certificate:
        """Let a certifier see all rows of a version, and return what they prove; raises `NotRecomputable`."""


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

    def value(self, version: Version, lineage: Lineage, replayed: Replays) -> bytes | None:  # noqa: ARG002
        """Return the value that a version must have; None where it must be what a trainer makes of its cut.

        Parameters
        ----------
        version : Version
        lineage : Lineage
            What names its predecessors.
        replayed : Replays

        Raises
        ------
        NotRecomputable
            If the log does not hold its rows, or this build cannot run its configuration.
        """
        return None

    def facts(self, version: Version) -> tuple[msgspec.Struct, ...]:  # noqa: ARG002
        """Return what the branch's parts say of a version, as far as that does not follow from its rows."""
        return ()

    def held(self, version: Version, log: Mapping[int, tuple[int, int]]) -> Mapping[int, tuple[int, int]]:  # noqa: ARG002
        """Return first offset and end of each partition of a version's input, with what else holds rows of it.

        Raises
        ------
        NotRecomputable
            If that is not there.
        """
        return log

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
