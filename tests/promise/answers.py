"""Answers: each point that was fed is answered once, by a score of a version that exists, or by a dead letter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

from tests.promise.anomalies import Anomaly, each
from tests.promise.records import Record, is_version

SOURCE = "streamsvm.source"
LETTER = "__streams.errors."

Point = tuple[str, Any]
"""Where a point stands, and its id: the place alone may be one of several topics of a name; a letter has no id."""


def source_of(answer: Record) -> str:
    """Return topic/partition/offset of the point that a score, or a dead letter, answers."""
    return source_of_headers(answer.headers)


def source_of_headers(headers: Mapping[str, str]) -> str:
    """Return the same, from the headers of the answer."""
    if SOURCE in headers:
        return headers[SOURCE]
    return "/".join(headers.get(f"{LETTER}{part}", "?") for part in ("topic", "partition", "offset"))


def point_of(answer: Record) -> Point:
    """Return the point that a score, or a dead letter, answers."""
    return source_of(answer), answer.value["id"] if SOURCE in answer.headers and answer.value else None


def is_answered(point: Point, known: Container[Point]) -> bool:
    """Tell whether a point is among those answered, by a score or by a letter."""
    return point in known or (point[0], None) in known


def once(answers: Collection[Record]) -> list[Anomaly]:
    """No point is answered twice."""
    counts = Counter(map(point_of, answers))
    doubled = (
        f"{point[0]} at {' and '.join(one.at for one in answers if point_of(one) == point)}"
        for point, count in counts.items()
        if count > 1
    )
    return each("doubled-score", "the point is answered more than once", doubled)


def all_below(
    answers: Iterable[Record], points: Mapping[Point, int], positions: Mapping[int, int], who: str
) -> list[Anomaly]:
    """Whoever stands behind a point has answered it.

    `points`: The partition of each point that was fed. `positions`: Of each partition, the next offset that is to be
    read. `who`: Who stands there.
    """
    known = set(map(point_of, answers))
    lost = [
        point[0]
        for point, partition in points.items()
        if _offset(point) < positions.get(partition, 0) and not is_answered(point, known)
    ]
    return each("lost-score", f"{who} has passed the point, and nothing answers it", lost)


def fed(answers: Iterable[Record], points: Collection[Point]) -> list[Anomaly]:
    """Only points that were fed are answered."""
    sources = {source for source, _ in points}
    strange = sorted(
        {
            source
            for source, id_ in map(point_of, answers)
            if (source not in sources if id_ is None else (source, id_) not in points)
        }
    )
    return each("phantom", "it answers a point that was never fed", strange)


def by_versions(scores: Iterable[Record], models: Iterable[Record]) -> list[Anomaly]:
    """Each score names a committed version and its hash."""
    hashes = {one.key: one.sha256 for one in models if one.committed and is_version(one)}
    forged = []
    for one in scores:
        named = f"{one.value['model']}@{one.value['version']}" if one.value else "?"
        if hashes.get(named) is None or hashes[named] != one.headers.get("streamsvm.model.sha256"):
            forged.append(f"{one.at} by {named}")
    return each("forged-score", "no committed version has that name and hash", forged)


def _offset(point: Point) -> int:
    return int(point[0].rpartition("/")[2])


# ---------------------------------------------------------------- letters


Row = tuple[str, int, int]
"""Topic, partition and offset of a row that is refused."""


def refused_rows(letters: Iterable[Record]) -> set[Row]:
    """Return the rows that dead letters are of."""
    return {row_of(source_of(one)) for one in letters if one.committed}


def row_of(source: str) -> Row:
    """Return the place that is written topic/partition/offset."""
    topic, partition, offset = source.rsplit("/", 2)
    return topic, int(partition), int(offset)


def letters_below(letters: Iterable[Record], due: Iterable[Row], positions: Mapping[int, int]) -> list[Anomaly]:
    """Whoever stands behind a row that is refused has written its dead letter."""
    sent = refused_rows(letters)
    lost = [row for row in due if row[2] < positions.get(row[1], 0) and row not in sent]
    return each("lost-letter", "it was passed, and there is no dead letter of it", map(_where, sorted(lost)))


def letters_of(letters: Iterable[Record], due: Collection[Row]) -> list[Anomaly]:
    """Dead letters are of rows that are refused, and of no others."""
    strange = sorted(refused_rows(letters) - set(due))
    return each("forged-letter", "a dead letter is of a row that is sound", map(_where, strange))


def _where(row: Row) -> str:
    return f"{row[0]}[{row[1]}]@{row[2]}"
