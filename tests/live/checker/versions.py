"""What a history adds to the invariants of versions and moves: what clients were told, and what was fed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.live.checker.evidence import Evidence, Site
from tests.live.history import Entry
from tests.promise import moves, states, versions
from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record, cut_of, number_of, published as committed

NOTHING_DONE = ("already", "no version is pinned", "does not exist")
"""What a move that finds itself done says; it writes nothing."""


def published(evidence: Evidence, site: Site, name: str) -> list[Record]:
    """Return the committed versions of a model, in the order of the topic."""
    return committed(evidence.log(site.models), name)


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for what is wrong with versions, with what workers left for them, and with moves."""
    found: list[Anomaly] = []
    for site in evidence.sites:
        models, aliases, audit = (evidence.log(topic) for topic in (site.models, site.aliases, site.audit))
        for name in site.inputs:
            found += versions.check(models, aliases, audit, name)
            found += _lost(evidence, site, name) + _phantom(evidence, site, name)
        for name, topic in site.coresets.items():
            found += _of_workers(evidence, topic, committed(models, name))
        found += moves.check(aliases, audit, site.inputs)
        found += _answers(evidence.told["move"], site.inputs, moves.entries_of(audit))
    return found


def _of_workers(evidence: Evidence, topic: str, made: list[Record]) -> list[Anomaly]:
    by_partition: dict[int, list[Record]] = defaultdict(list)
    for record in evidence.log(topic):
        by_partition[record.partition].append(record)
    left = {partition: states.look(records) for partition, records in by_partition.items()}
    return [*(anomaly for one in left.values() for anomaly in one.anomalies()), *states.adopted(made, left)]


def _lost(evidence: Evidence, site: Site, name: str) -> list[Anomaly]:
    there = set(map(number_of, published(evidence, site, name)))
    told = {entry["number"]: entry for entry in evidence.told["publish"] if entry["model"] == name}
    aborted = {read.key: read.at for read in evidence.aborted(site.models)}
    return each(
        "lost-version",
        f"a trainer was told that the version is committed, and the models topic of {name} does not hold it",
        (
            f"{name}@{number} told by {entry.client} at {entry.t:.1f} s"
            + (f", uncommitted at {aborted[f'{name}@{number}']}" if f"{name}@{number}" in aborted else "")
            for number, entry in sorted(told.items())
            if number not in there
        ),
    )


def _phantom(evidence: Evidence, site: Site, name: str) -> list[Anomaly]:
    """Compare cuts with what was acknowledged in each partition, over all generations of a topic made anew."""
    ends: dict[int, int] = defaultdict(int)
    for generation in evidence.generations(site.inputs[name]):
        for partition in generation.records:
            ends[partition] = max(ends[partition], generation.end(partition))
    beyond = [
        f"{read.key} {read.at}"
        for read in published(evidence, site, name)
        if any(at[0] > ends[partition] for partition, at in cut_of(read).items())
    ]
    return each("phantom", "its cut lies beyond what was ever fed", beyond)


# ------------------------------------------------------------------ moves


def _answers(told: Iterable[Entry], models: Mapping[str, str], entries: Iterable[Record]) -> list[Anomaly]:
    """Compare the last word on each call with what it did, by the reason that it gave: unique to the call."""
    by_reason: dict[str, list[Record]] = defaultdict(list)
    for read in entries:
        by_reason[read.value.get("reason", "")].append(read)
    answers = {entry["reason"]: entry for entry in told if entry["model"] in models}
    return [anomaly for reason, answer in answers.items() for anomaly in _answered(reason, answer, by_reason[reason])]


def _answered(reason: str, answer: Entry, entries: list[Record]) -> list[Anomaly]:
    call = f"{answer['command']} {reason}"
    if len(entries) > 1:
        return [Anomaly("doubled-move", f"{call} is in the audit trail twice", tuple(read.at for read in entries))]
    done_before = any(word in answer.get("said", "") for word in NOTHING_DONE)
    if answer.type == "ok" and not entries and not done_before:
        return [Anomaly("lost-move", f"{call} was answered with: {answer.get('said')}", (reason,))]
    if answer.type == "fail" and entries:
        return [Anomaly("refused-but-done", f"{call} was answered with: {answer.get('said')}", (entries[0].at,))]
    return []
