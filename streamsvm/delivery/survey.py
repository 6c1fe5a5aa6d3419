"""What a look at the input topic means for a trainer that is running: gaps, new partitions, retention close behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsvm.points import Positions


@dataclass(frozen=True, slots=True)
class Look:
    """What the broker said about the input topic.

    Attributes
    ----------
    topic_id : str
        Empty where the broker tells none.
    log : mapping of partition to (int, int)
        First offset and end of each partition.
    asked : mapping of partition to int
        Offsets that were reached when the question was put.
    missing : str
        Why there is no such topic; empty if there is.
    """

    topic_id: str
    log: Mapping[int, tuple[int, int]]
    asked: Mapping[int, int]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """What it means.

    Attributes
    ----------
    gap : str
        Why going on could pass over points, or learn from another log; empty if it cannot.
    added : mapping of partition to int
        Partitions that are new, and the first offset of each.
    overtaking : mapping of partition to int
        Partitions whose unread records retention will reach before the next look at its present pace, and how many
        records it is behind.
    """

    gap: str
    added: Mapping[int, int]
    overtaking: Mapping[int, int]


def survey(topic: str, topic_id: str, reached: Positions, look: Look, before: Look | None) -> Survey:
    """Judge a look.

    Parameters
    ----------
    topic, topic_id : str
        What is read.
    reached : mapping of partition to Position
        As of now: at or past where the trainer stood when the look was taken.
    look : Look
    before : Look or None
        The look before it.
    """
    gap = look.missing or _recreated(topic, topic_id, look)
    if not gap:
        gaps = (_gap(topic, partition, reached, look) for partition in sorted(reached))
        gap = next((found for found in gaps if found), "")
    if gap:
        return Survey(gap, {}, {})
    added = {partition: first for partition, (first, _) in sorted(look.log.items()) if partition not in reached}
    return Survey("", added, _overtaking(reached, look, before) if before else {})


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
    if look.asked.get(partition, 0) > end:
        return (
            f"{topic}[{partition}] ends at offset {end}, but was read up to offset {look.asked[partition]}: the "
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
