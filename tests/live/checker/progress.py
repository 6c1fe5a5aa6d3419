"""Whether anything moves: stable offsets, versions and scores, within a bound after everything is well again."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from tests.live.checker.evidence import Evidence, Place, Scoring, Site
from tests.live.checker.origins import ids_of
from tests.live.checker.scores import answers, points_of
from tests.live.checker.versions import published
from tests.live.history import Entry
from tests.promise.anomalies import Anomaly, each
from tests.promise.answers import is_answered, point_of, source_of
from tests.promise.records import split

REFUSED = 78
AWAY_S = 5.0
"""For so long after a topic was made again somebody may still say that it does not exist."""


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for what stands still."""
    found = _readers(evidence)
    if evidence.told["end"] and evidence.told["heal"]:
        end = evidence.told["end"][-1]
        found += _trainers(evidence, end) + _scorers(evidence, end)
    return found + _refusals(evidence)


def _stands(evidence: Evidence, end: Entry, last_t: float) -> bool:
    """Tell whether what waits at the end has stood still for the bound, nothing being wrong; or whether the run says
    that nothing waits, which the checker believes no more than anything else."""
    since = max(evidence.told["heal"][-1].t, last_t)
    return end.t - since >= evidence.bound_s or bool(end.get("settled"))


# ------------------------------------------------------------ stable offsets


def _readers(evidence: Evidence) -> list[Anomaly]:
    samples: dict[Place, list[Entry]] = defaultdict(list)
    for entry in evidence.told["watermark"]:
        samples[entry["topic"], entry["partition"]].append(entry)
    stood: list[tuple[Place, float, float]] = []
    for place, seen in samples.items():
        span = _longest(evidence, seen)
        if span is not None:
            stood.append((place, *span))
    found = each(
        "stuck-reader",
        f"the last stable offset stood still below the end for more than {evidence.bound_s:g} s",
        (
            f"{topic}[{partition}] for {end - begin:.0f} s from {begin:.0f} s on"
            for (topic, partition), begin, end in stood
        ),
    )
    return found + _green(evidence, stood)


def _longest(evidence: Evidence, seen: list[Entry]) -> tuple[float, float] | None:
    """Return the longest time beyond the bound for which a stable offset stood still below the end, in calm."""
    longest, begun, at = (0.0, 0.0), -1.0, -1
    for entry in seen:
        if entry["stable"] >= entry["end"] or entry["stable"] != at:
            begun, at = entry.t, entry["stable"]
        begin = max(begun, evidence.calm_since(entry.t))
        if entry["stable"] < entry["end"] and entry.t - begin > longest[1] - longest[0]:
            longest = begin, entry.t
    return longest if longest[1] - longest[0] > evidence.bound_s else None


def _green(evidence: Evidence, stood: list[tuple[Place, float, float]]) -> list[Anomaly]:
    """Tell which daemon that writes there called itself healthy and ready until the end of such a time."""
    green = []
    for (topic, partition), begin, end in stood:
        said: dict[str, bool] = defaultdict(lambda: True)
        for entry in evidence.told["health"]:
            if topic in entry["writes"] and begin + evidence.bound_s <= entry.t <= end:
                said[entry["daemon"]] &= entry["healthy"]
        green += [f"{daemon} on {topic}[{partition}]" for daemon, well in said.items() if well]
    return each("stuck-and-green", "it was healthy all the while", green)


# ------------------------------------------------------------------- input


def _trainers(evidence: Evidence, end: Entry) -> list[Anomaly]:
    last: dict[str, float] = defaultdict(float)
    for (_, place), reads in evidence.live.items():
        for read in reads:
            if any(place[0] == site.models for site in evidence.sites):
                name = split(read.key)[0]
                last[name] = max(last[name], read.t)
    return each(
        "stuck-trainer",
        f"points wait, and for {evidence.bound_s:g} s no version has come, nothing being wrong",
        (
            stuck
            for site in evidence.sites
            for name in site.inputs
            if (stuck := behind(evidence, site, name)) and _stands(evidence, end, last[name])
        ),
    )


def behind(evidence: Evidence, site: Site, name: str) -> str:
    """Say how far a model is behind its input if that is more than a version's rows; else nothing."""
    newest = evidence.generations(site.inputs[name])[-1]
    versions = [read for read in published(evidence, site, name) if topic_ids(evidence, site, name) == ids_of(read)]
    cut = {part["partition"]: part["offset"] for part in versions[-1].value["lineage"]["cut"]} if versions else {}
    waiting = sum(max(newest.end(partition) - cut.get(partition, 0), 0) for partition in newest.records)
    return f"{name}: {waiting} rows wait" if waiting > site.rows_per_version else ""


def topic_ids(evidence: Evidence, site: Site, name: str) -> tuple[str, ...]:
    """Return the ids of the newest topics that a model is made of."""
    topics = [site.inputs[name], *([site.joins[name].labels] if name in site.joins else [])]
    return tuple(evidence.generations(topic)[-1].topic_id for topic in topics)


def _scorers(evidence: Evidence, end: Entry) -> list[Anomaly]:
    found: list[Anomaly] = []
    for scoring in evidence.scorings:
        known = {point_of(read) for read in answers(evidence, scoring)}
        last = _last_answers(evidence, scoring)
        waiting = [
            point[0]
            for point, partition in points_of(scoring.points, evidence.generations(scoring.points)[-1]).items()
            if not is_answered(point, known) and _stands(evidence, end, last[f"{scoring.points}/{partition}"])
        ]
        why = (
            f"points wait, and for {evidence.bound_s:g} s nothing of their partition was answered, nothing being wrong"
        )
        found += each("stuck-scorer", why, waiting)
    return found


def _last_answers(evidence: Evidence, scoring: Scoring) -> dict[str, float]:
    """Return when the last answer to a point of each partition was seen by a reader."""
    last: dict[str, float] = defaultdict(float)
    for (_, place), reads in evidence.live.items():
        if place[0] in (scoring.scores, scoring.letters):
            for read in reads:
                partition = source_of(read).rpartition("/")[0]
                last[partition] = max(last[partition], read.t)
    return last


def _refusals(evidence: Evidence) -> list[Anomaly]:
    refused = [entry for entry in evidence.told["life"] if entry.get("exit") == REFUSED]
    return each(
        "refused-to-start",
        f"it ended with {REFUSED}",
        (
            f"{entry.client} at {entry.t:.1f} s: {entry.get('said', '')}"
            for entry in refused
            if not _is_explained(evidence, entry)
        ),
    )


def _is_explained(evidence: Evidence, entry: Entry) -> bool:
    """Tell whether a refusal names a topic's id and that of the one made in its place, or a topic that was away."""
    said = entry.get("said", "")
    for generations in evidence.topics():
        if sum(one.topic_id in said for one in generations if one.topic_id) >= 2:
            return True
        away = ((old.deleted_t, new.made_t + AWAY_S) for old, new in pairwise(generations))
        if "exist" in said and any(begin <= entry.t <= end for begin, end in away):
            return True
    return False
