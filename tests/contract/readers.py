"""What the readers of Python make of a case: the general ones, the compiled ones, alone and beside other records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from streamsvm.ingest import Decoded, LabelDecoder, PointDecoder
from tests.contract.cases import TIME_MS, Case, configured, shelf_of
from tests.ingest.general import GeneralDecoder
from tests.ingest.rows import InColumns, Raw

KINDS: Final = {"general": GeneralDecoder, "compiled": PointDecoder}


@cache
def _decoder(kind: str, by: str, schemas: tuple[tuple[str, str], ...], labeled: bool) -> PointDecoder:
    config, recipe = configured(by)
    return KINDS[kind](config, labeled=labeled, schemas=shelf_of(schemas), recipe=recipe)


def read(kind: str, case: Case, *, labeled: bool, records: Sequence[Raw] = ()) -> list[list[Any]]:
    """Return the rows of each record, as `cases.json` writes them; of the case alone if no records are given."""
    decoder = _decoder(kind, case.by, tuple(case.schemas.items()), labeled)
    chosen = InColumns(records) if records else [case.record]
    return rows_of(decoder.decode(chosen), len(chosen), labeled=labeled)


def rows_of(decoded: Decoded, records: int, *, labeled: bool) -> list[list[Any]]:
    """Return what a batch of records of one partition, at the offsets 0, 1, ..., became."""
    made: list[list[Any]] = [[] for _ in range(records)]
    refused = {(bad.record.offset, one.row): one.reason for bad in decoded.rejected for one in bad.rejections}
    (reason, *others) = decoded.passed_over or ["nothing"]
    for rows in decoded.rows:
        ids = decoded.ids or [None] * len(rows)
        for index in range(len(rows)):
            at, row = int(rows.offset[index]), int(rows.row[index])
            assert row == len(made[at])
            if rows.accepted[index]:
                one = {"x": rows.points.X[index].tolist(), "label": int(rows.points.y[index]), "id": ids[index],
                       "weight": float(rows.points.weight[index]), "time": int(rows.time_ms[index])}  # fmt: skip
                plain = {"weight": 1.0, "id": None, "time": TIME_MS} | ({} if labeled else {"label": 1})
                made[at].append({name: said for name, said in one.items() if name not in plain or said != plain[name]})
            elif (at, row) in refused:
                made[at].append(refused[at, row])
            else:
                made[at].append({"passed over": reason if not others else "any"})
        last = [index for index in range(len(rows)) if rows.last[index]]
        assert [int(rows.row[index]) + 1 for index in last] == [len(made[int(rows.offset[index])]) for index in last]
    return made


def labels_of(case: Case, key: Any) -> list[Any]:
    """Return the labels of a record: key and sign, the reason of a refusal, or None of a watermark."""
    (labels,), rejected = LabelDecoder(case.config, key).decode([case.record])
    refused = {one.row: one.reason for bad in rejected for one in bad.rejections}
    assert labels.last.tolist() == [False] * (len(labels.keys) - 1) + [True]
    return [
        refused.get(row, [key.decode(), sign] if sign else None)
        for row, (key, sign) in enumerate(zip(labels.keys, labels.sign.tolist(), strict=True))
    ]
