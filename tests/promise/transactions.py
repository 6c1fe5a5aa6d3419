"""Transactions of a client that names each of them: committed whole or not at all, as the client was told.

The key of each record is the name of its transaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record


def check(records: Iterable[Record], told: Mapping[str, str], parts: int) -> list[Anomaly]:
    """Look for transactions that are torn, or not what their client was told.

    Parameters
    ----------
    records : iterable of Record
        What is committed in the end.
    told : mapping of str to str
        Of each transaction the client's answer: "committed", "aborted" or "unknown".
    parts : int
        How many records each has.
    """
    there = Counter(str(one.key) for one in records if one.committed)
    torn = [
        f"{name} ({there[name]} of {parts}; told: {said})" for name, said in told.items() if 0 < there[name] < parts
    ]
    done = [f"{name} ({there[name]} of {parts})" for name, said in told.items() if said == "aborted" and there[name]]
    lost = [
        f"{name} ({there[name]} of {parts})"
        for name, said in told.items()
        if said == "committed" and there[name] < parts
    ]
    return [
        *each("torn-transaction", "a part of it is committed and another is not", torn),
        *each("aborted-read", "its client was told that it is aborted, and it is committed", done),
        *each("lost-transaction", "its client was told that it is committed, and it is not, or not whole", lost),
    ]


def parted(records: Iterable[Record]) -> list[str]:
    """Return the transactions whose records of one topic stand in several transactions of the broker.

    A marker takes an offset of its own: where one client alone writes, a gap between two records of a name shows one.
    """
    offsets: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in records:
        offsets[one.topic, str(one.key)].append(one.offset)
    return sorted({name for (_, name), at in offsets.items() if max(at) - min(at) >= len(at)})
