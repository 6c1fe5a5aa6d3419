"""Transactions of the bare client: each is committed whole or not at all, as its client was told.

Each writes `RECORDS` records under its name, in two topics.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from tests.live.checker.anomalies import Anomaly, each
from tests.live.checker.evidence import Evidence
from tests.live.history import Entry

TOPICS: Final = ("left", "right")
RECORDS: Final = 4


def check(entries: Iterable[Entry]) -> list[Anomaly]:
    """Look for transactions that are torn, or not what their client was told."""
    evidence = Evidence(entries)
    there: Counter[str] = Counter()
    for topic in TOPICS:
        there.update(str(read.key) for read in evidence.log(topic))
    told = {entry["name"]: entry["outcome"] for entry in evidence.told["transact"] if entry.type != "invoke"}
    torn = [
        f"{name} ({there[name]} of {RECORDS}; told: {outcome})"
        for name, outcome in told.items()
        if 0 < there[name] < RECORDS
    ]
    read = [
        f"{name} ({there[name]} of {RECORDS})" for name, outcome in told.items() if outcome == "aborted" and there[name]
    ]
    lost = [
        f"{name} ({there[name]} of {RECORDS})"
        for name, outcome in told.items()
        if outcome == "committed" and there[name] < RECORDS
    ]
    return [
        *each("torn-transaction", "a part of it is committed and another is not", torn),
        *each("aborted-read", "its client was told that it is aborted, and it is committed", read),
        *each("lost-transaction", "its client was told that it is committed, and it is not, or not whole", lost),
    ]


def split(entries: Iterable[Entry]) -> list[str]:
    """Return the transactions whose records of one topic stand in several transactions of the broker.

    A marker takes an offset of its own: where one client alone writes, a gap between two records of a name shows one.
    """
    evidence = Evidence(entries)
    offsets: dict[tuple[str, str], list[int]] = defaultdict(list)
    for topic in TOPICS:
        for read in evidence.log(topic):
            offsets[topic, str(read.key)].append(read.offset)
    return sorted({name for (_, name), at in offsets.items() if max(at) - min(at) >= len(at)})
