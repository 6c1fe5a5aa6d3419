"""What both logs of a world hold whose labels come later, and what a clean run joins of them.

Both logs hold all that a join decides: labels before their rows, twice, changed, past the horizon, and none; rows of a
key that is taken; records that only tell the time; in each log a record whose clock is an hour ahead. What is joined is
recomputed from whole logs, twice: by the shipped joiner, which never restarts here, and by the plain implementation of
the rule, with which it must agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from streamsvm.config import ModelConfig
from streamsvm.ingest import WATERMARK_HEADER, LabelDecoder, PointDecoder, is_watermark
from streamsvm.joining import CONFIRM, OF, FeatureRows, Joiner, JoinRules
from streamsvm.kafka import Record
from streamsvm.points import Position, Rows, hashed, key_of
from tests.joining import reference
from tests.joining.test_joiner import label_rows
from tests.simulation.broker import Entry

LABELS, LABEL_LETTERS = "labels", "labels.dlq"
HORIZON_MS, EARLY_MS = 500, 100
RULES: Final = JoinRules(horizon_ms=HORIZON_MS, early_ms=EARLY_MS, absent="negative", most_rows=10_000)
ROW_MS: Final = 100
WRONG_CLOCK: Final = 3
"""Place of the record in each log whose clock is `AHEAD_MS` ahead, where the log is long enough to tell."""
AHEAD_MS: Final = 3_600_000
BEGIN_MS: Final = 1_700_000_000_000
_DELAYS_MS: Final[Mapping[int, tuple[int, ...]]] = {
    0: (-50,),
    1: (150, 250),
    3: (30, 60),
    5: (HORIZON_MS + 200,),
    6: (320,),
    8: (),
}
"""By the last digit of a row's number, when its labels come; the second label of 3 is another than its first."""


def came_ms(entry: Entry) -> int:
    """Return when a record was written, by a clock that is right."""
    assert entry.time_ms is not None
    return entry.time_ms - AHEAD_MS * (entry.time_ms > BEGIN_MS + AHEAD_MS // 2)


def is_rejected(number: int) -> bool:
    """Tell whether the n-th features record cannot be decoded."""
    return number % 5 == 4


def key(number: int) -> str:
    """Return the id of the n-th features record; every fifth has that of the row before it."""
    return f"t{number - (number % 5 == 2)}"


def features_log(partition: int, count: int) -> list[Entry]:
    """Return a partition of the features: so many rows, and a record that only tells the time at the end."""
    entries = []
    for number in range(count):
        point = {"x": [number + 100.0 * partition], "id": key(number)}
        content = b"bad" if is_rejected(number) else json.dumps(point).encode()
        entries.append(Entry(content, time_ms=BEGIN_MS + ROW_MS * number))
    return _with_a_wrong_clock([*entries, _watermark(count)])


def labels_log(count: int) -> list[Entry]:
    """Return a partition of the labels of so many rows, with a record that cannot be decoded among them."""
    timed = []
    for number in range(count):
        for at, delay in enumerate(_DELAYS_MS.get(number % 10, ())):
            y = -1 if (number + (number % 10 == 3) * at) % 2 == 0 else 1
            timed.append((BEGIN_MS + ROW_MS * number + delay, json.dumps({"id": f"t{number}", "y": y}).encode()))
            if number % 10 == 6:
                timed.append((BEGIN_MS + ROW_MS * number + delay, b"bad"))
    return _with_a_wrong_clock([*(Entry(content, time_ms=time) for time, content in sorted(timed)), _watermark(count)])


def _with_a_wrong_clock(entries: list[Entry]) -> list[Entry]:
    if len(entries) > WRONG_CLOCK + OF - CONFIRM + 1:
        entry = entries[WRONG_CLOCK]
        assert entry.time_ms is not None
        entries[WRONG_CLOCK] = replace(entry, time_ms=entry.time_ms + AHEAD_MS)
    return entries


def _watermark(count: int) -> Entry:
    return Entry(b"", headers=((WATERMARK_HEADER, b""),), time_ms=BEGIN_MS + ROW_MS * count + 4 * HORIZON_MS)


@dataclass(frozen=True)
class JoinedLogs:
    """What a clean run makes of a pair of partitions: rows in their order, offsets of each log's dead letters."""

    rows: tuple[Rows, ...]
    feature_letters: frozenset[int]
    label_letters: frozenset[int]


def joined(
    config: ModelConfig, partition: int, features: Sequence[tuple[int, Entry]], labels: Sequence[tuple[int, Entry]]
) -> JoinedLogs:
    """Join two whole partitions, given as offsets and entries.

    Raises `AssertionError` if the shipped joiner and the plain implementation differ.
    """
    decoder, of_labels = PointDecoder(config.points, labeled=False), LabelDecoder(config.points, "id")
    records = [_record("features", partition, *one) for one in features]
    told = [_record(LABELS, partition, *one) for one in labels]
    joiner = Joiner(partition, RULES, config.points.dimension, config.points.numpy_dtype, Position(0), Position(0))
    decoded = decoder.decode(records)
    (rows,) = decoded.rows
    joiner.add_features(
        FeatureRows(
            offset=rows.offset,
            row=rows.row,
            last=rows.last,
            time_ms=rows.time_ms,
            key=hashed([key_of(one) or b"" for one in decoded.ids], "m"),
            ok=rows.accepted,
            X=np.ascontiguousarray(rows.points.X),
            weight=np.ascontiguousarray(rows.points.weight, np.float64),
            leader_epoch=rows.leader_epoch,
        )
    )
    (found,), bad_labels = of_labels.decode(told)
    plain_labels = [
        reference.Label(int(offset), record.timestamp_ms or 0, label.decode(), int(sign))
        for offset, record, label, sign in zip(found.offset, told, found.keys, found.sign, strict=True)
    ]
    joiner.add_labels(replace(label_rows(plain_labels), row=found.row, last=found.last))
    # All of one chunk of each log and less than a portion: one call joins everything.
    given, letters = joiner.join()
    out = () if given is None else (given,)
    plain_features = [
        reference.Feature(
            int(offset),
            record.timestamp_ms or 0,
            (key_of(one) or b"").decode() if accepted else None,
        )
        for offset, record, one, accepted in zip(rows.offset, records, decoded.ids, rows.accepted, strict=True)
    ]
    points, refused, _, _ = reference.join(plain_features, plain_labels, RULES)
    shipped = [
        (int(offset), int(row), int(sign))
        for one in out
        for offset, row, sign in zip(one.offset, one.row, one.points.y, strict=True)
    ]
    assert shipped == [(offset, row, sign) for offset, row, _, sign in points]
    of_features = {"absent_label", "doubled_key"}
    assert sorted((one.reason, one.offset) for one in letters) == sorted(refused)
    undecoded = {one.record.offset for one in decoded.rejected if not is_watermark(one.record)}
    return JoinedLogs(
        rows=out,
        feature_letters=frozenset(undecoded | {at for why, at in refused if why in of_features}),
        label_letters=frozenset(
            {one.record.offset for one in bad_labels} | {at for why, at in refused if why not in of_features}
        ),
    )


def _record(topic: str, partition: int, offset: int, entry: Entry) -> Record:
    assert entry.time_ms is not None
    return Record(topic, partition, offset, entry.key, entry.value, entry.headers, entry.time_ms, entry.leader_epoch)
