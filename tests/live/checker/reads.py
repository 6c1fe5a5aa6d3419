"""What readers got: committed records only, all of them, in order, the same for everyone.

Source: the phenomena of Adya's thesis as Elle names them (G1a, aborted reads), and those of Jepsen's checker of
Kafka-like logs (inconsistent offsets, skipped and nonmonotonic polls).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from tests.live.checker.evidence import Evidence, Place
from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for reads that must not be."""
    found: list[Anomaly] = []
    for client, place, reads in evidence.live_committed():
        found += _aborted(evidence, client, place, reads)
        found += _order(evidence, client, place, reads)
    return found + _contents(evidence) + _served(evidence)


def _aborted(evidence: Evidence, client: str, place: Place, reads: list[Record]) -> list[Anomaly]:
    final = evidence.committed[place]
    gone = [read.at for read in reads if read.offset not in final]
    return each("aborted-read", f"{client} read it as committed, and in the end it is not", gone)


def _order(evidence: Evidence, client: str, place: Place, reads: list[Record]) -> list[Anomaly]:
    back = [after.at for before, after in pairwise(reads) if after.offset <= before.offset]
    found = each("inconsistent-read", f"offsets went back under {client}", back)
    there = sorted(evidence.committed[place])
    passed = []
    for before, after in pairwise(reads):
        between = there[bisect_right(there, before.offset) : bisect_left(there, after.offset)]
        passed += [f"{place[0]}[{place[1]}]@{offset}" for offset in between]
    return found + each("skipped-read", f"{client} went past a committed record", passed)


def _contents(evidence: Evidence) -> list[Anomaly]:
    """Compare what everybody, committed or not, found at an offset."""
    known: dict[tuple[Place, int], Record] = {}
    groups = [*evidence.live.values(), *(list(reads.values()) for reads in evidence.committed.values())]
    groups += [list(reads.values()) for reads in evidence.uncommitted.values()]
    differ = [
        read.at
        for reads in groups
        for read in reads
        if known.setdefault((read.place, read.offset), read).identity != read.identity
    ]
    return each("inconsistent-read", "two readers found different records there", differ)


def _served(evidence: Evidence) -> list[Anomaly]:
    there = {(read.key, read.sha256) for site in evidence.sites for read in evidence.log(site.models)}
    return each(
        "aborted-read",
        "a subscriber served a version that is not committed",
        (
            f"{entry.client} served {entry['model']}@{entry['number']} at {entry.t:.1f} s"
            for entry in evidence.told["serve"]
            if (f"{entry['model']}@{entry['number']}", entry["sha256"]) not in there
        ),
    )
