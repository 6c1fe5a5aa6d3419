"""Scores: each point that was fed is answered once, by a version that exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Set
from typing import Any

from tests.live.checker.anomalies import Anomaly, each
from tests.live.checker.evidence import Evidence, Generation, Read, Scoring
from tests.live.checker.versions import published

SOURCE = "streamsvm.source"
LETTER = "__streams.errors."
GOES_ON = "--scoring-on-gap"
"""What a person adds to the command of a scorer that is to read another topic of the name."""


def source_of(read: Read) -> str:
    """Return topic/partition/offset of the point that a score, or a dead letter, answers."""
    return source_of_headers(read.headers)


def source_of_headers(headers: Mapping[str, str]) -> str:
    """Return the same, from the headers of the answer."""
    if SOURCE in headers:
        return headers[SOURCE]
    return "/".join(headers.get(f"{LETTER}{part}", "?") for part in ("topic", "partition", "offset"))


Point = tuple[str, Any]
"""Where a point stands, and its id: the place alone may be one of several topics of a name; a letter has no id."""


def point_of(read: Read) -> Point:
    """Return the point that a score, or a dead letter, answers."""
    return source_of(read), read.value["id"] if SOURCE in read.headers and read.value else None


def points_of(topic: str, generation: Generation) -> dict[Point, int]:
    """Return the points of a topic, and the partition of each."""
    return {
        (f"{topic}/{partition}/{offset}", record.id): partition
        for partition, records in generation.records.items()
        for offset, record in sorted(records.items())
    }


def is_answered(point: Point, known: Container[Point]) -> bool:
    """Tell whether a point is among those answered, by a score or by a letter."""
    return point in known or (point[0], None) in known


def answers(evidence: Evidence, scoring: Scoring) -> list[Read]:
    """Return the committed scores and letters."""
    return [*evidence.log(scoring.scores), *evidence.log(scoring.letters)]


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for what is wrong with scores."""
    found: list[Anomaly] = []
    for scoring in evidence.scorings:
        given = answers(evidence, scoring)
        counts = Counter(map(point_of, given))
        found += each(
            "doubled-score",
            "the point is answered more than once",
            (f"{point[0]} at {_places(given, point)}" for point, count in counts.items() if count > 1),
        )
        found += _unanswered(evidence, scoring, counts.keys())
        found += _unasked(evidence, scoring)
        found += _counted(evidence, scoring, given)
        found += _versions(evidence, scoring)
    return found


def _places(given: Iterable[Read], point: Point) -> str:
    return " and ".join(read.at for read in given if point_of(read) == point)


def _unanswered(evidence: Evidence, scoring: Scoring, known: Set[Point]) -> list[Anomaly]:
    generations, stands = evidence.generations(scoring.points), positions(evidence, scoring)
    lost = [
        point[0]
        for point, partition in points_of(scoring.points, generations[-1]).items()
        if int(point[0].rpartition("/")[2]) < stands.get(partition, 0) and not is_answered(point, known)
    ]
    found = each("lost-score", f"group {scoring.group} has passed the point, and nothing answers it", lost)
    all_ = {point for generation in generations for point in points_of(scoring.points, generation)}
    sources = {source for source, _ in all_}
    strange = (point for point in known if (point[1] is not None or point[0] not in sources) and point not in all_)
    return found + each("phantom", "it answers a point that was never fed", sorted(source for source, _ in strange))


def _unasked(evidence: Evidence, scoring: Scoring) -> list[Anomaly]:
    """Where a scorer is to stop before another topic of the name, none may answer it before one was told to."""
    if scoring.on_gap != "fail":
        return []
    told = [entry.t for entry in evidence.told["life"] if GOES_ON in entry.get("added", ())]
    begun = min(told, default=float("inf"))
    newer = {p for one in evidence.generations(scoring.points)[1:] for p in points_of(scoring.points, one)}
    early = [
        read.at
        for _, place, reads in evidence.live_committed()
        if place[0] == scoring.scores
        for read in reads
        if read.t < begun and SOURCE in read.headers and point_of(read) in newer
    ]
    return each("unasked", f"group {scoring.group} answered a topic made again, and nobody had told it to", early)


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
