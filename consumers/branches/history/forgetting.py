"""What `streamsvm history forget` reports: what was asked, what was done, and which versions are of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from consumers.branches.history.erased_rows import ErasedRows, of_rows, shown
from consumers.streams.topics import READ_TIMEOUT_S
from streamsvm.errors import InvalidMessage
from streamsvm.kafka import Cluster
from streamsvm.model import message as model_codec
from streamsvm.points import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint file: its hash, and what became of it."""

    name: str
    sha256: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOfRows:
    """A published version that is of some of the rows: its key, the hash of its message, and which rows."""

    key: str
    sha256: str
    rows: list[str]


@dataclass(slots=True, kw_only=True)
class ForgettingReport:
    """What a person who answers for deletions can file.

    Attributes
    ----------
    model : str
    asked : list of str
        Rows, as partition:offset.row; ids and keys.
    by, time : str
    done : bool
        Whether it was done; False: only looked at.
    found : list of str
        Rows that the log still holds, as valid points.
    absent : list of str
        Those that nothing learned, and why.
    rows_to_read : int
        Rows that the trainer's next start reads and learns again.
    record, record_before : str
        SHA-256 of the record of erased rows, and of the one before it; empty where there is none.
    takes_place : str
        Which version the trainer's next start publishes in whose place.
    checkpoints : list of Checkpoint
        Those that were removed, and what is there instead.
    versions : list of VersionOfRows
        Published versions, of any model of this input, that are of these rows and not retired.
    pin : str
        The version at which readers are held, if it is of these rows.
    """

    model: str
    asked: list[str]
    by: str
    time: str
    done: bool = False
    found: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    rows_to_read: int = 0
    record: str = ""
    record_before: str = ""
    takes_place: str = ""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    versions: list[VersionOfRows] = field(default_factory=list)
    pin: str = ""

    def plain(self) -> dict[str, Any]:
        """Return it as a plain value."""
        return asdict(self)

    def lines(self) -> list[tuple[str, str]]:
        """Return it for people: pairs of what is said and what there is to say of it, without what is empty."""
        versions = [f"{one.key}, SHA-256 {one.sha256}, of {', '.join(one.rows)}" for one in self.versions]
        retire = "to retire one: streamsvm model retire VERSION --name NAME"
        every = [
            ("asked for", self.asked),
            ("found in the log", self.found),
            ("not learned", self.absent),
            ("learned again at the next start", [f"{self.rows_to_read:,} rows"] if self.rows_to_read else []),
            ("record of erased rows", [f"SHA-256 {self.record}"] if self.record else []),
            ("record before", [f"SHA-256 {self.record_before}"] if self.record_before else []),
            ("next version", [self.takes_place] if self.takes_place else []),
            ("checkpoints", [f"{one.name}, SHA-256 {one.sha256}: {one.what}" for one in self.checkpoints]),
            ("versions of these rows", [*versions, retire] if versions else []),
            ("pinned", [f"readers of current are held at {self.pin}, which is of these rows"] if self.pin else []),
            ("done", ["yes" if self.done else "no: nothing was changed"]),
        ]
        return [(name, entry) for name, entries in every for entry in entries]


def report_of(model: str, positions: Mapping[int, Sequence[Position]], by: str) -> ForgettingReport:
    """Return an empty report of what somebody asks for."""
    return ForgettingReport(
        model=model,
        asked=[shown(partition, at) for partition, own in sorted(positions.items()) for at in sorted(own)],
        by=by,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def versions_of(
    cluster: Cluster, models_topic: str, topic: str, positions: Mapping[int, Iterable[Position]], erased: ErasedRows
) -> list[VersionOfRows]:
    """Return the published versions, of any model of an input, that are of such rows and not retired.

    Parameters
    ----------
    cluster : Cluster
    models_topic : str
    topic : str
        The input.
    positions : mapping of partition to Positions
    erased : ErasedRows
        By which later versions are known that were made without rows.
    """
    found = dict[str, VersionOfRows]()
    for record in cluster.read_to_end(models_topic, 0, timeout_s=READ_TIMEOUT_S):
        if record.value is None:
            found.pop((record.key or b"").decode(errors="replace"), None)
            continue
        try:
            version = model_codec.decode(record.value)
        except InvalidMessage:
            continue  # no reader takes it for a version
        lineage = version.lineage
        if lineage.topic != topic:
            continue
        known = erased.of_input(version.name, lineage.topic, lineage.topic_id)
        without = {} if known is None else known.places(version.number)
        places = {p: frozenset(own) - without.get(p, frozenset()) for p, own in positions.items()}
        touched = [shown(*row) for row in of_rows(version, places)]
        if touched:
            digest = model_codec.sha256(record.value)
            found[version.key] = VersionOfRows(key=version.key, sha256=digest, rows=touched)
    return list(found.values())
