"""The rule of the join once more, in plain Python over whole logs: the oracle of the compiled, incremental one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Rules(Protocol):
    """What the rule depends on, as `JoinRules` has it; nothing of the product is imported here."""

    @property
    def horizon_ms(self) -> int: ...
    @property
    def early_ms(self) -> int: ...
    @property
    def absent(self) -> str: ...


@dataclass(frozen=True)
class Feature:
    """A features record of one row; without a key it only tells the time."""

    offset: int
    time_ms: int
    key: str | None


@dataclass(frozen=True)
class Label:
    """A record of the labels log; a sign of 0 only tells the time."""

    offset: int
    time_ms: int
    key: str
    sign: int


Joined = tuple[int, int, str, int]
"""Offset and row of the place, the row's key, and its label."""
Told = tuple[str, int]
"""Why, and the offset in the log that the reason belongs to."""


MINUTE_MS = 60_000


def times(stamps: Sequence[int]) -> list[int]:
    """Return the times of the records of a log, one row each, as far as they are known."""
    found: list[int] = []
    for place, stamp in enumerate(stamps):
        now = found[-1] if found else -1
        counted = counts(stamps, place, now)
        if counted is False and now == -1:
            # A record without a time is no time to begin with.
            later = [counts(stamps, other, -1) and stamps[other] >= 0 for other in range(place + 1, place + 9)]
            if True in later and None not in later[: later.index(True)]:
                now = stamps[place + 1 + later.index(True)]
            elif None in later:
                counted = None
        if counted is None:
            break
        found.append(max(now, stamp) if counted else now)
    return found


def counts(stamps: Sequence[int], place: int, now: int) -> bool | None:
    """Tell whether a record's timestamp counts after a time; None where more records are needed to know."""
    if place >= len(stamps):
        return None
    if stamps[place] <= now + MINUTE_MS:
        return True
    after = [stamp >= stamps[place] - MINUTE_MS for stamp in stamps[place + 1 : place + 9]]
    if sum(after) >= 4:
        return True
    return False if len(after) - sum(after) >= 5 else None


def merged(features: list[Feature], labels: list[Label]) -> list[tuple[int, Feature | Label]]:
    """Return both logs in the one order, each record with its running time, as far as both are known; sorted at once.

    What comes later of a log has its last known time at least: features wait until no label can come before them, and
    labels until no features record can come before them or at their time.
    """
    steps: list[tuple[int, int, int, Feature | Label]] = []
    f_times, l_times = times([one.time_ms for one in features]), times([one.time_ms for one in labels])
    f_end, l_end = (known[-1] if known else -1 for known in (f_times, l_times))
    for time, feature in zip(f_times, features, strict=False):
        if time <= l_end:
            steps.append((time, 0, feature.offset, feature))
    for time, label in zip(l_times, labels, strict=False):
        if time < f_end:
            steps.append((time, 1, label.offset, label))
    steps.sort(key=lambda step: step[:3])
    return [(time, record) for time, _, _, record in steps]


def join(
    features: list[Feature], labels: list[Label], rules: Rules
) -> tuple[list[Joined], list[Told], dict[str, int | None], dict[str, int]]:
    """Join two whole logs; the last two are the rows and early labels that are held at the end."""
    rows: dict[str, dict[str, int | None]] = {}
    early: dict[str, tuple[int, int, int]] = {}
    points: list[Joined] = []
    letters: list[Told] = []
    place, since = -1, 0

    def put(key: str, sign: int) -> None:
        nonlocal since
        points.append((place, since, key, sign))
        since += 1

    for now, record in merged(features, labels):
        for key, row in [(key, row) for key, row in rows.items() if (row["time"] or 0) + rules.horizon_ms < now]:
            del rows[key]
            if row["sign"] is None:
                if rules.absent == "negative":
                    put(key, -1)
                elif rules.absent == "dead_letter":
                    letters.append(("absent_label", row["offset"] or 0))
        for key, (time, offset, _) in list(early.items()):
            if time + rules.early_ms < now:
                del early[key]
                letters.append(("unmatched_label", offset))
        if isinstance(record, Feature):
            if record.offset != place:
                place, since = record.offset, 0
            if record.key is None:
                continue
            if record.key in rows:
                letters.append(("doubled_key", record.offset))
                continue
            rows[record.key] = {"time": now, "offset": record.offset, "sign": None}
            if record.key in early:
                _, _, sign = early.pop(record.key)
                rows[record.key]["sign"] = sign
                put(record.key, sign)
        elif record.sign:
            if record.key in rows:
                held = rows[record.key]["sign"]
                if held is None:
                    rows[record.key]["sign"] = record.sign
                    put(record.key, record.sign)
                elif held != record.sign:
                    letters.append(("changed_label", record.offset))
            elif record.key in early:
                if early[record.key][2] != record.sign:
                    letters.append(("changed_label", record.offset))
            else:
                early[record.key] = (now, record.offset, record.sign)
    return points, letters, {key: row["sign"] for key, row in rows.items()}, {k: v[2] for k, v in early.items()}
