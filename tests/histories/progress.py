"""Whether anything moves: stable offsets, versions and scores, within a bound after everything is well again."""

from __future__ import annotations

from collections import defaultdict

from tests.histories.anomalies import Anomaly, each
from tests.histories.evidence import Evidence, Place, Scoring, Site
from tests.histories.history import Entry
from tests.histories.scores import answers, fed, source_of
from tests.histories.versions import published, split

REFUSED = 78


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
    ends = _newest_ends(evidence, site.inputs[name])
    versions = published(evidence, site, name)
    cut = {part["partition"]: part["offset"] for part in versions[-1].value["lineage"]["cut"]} if versions else {}
    waiting = sum(max(end - cut.get(partition, 0), 0) for partition, end in ends.items())
    return f"{name}: {waiting} rows wait" if waiting > site.rows_per_version else ""


def _newest_ends(evidence: Evidence, topic: str) -> dict[int, int]:
    """Return the ends of the newest generation of a topic that may have been made anew."""
    told = [entry for entry in evidence.told["feed"] if entry["topic"] == topic]
    newest = max((entry.get("generation", 0) for entry in told), default=0)
    ends: dict[int, int] = defaultdict(int)
    for entry in told:
        if entry.get("generation", 0) == newest:
            ends[entry["partition"]] = max(ends[entry["partition"]], entry["last"] + 1)
    return ends


def _scorers(evidence: Evidence, end: Entry) -> list[Anomaly]:
    found: list[Anomaly] = []
    for scoring in evidence.scorings:
        known = {source_of(read) for read in answers(evidence, scoring)}
        last = _last_answers(evidence, scoring)
        waiting = [
            source
            for partition, offsets in fed(evidence, scoring.points).items()
            if _stands(evidence, end, last[f"{scoring.points}/{partition}"])
            for offset in sorted(offsets)
            if (source := f"{scoring.points}/{partition}/{offset}") not in known
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
    refused = [entry for entry in evidence.told["life"] if entry.get("exit") == REFUSED and not entry.get("expected")]
    return each(
        "refused-to-start",
        f"it ended with {REFUSED}",
        (f"{entry.client} at {entry.t:.1f} s: {entry.get('said', '')}" for entry in refused),
    )
