"""Scores: each point that was fed is answered once, by a version that exists."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from tests.histories.anomalies import Anomaly, each
from tests.histories.evidence import Evidence, Read, Scoring
from tests.histories.versions import published

SOURCE = "streamsvm.source"
LETTER = "__streams.errors."


def source_of(read: Read) -> str:
    """Return topic/partition/offset of the point that a score, or a dead letter, answers."""
    return source_of_headers(read.headers)


def source_of_headers(headers: Mapping[str, str]) -> str:
    """Return the same, from the headers of the answer."""
    if SOURCE in headers:
        return headers[SOURCE]
    return "/".join(headers.get(f"{LETTER}{part}", "?") for part in ("topic", "partition", "offset"))


def fed(evidence: Evidence, topic: str) -> dict[int, set[int]]:
    """Return the acknowledged offsets of each partition."""
    offsets: dict[int, set[int]] = defaultdict(set)
    for entry in evidence.told["feed"]:
        if entry["topic"] == topic:
            offsets[entry["partition"]].update(range(entry["first"], entry["last"] + 1))
    return offsets


def answers(evidence: Evidence, scoring: Scoring) -> list[Read]:
    """Return the committed scores and letters."""
    return [*evidence.log(scoring.scores), *evidence.log(scoring.letters)]


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for what is wrong with scores."""
    found: list[Anomaly] = []
    for scoring in evidence.scorings:
        given = answers(evidence, scoring)
        counts = Counter(map(source_of, given))
        found += each(
            "doubled-score",
            "the point is answered more than once",
            (f"{source} at {_places(given, source)}" for source, count in counts.items() if count > 1),
        )
        found += _unanswered(evidence, scoring, counts.keys())
        found += _counted(evidence, scoring, given)
        found += _versions(evidence, scoring)
    return found


def _places(given: Iterable[Read], source: str) -> str:
    return " and ".join(read.at for read in given if source_of(read) == source)


def _unanswered(evidence: Evidence, scoring: Scoring, answered: Iterable[str]) -> list[Anomaly]:
    known, lost = set(answered), []
    stored = fed(evidence, scoring.points)
    for partition, position in positions(evidence, scoring).items():
        passed = (offset for offset in stored[partition] if offset < position)
        lost += [source for offset in passed if (source := f"{scoring.points}/{partition}/{offset}") not in known]
    found = each("lost-score", f"group {scoring.group} has passed the point, and nothing answers it", sorted(lost))
    all_ = {f"{scoring.points}/{partition}/{offset}" for partition, offsets in stored.items() for offset in offsets}
    return found + each("phantom", "it answers a point that was never fed", sorted(known - all_))


def positions(evidence: Evidence, scoring: Scoring) -> dict[int, int]:
    """Return where the group stood at the end."""
    return {
        entry["partition"]: entry["offset"]
        for entry in evidence.told["position"]
        if (entry["group"], entry["topic"]) == (scoring.group, scoring.points)
    }


def _counted(evidence: Evidence, scoring: Scoring, given: list[Read]) -> list[Anomaly]:
    """Compare what scorers counted as committed with what is there: a counted score that is not there is lost."""
    said: dict[str, int] = {}
    for entry in evidence.told["score"]:
        if entry["group"] == scoring.group:
            said[entry.client] = max(said.get(entry.client, 0), entry["points"])
    there = sum(1 for read in given if SOURCE in read.headers)
    if sum(said.values()) <= there:
        return []
    why = f"scorers counted {sum(said.values())} points as scored, and {there} scores are committed"
    return [Anomaly("lost-score", why, tuple(said))]


def _versions(evidence: Evidence, scoring: Scoring) -> list[Anomaly]:
    hashes = {
        read.key: read.sha256
        for site in evidence.sites
        for name in site.inputs
        for read in published(evidence, site, name)
    }
    forged = []
    for read in evidence.log(scoring.scores):
        said = read.headers.get("streamsvm.model.sha256")
        named = f"{read.value['model']}@{read.value['version']}" if read.value else "?"
        if hashes.get(named) is None or hashes[named] != said:
            forged.append(f"{read.at} by {named}")
    return each("forged-score", "no committed version has that name and hash", forged)
