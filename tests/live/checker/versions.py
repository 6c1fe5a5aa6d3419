"""Versions and what names them: numbers once and in order, one chain of hashes, transactions whole; moves likewise."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from tests.live.checker.anomalies import Anomaly, each
from tests.live.checker.evidence import Evidence, Read, Site
from tests.live.history import Entry

OWN_ALIASES = ("head", "owner", "retired", "current")
"""Keys that trainers write; all others are people's."""

NOTHING_DONE = ("already", "no version is pinned", "does not exist")
"""What a move that finds itself done says; it writes nothing."""


def split(key: str | None) -> tuple[str, str]:
    """Return name and number, or name and alias, of a key."""
    name, _, rest = (key or "").rpartition("@")
    return name, rest


def published(evidence: Evidence, site: Site, name: str) -> list[Read]:
    """Return the committed versions of a model, in the order of the topic."""
    return [read for read in evidence.log(site.models) if split(read.key)[0] == name and read.sha256 is not None]


def number_of(read: Read) -> int:
    """Return the number in a version's key."""
    return int(split(read.key)[1])


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for what is wrong with versions and moves."""
    found: list[Anomaly] = []
    for site in evidence.sites:
        for name in site.inputs:
            versions = published(evidence, site, name)
            found += _numbers(evidence, site, name, versions)
            found += _chain(versions)
            found += _sessions(versions)
            found += _cuts(evidence, site, name, versions)
            found += _pointers(evidence, site, name, versions)
        found += _moves(evidence, site)
    return found


# ---------------------------------------------------------------- numbers


def _numbers(evidence: Evidence, site: Site, name: str, versions: list[Read]) -> list[Anomaly]:
    numbers = [number_of(read) for read in versions]
    counts = Counter(numbers)
    found = each(
        "doubled-version",
        f"a number of {name} is committed more than once",
        (f"{name}@{number_of(read)} {read.at}" for read in versions if counts[number_of(read)] > 1),
    )
    missing = sorted(set(range(1, max(numbers, default=0) + 1)) - counts.keys())
    found += each("missing-version", f"{name} has a gap", (f"{name}@{number}" for number in missing))
    backwards = [after for before, after in pairwise(versions) if number_of(after) < number_of(before)]
    found += each("reordered", "a lower number follows a higher one", (f"{read.key} {read.at}" for read in backwards))
    return found + _lost(evidence, site, name, counts)


def _lost(evidence: Evidence, site: Site, name: str, counts: Mapping[int, int]) -> list[Anomaly]:
    told = {entry["number"]: entry for entry in evidence.told["publish"] if entry["model"] == name}
    aborted = {read.key: read.at for read in evidence.aborted(site.models)}
    return each(
        "lost-version",
        f"a trainer was told that the version is committed, and the models topic of {name} does not hold it",
        (
            f"{name}@{number} told by {entry.client} at {entry.t:.1f} s"
            + (f", uncommitted at {aborted[f'{name}@{number}']}" if f"{name}@{number}" in aborted else "")
            for number, entry in sorted(told.items())
            if number not in counts
        ),
    )


def _chain(versions: list[Read]) -> list[Anomaly]:
    digests = {number_of(read): read.sha256 for read in versions}
    foreign = [read for read in versions if read.headers.get("streamsvm.sha256") != read.sha256]
    named = [
        read
        for read in versions
        if read.value is None or f"{read.value.get('name')}@{read.value.get('version')}" != read.key
    ]
    found = each("forged", "the header's hash is not the value's", (read.at for read in foreign))
    found += each("forged", "the value names another version than the key", (read.at for read in named))
    orphans = [
        f"{read.key} {read.at}"
        for read in versions
        if read.value is not None
        and (number_of(read) == 1 or number_of(read) - 1 in digests)
        and read.value["lineage"]["parent"] != digests.get(number_of(read) - 1)
    ]
    return found + each("forged", "its parent is not the hash of the version before it", orphans)


def _sessions(versions: list[Read]) -> list[Anomaly]:
    """A process that was replaced never publishes again: sessions follow each other in whole blocks."""
    ended: set[str] = set()
    zombies = []
    for before, after in pairwise(versions):
        old, new = (read.headers.get("streamsvm.session", "") for read in (before, after))
        if old != new:
            ended.add(old)
        if new in ended:
            zombies.append(f"{after.key} {after.at}")
    return each("zombie", "its process had been replaced by another one", zombies)


def _cuts(evidence: Evidence, site: Site, name: str, versions: list[Read]) -> list[Anomaly]:
    back = []
    for before, after in pairwise(versions):
        if _incarnation(after) < _incarnation(before):
            back.append(f"{after.key} goes back to incarnation {_incarnation(after)}")
        elif _incarnation(after) == _incarnation(before) and not _precedes(before, after):
            back.append(f"{after.key} {after.at}")
    found = each("reordered", "its cut is not past that of the version before it", back)
    fed = _fed(evidence, site.inputs[name])
    beyond = [
        f"{read.key} {read.at}"
        for read in versions
        if any(at[0] > fed[partition] for partition, at in _cut(read).items())
    ]
    return found + each("phantom", "its cut lies beyond what was ever fed", beyond)


def _incarnation(read: Read) -> int:
    return int(read.headers.get("streamsvm.incarnation", "1"))


def _cut(read: Read) -> dict[int, tuple[int, int]]:
    """Return the offset of each partition's part, and the row, which moves alone where labels come later."""
    parts = [] if read.value is None else read.value["lineage"]["cut"]
    return {part["partition"]: (part["offset"], part["row"]) for part in parts}


def _precedes(before: Read, after: Read) -> bool:
    old, new = _cut(before), _cut(after)
    return old != new and all(new.get(partition, (-1, 0)) >= at for partition, at in old.items())


def _fed(evidence: Evidence, topic: str) -> dict[int, int]:
    """Return the end of what was acknowledged in each partition, over all generations of a topic made anew."""
    ends: dict[int, int] = defaultdict(int)
    for generation in evidence.generations(topic):
        for partition in generation.records:
            ends[partition] = max(ends[partition], generation.end(partition))
    return ends


# --------------------------------------------------------------- pointers


def _pointers(evidence: Evidence, site: Site, name: str, versions: list[Read]) -> list[Anomaly]:
    aliases = evidence.log(site.aliases)
    heads = [read for read in aliases if read.key == f"{name}@head" and read.value]
    currents = [read for read in aliases if read.key == f"{name}@current" and read.value]
    entries = [
        read
        for read in evidence.log(site.audit)
        if read.value
        and read.value.get("name") == name
        and read.value.get("by") == "trainer"
        and read.value["event"] in ("alias_moved", "gate_refused")
    ]
    there = {(number_of(read), read.sha256, read.offset) for read in versions}
    found = _named_but_absent(there, [*heads, *currents])
    by_head = {(read.value["number"], read.value["sha256"]) for read in heads}
    by_alias = {(read.value["number"], read.value["sha256"]) for read in currents}
    by_audit = {(read.value["to"], read.value["sha256"]): read.value["event"] for read in entries}
    lacking = []
    for read in versions:
        identity = number_of(read), read.sha256
        lacks = [] if identity in by_head else ["head"]
        if identity not in by_audit:
            lacks.append("audit entry")
        elif by_audit[identity] == "alias_moved" and identity not in by_alias:
            lacks.append("alias")
        if lacks:
            lacking.append(f"{read.key} {read.at} without {' and '.join(lacks)}")
    found += each("torn-version", "it is committed without what its transaction also wrote", lacking)
    identities = {(number_of(read), read.sha256) for read in versions}
    audited = [read.at for read in entries if (read.value["to"], read.value["sha256"]) not in identities]
    found += each("torn-version", "the audit trail tells of a version that is not committed", audited)
    return found + _order_of_pointers(name, heads, entries) + _incarnations(heads, versions)


def _named_but_absent(there: set[tuple[int, str | None, int]], pointers: list[Read]) -> list[Anomaly]:
    absent = [
        f"{read.key} {read.at} names {read.value['number']}"
        for read in pointers
        if (read.value["number"], read.value["sha256"], read.value["offset"]) not in there
    ]
    return each("torn-version", "it names a record that is not committed", absent)


def _order_of_pointers(name: str, heads: list[Read], entries: list[Read]) -> list[Anomaly]:
    numbers = [read.value["number"] for read in heads]
    back = [after.at for before, after in pairwise(heads) if after.value["number"] < before.value["number"]]
    found = each("reordered", "the head goes back", back)
    found += each(
        "doubled-version",
        "more than one head record names it",
        (f"{name}@{number}" for number, count in Counter(numbers).items() if count > 1),
    )
    told = Counter(read.value["to"] for read in entries)
    return found + each(
        "doubled-version",
        "more than one audit entry tells of it",
        (f"{name}@{number}" for number, count in told.items() if count > 1),
    )


def _incarnations(heads: list[Read], versions: list[Read]) -> list[Anomaly]:
    said = {(read.value["number"], read.value["sha256"]): read.value["incarnation"] for read in heads}
    differ = [
        f"{read.key} {read.at}"
        for read in versions
        if said.get((number_of(read), read.sha256), _incarnation(read)) != _incarnation(read)
    ]
    return each("forged", "its header tells another incarnation than its head", differ)


# ------------------------------------------------------------------ moves


def _moves(evidence: Evidence, site: Site) -> list[Anomaly]:
    entries = [read for read in evidence.log(site.audit) if read.value and read.value.get("by") != "trainer"]
    by_reason: dict[str, list[Read]] = defaultdict(list)
    for read in entries:
        by_reason[read.value.get("reason", "")].append(read)
    found: list[Anomaly] = []
    for reason, answer in _answers(evidence.told["move"], site.inputs).items():
        found += _answered(reason, answer, by_reason.get(reason, []))
    return found + _sequences(evidence, site, entries)


def _answers(told: Iterable[Entry], models: Mapping[str, str]) -> dict[str, Entry]:
    """Return the last word on each call, by the reason that it gave: unique to the call."""
    return {entry["reason"]: entry for entry in told if entry["model"] in models}


def _answered(reason: str, answer: Entry, entries: list[Read]) -> list[Anomaly]:
    call = f"{answer['command']} {reason}"
    if len(entries) > 1:
        return [Anomaly("doubled-move", f"{call} is in the audit trail twice", tuple(read.at for read in entries))]
    done_before = any(word in answer.get("said", "") for word in NOTHING_DONE)
    if answer.type == "ok" and not entries and not done_before:
        return [Anomaly("lost-move", f"{call} was answered with: {answer.get('said')}", (reason,))]
    if answer.type == "fail" and entries:
        return [Anomaly("refused-but-done", f"{call} was answered with: {answer.get('said')}", (entries[0].at,))]
    return []


def _sequences(evidence: Evidence, site: Site, entries: list[Read]) -> list[Anomaly]:
    """Compare, for each key that people move, what the aliases and what the audit trail say, step by step."""
    moved: dict[str, list[Any]] = defaultdict(list)
    audited: dict[str, list[Any]] = defaultdict(list)
    for read in evidence.log(site.aliases):
        name, alias = split(read.key)
        if name in site.inputs and alias not in OWN_ALIASES:
            moved[read.key or ""].append(read.value["number"] if read.value else None)
    for read in entries:
        if "alias" in read.value:
            audited[read.value["alias"]].append(read.value["to"])
    return each(
        "torn-move",
        "aliases and audit trail tell of different moves",
        (key for key in sorted(moved.keys() | audited.keys()) if moved[key] != audited[key]),
    )
