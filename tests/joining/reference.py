"""The rule of the join once more, in plain Python over whole logs: the oracle of the compiled, incremental one."""

from __future__ import annotations

from dataclasses import dataclass

from streamsvm.joining.joiner import JoinRules


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


def merged(features: list[Feature], labels: list[Label]) -> list[tuple[int, Feature | Label]]:
    """Return both logs in the one order, each record with its running time; sorted at once."""
    steps: list[tuple[int, int, int, Feature | Label]] = []
    for topic, log in enumerate((features, labels)):
        newest = -1
        for record in log:
            newest = max(newest, record.time_ms)
            steps.append((newest, topic, record.offset, record))
    steps.sort(key=lambda step: step[:3])
    return [(time, record) for time, _, _, record in steps]


def join(
    features: list[Feature], labels: list[Label], rules: JoinRules
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
