"""A version: a model, how it was fitted, and from what it was made.

`Version` is what the trainer publishes, a reader loads, and `verify` compares. `streamsvm.learning.recipe.version_of`
makes one; `streamsvm.model.message` is its form as bytes. Its `lineage` names all that is needed to make it again: the
positions of its cut, its configuration, the seed, the build, and the hashes of the versions before it.

Invariant: nothing in a version depends on a clock, a host or a process. What does (times, the session, the duration of
the training) goes into the headers of its record, which no hash of a version covers.

A field that only some versions have is a named part of the message (`streamsvm.model.parts`), so that a reader without
the branch that wrote the part either passes it over or refuses the version, as the part itself determines.

This module imports numpy and msgspec only, as all of `streamsvm.model` does: a reader installs no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from streamsvm.model.ancestry import Ancestor
from streamsvm.model.classes import AnyModel
from streamsvm.model.described import Label
from streamsvm.model.fit import Audit, Fit, MachineFit
from streamsvm.places import Epoch, Offset, Partition, Row, whole_number
from streamsvm.points import Position

Fact = TypeVar("Fact", bound=msgspec.Struct)

PARTITION_BYTES: Final = 120
"""Most characters of one `PartitionCut` in JSON."""

LEAST_KEPT: Final = 64
"""Fewest rows that a certificate keeps whole."""
LINKS_BYTES: Final = 64 * 110
"""Most characters of a lineage's links in JSON: numbers of 64 bits have as many powers of two."""


class PartitionCut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One partition's part of a cut: everything before (offset, row) was learned."""

    partition: Partition
    offset: Offset
    row: Row
    leader_epoch: Epoch


class StreamSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a version covers: rows seen, valid points among them, their exact weight, and when they were written.

    Times are those of the first and last rows of leaves: see `streamsvm.coreset.buckets.Extent`.
    """

    rows: int
    points: int
    weight: float
    class_weight: tuple[float, ...]
    first_time_ms: int
    last_time_ms: int


class PartitionHorizons(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which rows of a partition count in a version that forgets.

    Attributes
    ----------
    partition : int
    oldest : tuple of (int, int)
        Offset and row of the oldest row that the version depends on.
    before : StreamSummary
        What was learned before that row. If the log no longer has those rows, `verify` cannot check this and accepts
        it.
    horizons : tuple of (int, float)
        The newest rows, so many, and their share of the training weight; the longest first.
    """

    partition: int
    oldest: tuple[int, int]
    before: StreamSummary
    horizons: tuple[tuple[int, float], ...]


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which rows count in a version, if these are not all that were learned; `kind` is the option `coreset.memory`."""

    kind: str
    partitions: tuple[PartitionHorizons, ...]


class LineageTrunk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The data and the configuration that a version was made from, as every version has them.

    Attributes
    ----------
    parent : str or None
        SHA-256 of the previous version; None for the first.
    topic, topic_id : str
        Input topic; its id is empty if the broker does not report topic ids.
    cut, base : tuple of PartitionCut
        Positions up to which, and from which, the input was learned.
    configuration : mapping
        The part of the configuration that affects models; `configuration_sha256` is its hash.
    seed : int
    training_set_sha256 : str
        SHA-256 of the training set's bytes.
    tuned_at : tuple of PartitionCut or None
        The cut at which C and gamma were chosen; None if they are configured.
    build : mapping of str to str
        Library versions, each BLAS library with its kernels, and CPU target. Recomputing gives the same bytes only on
        the same build.
    links : tuple of Ancestor
        The versions of `streamsvm.model.ancestry.linked` whose hashes were known.
    """

    parent: str | None
    topic: str
    topic_id: str
    cut: tuple[PartitionCut, ...]
    base: tuple[PartitionCut, ...]
    configuration: dict[str, Any]
    configuration_sha256: str
    seed: int
    training_set_sha256: str
    tuned_at: tuple[PartitionCut, ...] | None
    build: dict[str, str]
    links: tuple[Ancestor, ...]


class Lineage(LineageTrunk, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The lineage of a version, with what its message keeps in named parts.

    Attributes
    ----------
    memory : Memory or None
        What the version is of; None where nothing is forgotten.
    facts : tuple of Struct
        What branches add, each an object of a class of its own; empty in the versions of a plain trainer.
    """

    links: tuple[Ancestor, ...] = ()
    memory: Memory | None = None
    facts: tuple[msgspec.Struct, ...] = ()

    def fact(self, kind: type[Fact]) -> Fact | None:
        """Return what a branch added, by its class; None if the version has no such part."""
        return next((one for one in self.facts if isinstance(one, kind)), None)

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Every hash that the lineage contains, the parent's first."""
        return (*((self.parent,) if self.parent else ()), *(link.sha256 for link in self.links))


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One published model.

    Attributes
    ----------
    name : str
    number : int
        1, 2, 3, ... without a gap.
    model : Model or ClassModel
    labels : tuple of labels
        As written in the records: the negative and the positive one, or of more than two those of the machines.
    feature_names : tuple of str
        Empty, or one name per feature.
    fit : Fit
    stream : StreamSummary
    lineage : Lineage
    audit : Audit or None
        The model's estimated objective over the whole stream; None if no audit sample is kept.
    machines : tuple of MachineFit
        Of more than two labels, how each machine was fitted; empty of two.
    recipe : Struct or None
        How raw events become points; None for a version that learned points.
    passed_over : tuple of str
        Names of parts of its message that this build cannot read, and that no prediction depends on.
    """

    name: str
    number: int
    model: AnyModel
    labels: tuple[Label, ...]
    feature_names: tuple[str, ...]
    fit: Fit
    stream: StreamSummary
    lineage: Lineage
    audit: Audit | None = None
    machines: tuple[MachineFit, ...] = ()
    recipe: msgspec.Struct | None = None
    passed_over: tuple[str, ...] = ()

    @property
    def missing_labels(self) -> tuple[Label, ...]:
        """The labels of which no point came up to the cut."""
        pairs = zip(self.labels, self.stream.class_weight, strict=True)
        return tuple(label for label, own in pairs if own == 0.0)

    @property
    def key(self) -> str:
        """Key of its record, name@number."""
        return version_key(self.name, self.number)


class TuningInForce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The values chosen instead of the configured C and gamma, and the cut at which; null: as configured.

    Attributes
    ----------
    alpha, C, gamma : float or None
    cut : tuple of PartitionCut
    rows : int
        Rows seen up to that cut.
    """

    alpha: float | None
    C: float | None
    gamma: float | None
    cut: tuple[PartitionCut, ...]
    rows: int


def version_key(name: str, number: int) -> str:
    """Return the key of a version's record."""
    return f"{name}@{number}"


def version_number(key: bytes | None, name: str) -> int | None:
    """Return the number in the key of a version of this name; None for any other key."""
    prefix = f"{name}@".encode()
    if key is None or not key.startswith(prefix):
        return None
    return whole_number(key.removeprefix(prefix))


def partition_cuts(positions: Mapping[int, Position], leader_epochs: Mapping[int, int]) -> tuple[PartitionCut, ...]:
    """Return positions as a cut, in ascending order of partition."""
    return tuple(
        PartitionCut(partition, *positions[partition], leader_epochs.get(partition, -1))
        for partition in sorted(positions)
    )


def positions(cut: tuple[PartitionCut, ...]) -> dict[int, Position]:
    """Return the positions of a cut."""
    return {part.partition: Position(part.offset, part.row) for part in cut}
