"""What workers leave for a trainer: complete at every prefix of the log, one content for one name; and what is adopted.

A key of the coresets topic is name/incarnation/rest; of a manifest the rest is m/position, of a piece of a part it is
the part's name and the piece's number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.live.checker.anomalies import Anomaly, each
from tests.live.checker.evidence import Evidence, Read
from tests.live.checker.versions import published

PIECE_BYTES = 768 * 1024
OPENINGS = ("o", "f")
"""What stands in the place of an incarnation in keys that are of no state."""


@dataclass
class Partition:
    """What a partition of the topic holds, at the prefix that was read.

    Attributes
    ----------
    pieces : set of str
    manifests : dict
        Of each key, what the manifest names.
    written : dict
        The hash of each key's first value.
    complete : set of str
        Places of manifests that were the highest of a prefix, with all parts.
    lacking, rewritten : list of str
        For people.
    """

    pieces: set[str] = field(default_factory=set)
    manifests: dict[str, frozenset[str]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    complete: set[str] = field(default_factory=set)
    lacking: list[str] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)

    def take(self, read: Read) -> None:
        """Take in the next record."""
        key = read.key or ""
        words = key.split("/", 2)
        if len(words) < 3 or words[1] in OPENINGS:
            return
        is_manifest = words[2].startswith("m/")
        if read.sha256 is None:
            self.manifests.pop(key, None)
            self.pieces.discard(key)
        else:
            if self.written.setdefault(key, read.sha256) != read.sha256:
                self.rewritten.append(f"{key} {read.at}")
            if is_manifest:
                self.manifests[key] = frozenset(f"{words[0]}/{words[1]}/{piece}" for piece in pieces_of(read.value))
            else:
                self.pieces.add(key)
        self._look(read)

    def _look(self, read: Read) -> None:
        """Look at the highest manifest of the highest incarnation."""
        highest = max(self.manifests, default="")
        if not highest:
            return
        if missing := self.manifests[highest] - self.pieces:
            self.lacking.append(f"{highest} lacks {min(missing)} after {read.at}")
        else:
            self.complete.add(highest.rpartition("/")[2])


def pieces_of(manifest: Any) -> Iterable[str]:
    """Yield the pieces that a manifest's parts lie in."""
    for part in filter(None, [*manifest["buckets"], manifest["rest"], manifest["newest"]]):
        for piece in range(max(1, -(-part["size"] // PIECE_BYTES))):
            yield f"{part['name']}/{piece}"


def partitions_of(evidence: Evidence, topic: str) -> dict[int, Partition]:
    """Return what each partition of a coresets topic held."""
    found: dict[int, Partition] = defaultdict(Partition)
    for read in evidence.log(topic):
        found[read.place[1]].take(read)
    return found


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for what workers left wrongly, and for versions of what no worker left."""
    found: list[Anomaly] = []
    for site in evidence.sites:
        for name, topic in site.coresets.items():
            left = partitions_of(evidence, topic)
            for one in left.values():
                found += each("incomplete-manifest", f"the highest manifest of {topic} lacks a part", one.lacking)
                found += each("rewritten-state", "two workers wrote other bytes under one name", one.rewritten)
            why = f"no complete manifest of {topic} stood there, so no state of it can have been adopted"
            strange = (
                f"{read.key} at {where} in partition {partition}"
                for read in published(evidence, site, name)
                for partition, where in places_of(read)
                if where != place(0, 0) and where not in left[partition].complete
            )
            found += each("adopted-incomplete", why, strange)
    return found


def places_of(version: Read) -> list[tuple[int, str]]:
    """Return where a version stands in each partition, as keys of manifests have it."""
    return [(part["partition"], place(part["offset"], part["row"])) for part in version.value["lineage"]["cut"]]


def place(offset: int, row: int) -> str:
    """Return a position as keys have it."""
    return f"{offset:020d}.{row:010d}"
