"""Points as JSON: one object a record, or an array of them.

A labeled point is ``{"x": [1.5, ...], "y": 1, "w": 1.0, "id": "..."}``; `w` defaults to 1 and `id` is optional. An
unlabeled point has no `y`. Other fields are ignored, except `op`: a record that asks for an operation must not be
learned as a point.

Invariant: whether a row is accepted depends on its record's bytes and the configuration only. One bad row rejects that
row; a record that cannot be told into rows is one rejected row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.points import Points, Rows

CONTENT_TYPE: Final = "application/json"

REASONS: Final[Mapping[str, str]] = {
    "empty_record": "the record has no value, or holds no row",
    "oversize_record": "the value is larger than points.max_record_bytes",
    "too_many_rows": "the record holds more rows than points.max_rows_per_record",
    "malformed_json": "the value is not JSON (UTF-8 without a byte order mark), or nests deeper than 100",
    "wrong_type": "a field, or the row itself, has the wrong JSON type",
    "missing_field": "x or y is missing",
    "wrong_dimension": "x does not have points.dimension entries",
    "not_finite": "an entry of x is NaN, infinite, or beyond the range of points.dtype",
    "unknown_label": "y is not one of points.labels",
    "invalid_weight": "w is not a number in [1e-15, 1e15]",
    "unsupported_operation": "the row has an op field; only plain points are understood",
}
"""Every reason for rejecting a row, with its meaning: the labels of the dead-letter metric."""

SMALLEST_WEIGHT: Final = 1e-15
LARGEST_WEIGHT: Final = 1e15
"""Between them a weight times C can neither vanish nor overflow: LIBSVM refuses a class without weight."""

LARGEST_FEATURE: Final[Mapping[str, float]] = {"float32": float(np.finfo(np.float32).max), "float64": 1e100}
"""Greatest magnitude of a feature: what the storage dtype holds, and what can be squared and summed in float64."""

DEEPEST_NESTING: Final = 100
"""Brackets open at once, those inside strings counted too: how deep a parser could go would depend on its caller."""

EXCERPT_CHARACTERS: Final = 80


class RawRecord(Protocol):
    """What a codec needs to know of a consumed record."""

    @property
    def partition(self) -> int:
        """Partition of the record."""
        ...

    @property
    def offset(self) -> int:
        """Offset of the record."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its bytes; None for a tombstone."""
        ...

    @property
    def timestamp_ms(self) -> int | None:
        """Its timestamp in the log, milliseconds."""
        ...

    @property
    def leader_epoch(self) -> int | None:
        """Leader epoch it was written under."""
        ...


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejected row: where it stood, why, and the particulars."""

    row: int
    reason: str
    what: str


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record with at least one rejected row.

    Attributes
    ----------
    record : RawRecord
    rows : int
        Rows the record was told into.
    rejections : tuple of Rejection
    """

    record: RawRecord
    rows: int
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a batch of records came to.

    Attributes
    ----------
    rows : list of Rows
        One for each partition in the batch, in ascending order of partition.
    rejected : list of RejectedRecord
    ids : list of (str, int or None)
        The `id` of each row, partition after partition; kept by `decode_unlabeled` only.
    """

    rows: list[Rows]
    rejected: list[RejectedRecord]
    ids: list[str | int | None]


class _Point(msgspec.Struct):
    x: list[float]
    y: int | float | str | bool | None = None
    w: float = 1.0
    id: str | int | None = None
    op: Any = None


_fast_one = msgspec.json.Decoder(_Point)
_fast_many = msgspec.json.Decoder(list[_Point])
_raw_many = msgspec.json.Decoder(list[msgspec.Raw])


class PointDecoder:
    """Turns records into rows.

    Parameters
    ----------
    config : PointsConfig
    labeled : bool
        Whether a row must have `y`.
    """

    def __init__(self, config: PointsConfig, *, labeled: bool = True) -> None:
        self._config = config
        self._labeled = labeled
        self._plain_signs = dict(zip(config.labels, (-1, 1), strict=True))
        self._signs = {(_kind(label), label): sign for label, sign in zip(config.labels, (-1, 1), strict=True)}

    def decode(self, records: Sequence[RawRecord]) -> Decoded:
        """Decode a batch; records of one partition must be in the order of their offsets."""
        by_partition: dict[int, list[RawRecord]] = {}
        for record in records:
            by_partition.setdefault(record.partition, []).append(record)
        decoded = Decoded([], [], [])
        for partition in sorted(by_partition):
            builder = _Builder(self._config.dimension)
            whole = self._columns(partition, by_partition[partition])
            if whole is not None:
                decoded.rows.append(whole[0])
                decoded.ids.extend(whole[1])
                continue
            for record in by_partition[partition]:
                self._decode_record(record, builder)
            decoded.rows.append(builder.rows(partition, self._config))
            decoded.rejected.extend(builder.rejected)
            decoded.ids.extend(builder.ids)
        return decoded

    def _columns(self, partition: int, records: Sequence[RawRecord]) -> tuple[Rows, list[str | int | None]] | None:
        """Decode records of one point each in which all is well, column by column; None if anything at all is not.

        It only saves time: whatever it declines is decoded row by row, and what it accepts comes out the same.
        """
        config, n = self._config, len(records)
        try:
            values = [record.value for record in records]
            if max(map(len, values)) > config.max_record_bytes:  # type: ignore[arg-type]
                return None
            if max(map(nesting, values)) > DEEPEST_NESTING:  # type: ignore[arg-type]
                return None
            points = [_fast_one.decode(value) for value in values]  # type: ignore[arg-type]
            X = np.array([point.x for point in points], dtype=np.float64)
        except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, TypeError, ValueError):
            return None
        weight = np.array([point.w for point in points], dtype=np.float64)
        signs = self._column_of_signs(points)
        if (
            signs is None
            or X.shape != (n, config.dimension)
            or not np.abs(X).max() <= LARGEST_FEATURE[config.dtype]
            or not (weight.min() >= SMALLEST_WEIGHT and weight.max() <= LARGEST_WEIGHT)
            or any(point.op is not None for point in points)
        ):
            return None
        rows = Rows(
            partition,
            np.array([record.offset for record in records], dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.ones(n, dtype=np.bool_),
            np.array([_or_unknown(record.timestamp_ms) for record in records], dtype=np.int64),
            np.ones(n, dtype=np.bool_),
            Points(X.astype(config.numpy_dtype), signs, weight),
            np.array([_or_unknown(record.leader_epoch) for record in records], dtype=np.int64),
        )
        return rows, [point.id for point in points]

    def _column_of_signs(self, points: Sequence[_Point]) -> NDArray[np.int8] | None:
        if not self._labeled:
            return np.ones(len(points), dtype=np.int8)
        labels = [point.y for point in points]
        if set(map(type, labels)) != {type(self._config.labels[0])}:
            return None
        signs = [self._plain_signs.get(label, 0) for label in labels]  # type: ignore[arg-type]
        return np.array(signs, dtype=np.int8) if all(signs) else None

    def _decode_record(self, record: RawRecord, builder: _Builder) -> None:
        rejections: list[Rejection] = []
        try:
            rows = self._rows_of(record.value)
        except InvalidPoint as error:
            rows = [error]
        for index, row in enumerate(rows):
            try:
                if isinstance(row, InvalidPoint):
                    raise row
                sign = self._check(row)
            except InvalidPoint as error:
                rejections.append(Rejection(index, error.reason, error.what))
                builder.reject(record, index)
            else:
                builder.accept(record, index, row, sign)
        builder.end_record()
        if rejections:
            builder.rejected.append(RejectedRecord(record, len(rows), tuple(rejections)))

    def _rows_of(self, value: bytes | None) -> Sequence[_Point | InvalidPoint]:
        if not value:
            raise InvalidPoint("empty_record", "the record has no value")
        if len(value) > self._config.max_record_bytes:
            raise InvalidPoint(
                "oversize_record",
                f"the value has {len(value)} bytes, points.max_record_bytes is {self._config.max_record_bytes}",
            )
        if nesting(value) > DEEPEST_NESTING:
            raise InvalidPoint("malformed_json", f"the value nests deeper than {DEEPEST_NESTING}")
        many = value.lstrip(b" \t\r\n")[:1] == b"["
        try:
            rows: Sequence[_Point | InvalidPoint] = _fast_many.decode(value) if many else [_fast_one.decode(value)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            rows = _decode_slowly(value, many=many)
        if not rows:
            raise InvalidPoint("empty_record", "the array holds no row")
        if len(rows) > self._config.max_rows_per_record:
            raise InvalidPoint(
                "too_many_rows",
                f"the record holds {len(rows)} rows, points.max_rows_per_record is {self._config.max_rows_per_record}",
            )
        return rows

    def _check(self, point: _Point) -> int:
        if point.op is not None:
            raise InvalidPoint("unsupported_operation", f"op is {_excerpt(repr(point.op))}")
        if len(point.x) != self._config.dimension:
            raise InvalidPoint(
                "wrong_dimension", f"x has {len(point.x)} entries, points.dimension is {self._config.dimension}"
            )
        largest = LARGEST_FEATURE[self._config.dtype]
        if not (math.isfinite(sum(point.x)) and max(point.x) <= largest and min(point.x) >= -largest):
            _refuse_outsized(point.x, largest)
        if not SMALLEST_WEIGHT <= point.w <= LARGEST_WEIGHT:
            raise InvalidPoint("invalid_weight", f"w is {point.w!r}")
        return self._sign(point.y) if self._labeled else 1

    def _sign(self, label: Label | float | None) -> int:
        if label is None:
            raise InvalidPoint("missing_field", "y is missing")
        if isinstance(label, float) and label.is_integer():
            label = int(label)
        sign = self._signs.get((_kind(label), label))  # type: ignore[arg-type]
        if sign is None:
            negative, positive = self._config.labels
            raise InvalidPoint(
                "unknown_label", f"y is {_excerpt(repr(label))}, points.labels are {negative!r} and {positive!r}"
            )
        return sign


def _or_unknown(number: int | None) -> int:
    return -1 if number is None else number


def _refuse_outsized(x: Sequence[float], largest: float) -> None:
    for index, entry in enumerate(x):
        if not -largest <= entry <= largest:
            raise InvalidPoint("not_finite", f"x[{index}] is {entry!r}, beyond the range of points.dtype")


class _Builder:
    """Collects the rows of one partition."""

    def __init__(self, dimension: int) -> None:
        self._blank = [0.0] * dimension
        self._x: list[list[float]] = []
        self._sign: list[int] = []
        self._weight: list[float] = []
        self._accepted: list[bool] = []
        self._offset: list[int] = []
        self._row: list[int] = []
        self._last: list[bool] = []
        self._time: list[int] = []
        self._epoch: list[int] = []
        self.ids: list[str | int | None] = []
        self.rejected: list[RejectedRecord] = []

    def accept(self, record: RawRecord, row: int, point: _Point, sign: int) -> None:
        self._append(record, row, point.x, sign, point.w, accepted=True)
        self.ids.append(point.id)

    def reject(self, record: RawRecord, row: int) -> None:
        self._append(record, row, self._blank, 1, 1.0, accepted=False)
        self.ids.append(None)

    def _append(self, record: RawRecord, row: int, x: list[float], sign: int, weight: float, *, accepted: bool) -> None:
        self._x.append(x)
        self._sign.append(sign)
        self._weight.append(weight)
        self._accepted.append(accepted)
        self._offset.append(record.offset)
        self._row.append(row)
        self._last.append(False)
        self._time.append(_or_unknown(record.timestamp_ms))
        self._epoch.append(_or_unknown(record.leader_epoch))

    def end_record(self) -> None:
        self._last[-1] = True

    def rows(self, partition: int, config: PointsConfig) -> Rows:
        X = np.array(self._x, dtype=np.float64).reshape(len(self._x), config.dimension)
        return Rows(
            partition,
            np.array(self._offset, dtype=np.int64),
            np.array(self._row, dtype=np.int64),
            np.array(self._last, dtype=np.bool_),
            np.array(self._time, dtype=np.int64),
            np.array(self._accepted, dtype=np.bool_),
            Points(
                X.astype(config.numpy_dtype), np.array(self._sign, dtype=np.int8), np.array(self._weight, np.float64)
            ),
            np.array(self._epoch, dtype=np.int64),
        )


def _decode_slowly(value: bytes, *, many: bool) -> list[_Point | InvalidPoint]:
    """Decode row by row, to reject only the bad ones; knows the NaN and Infinity that JSON does not."""
    if many:
        try:
            return [_decode_row(bytes(row)) for row in _raw_many.decode(value)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    try:
        loose = json.loads(value.decode())  # from bytes it would guess UTF-16 and pass over a byte order mark
    except ValueError as error:
        raise InvalidPoint("malformed_json", f"{error}; the value begins {_excerpt(repr(value[:200]))}") from None
    return [_convert_row(row) for row in (loose if isinstance(loose, list) else [loose])]


def _decode_row(raw: bytes) -> _Point | InvalidPoint:
    try:
        return _fast_one.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        try:
            return _convert_row(json.loads(raw.decode()))
        except ValueError as error:
            return InvalidPoint("malformed_json", str(error))


def _convert_row(row: Any) -> _Point | InvalidPoint:
    if not isinstance(row, dict):
        return InvalidPoint("wrong_type", f"a row is {_excerpt(json.dumps(row))}, not an object")
    if "x" not in row:
        return InvalidPoint("missing_field", "x is missing")
    if isinstance(row.get("id"), str) and not _is_text(row["id"]):
        return InvalidPoint("malformed_json", "id holds half of a surrogate pair")
    try:
        return msgspec.convert(_with_floats(row), _Point)
    except (msgspec.ValidationError, OverflowError) as error:
        return InvalidPoint("wrong_type", str(error))


def _is_text(text: str) -> bool:
    """Tell whether a string can be written as UTF-8; Python's parser lets escaped halves of a pair through."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def nesting(value: bytes) -> int:
    """Return how many brackets are open at once, at most, as if there were no strings; a pure function of the bytes.

    At most the number of opening ones, which is cheap to count and all that most records need.
    """
    opening = value.count(b"[") + value.count(b"{")
    if opening <= DEEPEST_NESTING:
        return opening
    brackets = np.frombuffer(value.translate(None, _NO_BRACKETS), np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    return int(np.cumsum(steps).max())


_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _with_floats(row: dict[str, Any]) -> dict[str, Any]:
    """Let an integer beyond float64 count as infinite."""
    changed = dict(row)
    if isinstance(changed["x"], list):
        changed["x"] = [_as_float(entry) for entry in changed["x"]]
    if "w" in changed:
        changed["w"] = _as_float(changed["w"])
    return changed


def _as_float(entry: Any) -> Any:
    if isinstance(entry, int) and not isinstance(entry, bool):
        try:
            return float(entry)
        except OverflowError:
            return math.inf if entry > 0 else -math.inf
    return entry


def _kind(label: object) -> str:
    return "number" if isinstance(label, int | float) and not isinstance(label, bool) else type(label).__name__


def _excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT_CHARACTERS else text[: EXCERPT_CHARACTERS - 3] + "..."


def encode(x: Iterable[float], y: Label | None = None, w: float | None = None, id: str | int | None = None) -> bytes:  # noqa: A002
    """Encode one point as a JSON record; `y`, `w` and `id` are left out where None."""
    optional = {"y": y, "w": w, "id": id}
    given = {name: value for name, value in optional.items() if value is not None}
    return msgspec.json.encode({"x": [float(entry) for entry in x], **given})
