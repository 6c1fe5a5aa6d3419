"""Cases of points and events, changed, by the compiled readers and by the general one, which is the oracle.

A value is the number of a case in two bytes, and bytes that are read as that case is: so a change may also move bytes
to another format, another schema or another configuration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from streamsvm.ingest import PointDecoder
from tests.contract.cases import Case, cases
from tests.contract.readers import rows_of
from tests.fuzz.targets import Target, has_good, words
from tests.ingest.general import CompiledDecoder, GeneralDecoder
from tests.ingest.rows import InColumns, Raw

NUMBER: Final = 2
"""Bytes of the number of a case."""


def records(*read: str) -> tuple[Case, ...]:
    """Return the cases that the others are made of."""
    return tuple(case for case in cases(*read) if case.value is not None and len(case.value) < 4_000)


@cache
def _decoders(by: str, schemas: str, labeled: bool) -> tuple[PointDecoder, PointDecoder]:
    found = next(one for one in records("points", "events") if one.by == by and str(one.schemas) == schemas)
    options: dict[str, Any] = {"labeled": labeled, "schemas": found.shelf, "recipe": found.recipe}
    return CompiledDecoder(found.config, **options), GeneralDecoder(found.config, **options)


def compared(read: str) -> Target:
    """Return the target of the cases of a kind."""
    own = records(read)

    def look(values: Sequence[bytes]) -> list[str]:
        groups: dict[Any, list[int]] = defaultdict(list)
        for at, value in enumerate(values):
            case = own[int.from_bytes(value[:NUMBER], "big") % len(own)]
            labeled = bool(case.rows) and bool(len(value) % 3)
            groups[case.by, str(case.schemas), labeled, case.record.headers].append(at)
        said = [""] * len(values)
        for (by, schemas, labeled, headers), group in groups.items():
            compiled, general = _decoders(by, schemas, labeled)
            some = [Raw(values[at][NUMBER:], offset, headers=headers) for offset, at in enumerate(group)]
            for at, word in zip(group, _told(compiled, general, some, labeled), strict=True):
                said[at] = word
        return said

    values = {number.to_bytes(NUMBER, "big") + (case.value or b""): case for number, case in enumerate(own)}
    good = [value for value, case in values.items() if has_good(case)]
    corpus = [*values, *good * 5]
    return Target(f"contract-{read}", lambda: corpus, words("json", "event", "binary", "event-binary"), look)


def _told(compiled: PointDecoder, general: PointDecoder, records: Sequence[Raw], labeled: bool) -> list[str]:
    """Compare what the general reader makes of each record with what it becomes among others, in columns.

    What is accepted is decoded beside one in four of the rest: a compiled reader leaves a batch that is mostly bad.
    """
    expected, chosen, said = [], [], []
    for at, record in enumerate(records):
        (rows,) = rows_of(general.decode([Raw(record.value, headers=record.headers)]), 1, labeled=labeled)
        is_good = any(isinstance(row, dict) for row in rows)
        said.append("accepted" if is_good else "rejected")
        if is_good or not at % 4:
            expected.append(rows)
            chosen.append(Raw(record.value, len(chosen), headers=record.headers))
    found = rows_of(compiled.decode(InColumns(chosen)), len(chosen), labeled=labeled)
    for told, rows in zip(found, expected, strict=True):
        assert _any(told) == _any(rows), f"{told} of the compiled reader, {rows} of the general one"
        assert "undecodable" not in told
    return said


def _any(rows: Sequence[Any]) -> list[Any]:
    return ["passed over" if isinstance(row, dict) and "passed over" in row else row for row in rows]


COMPARED: Final = (compared("points"), compared("events"))
