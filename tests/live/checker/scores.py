"""What a history adds to the invariants of scores: where groups stand, what scorers counted, and who was asked."""

from __future__ import annotations

from collections.abc import Iterable

from tests.live.checker.evidence import Evidence, Generation, Scoring
from tests.promise import answers as promised
from tests.promise.anomalies import Anomaly, each
from tests.promise.answers import SOURCE, Point, point_of
from tests.promise.records import Record

GOES_ON = "--scoring-on-gap"
"""What a person adds to the command of a scorer that is to read another topic of the name."""


def points_of(topic: str, generation: Generation) -> dict[Point, int]:
    """Return the points of a topic, and the partition of each."""
    return {
        (f"{topic}/{partition}/{offset}", record.id): partition
        for partition, records in generation.records.items()
        for offset, record in sorted(records.items())
    }


def answers(evidence: Evidence, scoring: Scoring) -> list[Record]:
    """Return the committed scores and letters."""
    return [*evidence.log(scoring.scores), *evidence.log(scoring.letters)]


def check(evidence: Evidence) -> list[Anomaly]:
    """Look for what is wrong with scores."""
    found: list[Anomaly] = []
    models = [record for site in evidence.sites for record in evidence.log(site.models)]
    for scoring in evidence.scorings:
        given = answers(evidence, scoring)
        each_topic = [points_of(scoring.points, one) for one in evidence.generations(scoring.points)]
        stands = positions(evidence, scoring)
        found += promised.once(given)
        found += promised.all_below(given, each_topic[-1], stands, f"group {scoring.group}")
        found += promised.fed(given, {point for points in each_topic for point in points})
        found += promised.by_versions(evidence.log(scoring.scores), models)
        found += _unasked(evidence, scoring) + _counted(evidence, scoring, given)
    return found


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


def _counted(evidence: Evidence, scoring: Scoring, given: Iterable[Record]) -> list[Anomaly]:
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
