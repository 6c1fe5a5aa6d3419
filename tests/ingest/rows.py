"""The same points in every format, and a registry that holds what a test gives it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamsvm.config import PointsConfig
from streamsvm.ingest import arrow, avro
from streamsvm.ingest.decoder import Decoded
from streamsvm.kafka import RegistryUnavailable

ARROW = (("content-type", arrow.CONTENT_TYPE.encode()),)
AVRO = (("content-type", avro.CONTENT_TYPE.encode()),)


def few_rows(most: int) -> type[PointsConfig]:
    """Return points of which a record may have so many rows."""

    class FewRows(PointsConfig):
        ROWS_PER_RECORD: ClassVar[int] = most

    return FewRows


@dataclass(frozen=True)
class Raw:
    """A record as a codec sees it."""

    value: bytes | None
    offset: int = 0
    partition: int = 0
    timestamp_ms: int | None = 1000
    leader_epoch: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    key: bytes | None = None


class InColumns(Sequence[Raw]):
    """Records as the client hands them over: column by column, of several partitions."""

    def __init__(self, records: Sequence[Raw]) -> None:
        self._records = records
        self.values = [record.value for record in records]
        self.plain = not any(record.headers for record in records)
        self.sizes = np.array([len(value or b"") for value in self.values], np.int64)
        self.partitions = np.array([record.partition for record in records], np.int64)
        self.offsets = np.array([record.offset for record in records], np.int64)
        self.leader_epochs = np.full(len(records), -1)

    def __len__(self) -> int:
        return len(self._records)

    def times_ms(self, at: Any) -> Any:
        return np.full(len(at), 1_000)

    def __getitem__(self, index: Any) -> Any:
        return InColumns(self._records[index]) if isinstance(index, slice) else self._records[index]


@dataclass
class Shelf:
    """Schemas by id, and the files of Protobuf's; while `away` nobody answers."""

    schemas: Mapping[Any, str] = field(default_factory=dict)
    protobuf: Mapping[Any, Mapping[str, str]] = field(default_factory=dict)
    away: bool = False
    asked: list[int | str] = field(default_factory=list)

    def schema(self, schema_id: int | str) -> str | None:
        self._ask(schema_id)
        return self.schemas.get(schema_id)

    def files(self, schema_id: int | str) -> Mapping[str, str] | None:
        self._ask(schema_id)
        return self.protobuf.get(schema_id)

    def _ask(self, schema_id: int | str) -> None:
        self.asked.append(schema_id)
        if self.away:
            raise RegistryUnavailable("the registry is away", "Wait.")


POINT, POINTS = avro.schema_of(1, many=False), avro.schema_of(1, many=True)
SHELF = Shelf({1: POINT, 2: POINTS})


def zigzag(number: int) -> bytes:
    """Encode an integer as Avro does."""
    left, out = (number << 1) ^ (number >> 63), b""
    while left > 127:
        out, left = out + bytes([left & 127 | 128]), left >> 7
    return out + bytes([left])


def as_json(X: NDArray[Any], y: Sequence[Any], w: Sequence[float] | None = None) -> bytes:
    points = [{"x": x, "y": label} for x, label in zip(X.tolist(), y, strict=True)]
    for point, u in zip(points, [] if w is None else w, strict=w is not None):
        point["w"] = u
    return json.dumps(points).encode()


def as_arrow(X: NDArray[Any], y: Sequence[Any], w: Sequence[float] | None = None) -> bytes:
    return arrow.encode(X, y, None if w is None else np.array(w, np.float64))


def as_avro(X: NDArray[Any], y: Sequence[Any], w: Sequence[float] | None = None) -> bytes:
    weights = [None] * len(X) if w is None else [float(u) for u in w]
    rows = [{"x": x, "y": label, "w": u, "id": None} for x, label, u in zip(X.tolist(), y, weights, strict=True)]
    return avro.AvroWriter(POINTS, 2).encode(rows)


def whys(found: Decoded) -> list[tuple[int, str, str]]:
    """Return which records are rejected, and why."""
    return [(bad.record.offset, one.reason, one.what) for bad in found.rejected for one in bad.rejections]
