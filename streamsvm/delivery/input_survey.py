"""What a check of the input topic means for a running trainer: gaps, new partitions, retention close behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsvm.points import Positions


@dataclass(frozen=True, slots=True)
class Look:
    """The broker's answer about the input topic.

    Attributes
    ----------
    topic_id : str
        Empty if the broker does not report topic ids.
    log : mapping of partition to (int, int)
        First offset and end of each partition.
    reached : mapping of partition to int
        Offset that the trainer had reached in each partition when the broker was asked.
    missing : str
        Why the topic does not exist; empty if it does.
    """

    topic_id: str
    log: Mapping[int, tuple[int, int]]
    reached: Mapping[int, int]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class LogSurvey:
    """The meaning of a `Look`.

    Attributes
    ----------
    gap : str
        Why continuing could miss points or learn from another log; empty if there is no such danger.
    added : mapping of partition to int
        New partitions, and the first offset of each.
    overtaking : mapping of partition to int
        Partitions in which retention, at its present pace, will delete unread records before the next look, and the
        number of records between retention and the trainer's position.
    """

    gap: str
    added: Mapping[int, int]
    overtaking: Mapping[int, int]


def survey(topic: str, topic_id: str, reached: Positions, look: Look, before: Look | None) -> LogSurvey:
    """Interpret a look.

    Parameters
    ----------
    topic, topic_id : str
        The topic that the trainer reads.
    reached : mapping of partition to Position
        The trainer's positions now, which may be past those at the time of the look.
    look : Look
    before : Look or None
        The previous look.
    """
    gap = look.missing or _recreated(topic, topic_id, look)
    if not gap:
        gaps = (_gap(topic, partition, reached, look) for partition in sorted(reached))
        gap = next((found for found in gaps if found), "")
    if gap:
        return LogSurvey(gap, {}, {})
    added = {partition: first for partition, (first, _) in sorted(look.log.items()) if partition not in reached}
    return LogSurvey("", added, _overtaking(reached, look, before) if before else {})


def _recreated(topic: str, topic_id: str, look: Look) -> str:
    if look.topic_id == topic_id:
        return ""
    return (
        f"the topic {topic} was recreated: its id was {topic_id or 'unknown'} and is now {look.topic_id or 'unknown'}"
    )


def _gap(topic: str, partition: int, reached: Positions, look: Look) -> str:
    if partition not in look.log:
        return f"{topic}[{partition}] no longer exists"
    offset, (first, end) = reached[partition].offset, look.log[partition]
    if offset < first:
        return (
            f"{topic}[{partition}] begins at offset {first}: {first - offset} unread records from offset {offset} on "
            "were removed"
        )
    # Compared with the offset at the time of the question, not with the present one, which may rightly be past `end`.
    if look.reached.get(partition, 0) > end:
        return (
            f"{topic}[{partition}] ends at offset {end}, but was read up to offset {look.reached[partition]}: the "
            "topic was truncated"
        )
    return ""


def _overtaking(reached: Positions, look: Look, before: Look) -> dict[int, int]:
    found = {}
    for partition, (first, end) in look.log.items():
        if partition not in reached or partition not in before.log:
            continue
        removed, offset = first - before.log[partition][0], reached[partition].offset
        if offset < end and removed > 0 and offset - first <= removed:
            found[partition] = offset - first
    return found
