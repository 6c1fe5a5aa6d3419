"""Versions and what names them: numbers once and in order, one chain of hashes, cuts ahead, transactions whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record, cut_of, incarnation_of, is_version, number_of, positions, published, split

SHA256, SESSION, ATTEMPT = "streamsvm.sha256", "streamsvm.session", "streamsvm.transaction"


def check(
    models: Iterable[Record], aliases: Iterable[Record], audit: Iterable[Record], name: str, *, gated: bool = False
) -> list[Anomaly]:
    """Look for what is wrong with the versions of a model.

    `models, aliases, audit`: What the three topics hold, each in its order. `gated`: Whether each head must tell what a
    gate said.
    """
    models = list(models)
    versions = published(models, name)
    pointers = _pointers_of(name, aliases, audit)
    return [
        *strangers(models),
        *numbers(name, versions),
        *chain(versions),
        *links(versions),
        *cuts(versions),
        *sessions(versions, pointers.owners_and_heads),
        *_whole(versions, pointers),
        *_heads(name, versions, pointers),
        *_gate(name, pointers, gated=gated),
    ]


# ---------------------------------------------------------------- numbers


def strangers(models: Iterable[Record]) -> list[Anomaly]:
    """Readers of versions get nothing but versions, and tombstones."""
    strange = [f"{one.key} {one.at}" for one in models if one.committed and one.sha256 and not is_version(one)]
    return each("forged", "readers of versions get a record that is not a version", strange)


def numbers(name: str, versions: list[Record]) -> list[Anomaly]:
    """The numbers are 1, 2, 3, ... with no gap, in order, and none twice."""
    counts = Counter(map(number_of, versions))
    doubled = (f"{one.key} {one.at}" for one in versions if counts[number_of(one)] > 1)
    missing = sorted(set(range(1, max(counts, default=0) + 1)) - counts.keys())
    backwards = [
        f"{after.key} {after.at}" for before, after in pairwise(versions) if number_of(before) > number_of(after)
    ]
    return [
        *each("doubled-version", f"a number of {name} is committed more than once", doubled),
        *each("missing-version", f"{name} has a gap", (f"{name}@{number}" for number in missing)),
        *each("reordered", "a lower number follows a higher one", backwards),
    ]


def chain(versions: list[Record]) -> list[Anomaly]:
    """Each version is what its header and its key say, and names the hash of the one before it."""
    digests = {number_of(one): one.sha256 for one in versions}
    foreign = [one.at for one in versions if one.headers.get(SHA256) != one.sha256]
    named = [
        one.at
        for one in versions
        if one.value is None or f"{one.value.get('name')}@{one.value.get('version')}" != one.key
    ]
    orphans = [
        f"{one.key} {one.at}"
        for one in versions
        if one.value is not None
        and (number_of(one) == 1 or number_of(one) - 1 in digests)
        and one.value["lineage"]["parent"] != digests.get(number_of(one) - 1)
    ]
    return [
        *each("forged", "the header's hash is not the value's", foreign),
        *each("forged", "the value names another version than the key", named),
        *each("forged", "its parent is not the hash of the version before it", orphans),
    ]


def links(versions: list[Record]) -> list[Anomaly]:
    """Each version links to the greatest multiples of 2, 4, 8, ... below its number, but for its parent."""
    digests = {number_of(one): one.sha256 for one in versions}
    wrong = []
    for one in versions:
        number, told = number_of(one), (one.value or {}).get("lineage", {}).get("links")
        spans = [2**power for power in range(1, number.bit_length() + 1) if 2**power < number]
        due = sorted({(number - 1) // span * span for span in spans} - {number - 1}, reverse=True)
        if told is None:
            continue
        hashes = [link["sha256"] == digests.get(link["number"], link["sha256"]) for link in told]
        if [link["number"] for link in told] != due or not all(hashes):
            wrong.append(f"{one.key} {one.at}")
    return each("forged", "it does not link to the versions that it has to link to", wrong)


def cuts(versions: list[Record]) -> list[Anomaly]:
    """Within an incarnation each cut is past the one before it, and all have one base; incarnations do not return.

    A version that is trained with other options than the one before it may have the same cut.
    """
    back, based = [], []
    for before, after in pairwise(versions):
        old, new = incarnation_of(before), incarnation_of(after)
        if new < old:
            back.append(f"{after.key} goes back to incarnation {new}")
        elif new == old:
            again = cut_of(before) == cut_of(after) and _trained(before) != _trained(after)
            if not (again or precedes(cut_of(before), cut_of(after))):
                back.append(f"{after.key} {after.at}")
            bases = _base(before), _base(after)
            if any(bases[1].get(partition, at) != at for partition, at in bases[0].items()):
                based.append(f"{after.key} {after.at}")
    return [
        *each("reordered", "its cut is not past that of the version before it", back),
        *each("reordered", "its base is not that of the version before it", based),
    ]


def precedes(old: dict[int, tuple[int, int]], new: dict[int, tuple[int, int]]) -> bool:
    """Tell whether a cut is past another one in some partition, and behind it in none."""
    return old != new and all(new.get(partition, (-1, 0)) >= at for partition, at in old.items())


def _trained(version: Record) -> Any:
    """Return the options that a version was trained with."""
    return (version.value or {}).get("lineage", {}).get("configuration", {}).get("svm")


def _base(version: Record) -> dict[int, tuple[int, int]]:
    return positions((version.value or {}).get("lineage", {}).get("base", []))


def counts(versions: list[Record]) -> list[Anomaly]:
    """Where each record is a row, a version counts each offset between its base and its cut once."""
    wrong = []
    for one in versions:
        base, rows = _base(one), one.value["stream"]["rows"]
        seen = sum(offset - base[partition][0] for partition, (offset, _) in cut_of(one).items())
        if rows != seen:
            wrong.append(f"{one.key or cut_of(one)} counts {rows} rows of {seen} offsets")
    return each("mixed", "it does not count each row below its cut once", wrong)


def sessions(versions: list[Record], owners_and_heads: Iterable[Record]) -> list[Anomaly]:
    """A process that another one replaced never publishes again: sessions follow each other in whole blocks.

    An owner record tells that a process has taken over even if it publishes nothing.
    """
    by_number = {number_of(one): one for one in versions}
    in_models = [(one.headers.get(SESSION, ""), f"{one.key} {one.at}") for one in versions]
    in_aliases = []
    for one in owners_and_heads:
        if split(one.key)[1] == "owner":
            in_aliases.append((one.value["session"], one.at))
        elif (version := by_number.get(one.value["number"])) is not None:
            in_aliases.append((version.headers.get(SESSION, ""), f"{version.key} {version.at}"))
    zombies = dict.fromkeys([*_returning(in_models), *_returning(in_aliases)])
    return each("zombie", "its process had been replaced by another one", zombies)


def _returning(told: Iterable[tuple[str, str]]) -> Iterable[str]:
    ended: set[str] = set()
    for (before, _), (after, where) in pairwise(told):
        if before != after:
            ended.add(before)
        if after in ended:
            yield where


# --------------------------------------------------------------- pointers


@dataclass(frozen=True)
class _Pointers:
    """What the aliases topic and the audit trail hold of a trainer's versions."""

    owners_and_heads: list[Record]
    heads: list[Record]
    currents: list[Record]
    entries: list[Record]


def _pointers_of(name: str, aliases: Iterable[Record], audit: Iterable[Record]) -> _Pointers:
    written = [one for one in aliases if one.committed and one.value and split(one.key)[0] == name]
    return _Pointers(
        [one for one in written if split(one.key)[1] in ("head", "owner")],
        _final(one for one in written if split(one.key)[1] == "head"),
        _final(one for one in written if split(one.key)[1] == "current"),
        [one for one in audit if one.committed and _is_of_trainer(one.value, name)],
    )


def _final(pointers: Iterable[Record]) -> list[Record]:
    """Leave out what was written again to complete the attempt that it belongs to: its version has another offset."""
    return list({one.headers.get(ATTEMPT, one.at).split()[0]: one for one in pointers}.values())


def _is_of_trainer(entry: Any, name: str) -> bool:
    return (
        bool(entry)
        and (entry.get("name"), entry.get("by")) == (name, "trainer")
        and entry["event"] in ("alias_moved", "gate_refused")
    )


def _whole(versions: list[Record], pointers: _Pointers) -> list[Anomaly]:
    """A version stands with its head, its audit entry and, unless a gate refuses it, its alias; none without it."""
    there = {(number_of(one), one.sha256, one.offset) for one in versions}
    absent = [
        f"{one.key} {one.at} names {one.value['number']}"
        for one in (*pointers.heads, *pointers.currents)
        if (one.value["number"], one.value["sha256"], one.value["offset"]) not in there
    ]
    heads = {(one.value["number"], one.value["sha256"]) for one in pointers.heads}
    currents = {(one.value["number"], one.value["sha256"]) for one in pointers.currents}
    entries = {(one.value["to"], one.value["sha256"]): one.value["event"] for one in pointers.entries}
    lacking = []
    for one in versions:
        identity = number_of(one), one.sha256
        lacks = [] if identity in heads else ["head"]
        if identity not in entries:
            lacks.append("audit entry")
        elif entries[identity] == "alias_moved" and identity not in currents:
            lacks.append("alias")
        if lacks:
            lacking.append(f"{one.key} {one.at} without {' and '.join(lacks)}")
    identities = {(number_of(one), one.sha256) for one in versions}
    audited = [one.at for one in pointers.entries if (one.value["to"], one.value["sha256"]) not in identities]
    return [
        *each("torn-version", "it names a record that is not committed", absent),
        *each("torn-version", "it is committed without what its transaction also wrote", lacking),
        *each("torn-version", "the audit trail tells of a version that is not committed", audited),
    ]


def _heads(name: str, versions: list[Record], pointers: _Pointers) -> list[Anomaly]:
    """Heads do not go back, and each says of its version what the version says; head and audit trail tell once."""
    back = [after.at for before, after in pairwise(pointers.heads) if after.value["number"] < before.value["number"]]
    headed = Counter(one.value["number"] for one in pointers.heads)
    audited = Counter(one.value["to"] for one in pointers.entries)
    said = {(one.value["number"], one.value["sha256"]): one.value for one in pointers.heads}
    incarnations, elsewhere = [], []
    for one in versions:
        head = said.get((number_of(one), one.sha256))
        if head is not None and head["incarnation"] != incarnation_of(one):
            incarnations.append(f"{one.key} {one.at}")
        if head is not None and "cut" in head and positions(head["cut"]) != cut_of(one):
            elsewhere.append(f"{one.key} {one.at}")
    return [
        *each("reordered", "the head goes back", back),
        *each("doubled-version", "more than one head record names it", _more_than_once(name, headed)),
        *each("doubled-version", "more than one audit entry tells of it", _more_than_once(name, audited)),
        *each("forged", "its header tells another incarnation than its head", incarnations),
        *each("forged", "its head tells another cut", elsewhere),
    ]


def _more_than_once(name: str, counts: Counter[int]) -> Iterable[str]:
    return (f"{name}@{number}" for number, count in counts.items() if count > 1)


# -------------------------------------------------------------------- gate


def _gate(name: str, pointers: _Pointers, *, gated: bool) -> list[Anomaly]:
    """What the gate refuses, and nothing else, does not become current; the gate compares with what is current."""
    moved = {one.value["number"] for one in pointers.currents}
    events = {one.value["to"]: one.value["event"] for one in pointers.entries}
    compared, disobeyed, silent = [], [], []
    current = None
    for head in pointers.heads:
        number, gate = head.value["number"], head.value.get("gate")
        where = f"{name}@{number} {head.at}"
        refused = gate is not None and gate["outcome"] == "refused"
        if gate is None and gated:
            silent.append(where)
        if gate is not None and gate.get("against") != current:
            compared.append(f"{where} against {gate.get('against')}, not {current}")
        told = events.get(number, "") == "gate_refused"
        if gate is not None and (refused == (number in moved) or refused != told):
            disobeyed.append(where)
        if gate is not None:
            current = current if refused else number
        elif number in moved:
            current = number
    return [
        *each("disobeyed-gate", "its head tells of no gate", silent),
        *each("disobeyed-gate", "the gate compared it with another version than the current one", compared),
        *each("disobeyed-gate", "alias or audit trail do not follow what the gate said", disobeyed),
    ]
