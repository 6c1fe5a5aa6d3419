"""Records of a labels topic: which key has which label.

A label is a JSON object ``{"id": "...", "y": 1}``; a record holds one, or an array of them. Where the key is the
record's own, ``{"y": 1}`` or the label alone, ``1``, is enough. Other fields are ignored. A record with the header
`WATERMARK_HEADER` is no label, whatever its value is: only its time counts.

Invariant: as of `streamsvm.ingest.decoder`: what is accepted depends on the record's bytes and the configuration, a bad
label rejects only itself and keeps its place, and no record's bytes raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamsvm.config import Label, LabelKey, PointsConfig
from streamsvm.errors import InvalidPoint
from streamsvm.ingest.blaming import blaming_the_record
from streamsvm.ingest.columns import RawRecord, Run, by_partition, or_unknown
from streamsvm.ingest.decoder import RejectedRecord, Rejection
from streamsvm.ingest.json_rows import values_of
from streamsvm.ingest.label_codes import LabelCodes
from streamsvm.ingest.row import encodable, excerpt
from streamsvm.joining.rows import sign_of
from streamsvm.points import key_of, label_codes

WATERMARK_HEADER: Final = "streamsvm-watermark"
"""Header of a record that only tells the time of its log; its value is not looked at."""


SHORT_BYTES: Final = 200
"""Shorter objects are decoded by their type at once: in so few bytes nothing nests deep, and no exponent is far."""


class KeyedRecord(RawRecord, Protocol):
    """A consumed record and its key."""

    @property
    def key(self) -> bytes | None:
        """Its key; None if it has none."""
        ...


class _Label(msgspec.Struct):
    y: int | float | str | bool | None = None
    id: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedLabels:
    """Labels of one partition, in log order, rejected ones and watermarks included.

    Attributes
    ----------
    partition : int
    offset, row, time_ms, leader_epoch : ndarray of shape (n,), int64
        -1 where the record has no time or epoch.
    last : ndarray of shape (n,), bool
        Whether it is its record's last.
    keys : list of n bytes
    sign : ndarray of shape (n,), int8
        As of `streamsvm.joining.rows.sign_of`; 0 where there is no label.
    """

    partition: int
    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    last: NDArray[np.bool_]
    time_ms: NDArray[np.int64]
    leader_epoch: NDArray[np.int64]
    keys: list[bytes]
    sign: NDArray[np.int8]


def is_watermark(record: RawRecord) -> bool:
    """Return whether a record is a watermark."""
    return any(name == WATERMARK_HEADER for name, _ in record.headers)


class LabelDecoder:
    """Turns records of a labels topic into keys and signs.

    Parameters
    ----------
    config : PointsConfig
        Its labels and its limits of records apply.
    key : "id" or "record"
    """

    def __init__(self, config: PointsConfig, key: LabelKey) -> None:
        self._config = config
        self._of_record = key == "record"
        self._code_of = LabelCodes(config.labels).of
        signs = [sign_of(code, config.classes) for code in label_codes(config.classes)]
        self._plain_signs: Mapping[Label, int] = dict(zip(config.labels, signs, strict=True))
        self._one = msgspec.json.Decoder(_Label)

    def decode(self, records: Sequence[KeyedRecord]) -> tuple[list[DecodedLabels], list[RejectedRecord]]:
        """Decode a batch, partition by partition in ascending order; records of one must be in their log's order."""
        rejected: list[RejectedRecord] = []
        decoded = []
        for partition, run in by_partition(records):
            at_once = self._at_once(partition, run)
            decoded.append(at_once or self._one_by_one(partition, run.records, rejected))
        return decoded, rejected

    def _at_once(self, partition: int, run: Run) -> DecodedLabels | None:
        """Decode records as nearly all are, a short object with an id and a known label each; None if one is not."""
        if self._of_record or not run.plain or not all(run.values) or int(run.size.max()) >= SHORT_BYTES:
            return None
        try:
            found = [self._one.decode(value) for value in run.values]  # type: ignore[arg-type]
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        if {type(one.y) for one in found} != {type(self._config.labels[0])}:
            return None
        signs = [self._plain_signs.get(one.y, 0) for one in found]  # type: ignore[arg-type]
        ids = [one.id for one in found]
        if not all(signs) or None in ids:
            return None
        n = len(found)
        return DecodedLabels(
            partition=partition,
            offset=run.offset,
            row=np.zeros(n, np.int64),
            last=np.ones(n, np.bool_),
            time_ms=run.time_ms,
            leader_epoch=run.leader_epoch,
            keys=[str(one).encode(errors="surrogatepass") for one in ids],
            sign=np.array(signs, np.int8),
        )

    def _one_by_one(
        self, partition: int, records: Sequence[RawRecord], rejected: list[RejectedRecord]
    ) -> DecodedLabels:
        places: list[tuple[int, int, bool, int, int]] = []
        keys: list[bytes] = []
        signs: list[int] = []
        for record in records:
            rows = [(b"", 0)] if is_watermark(record) else self._rows(cast(KeyedRecord, record), rejected)
            time_ms, epoch = or_unknown(record.timestamp_ms), or_unknown(record.leader_epoch)
            for row, (key, sign) in enumerate(rows):
                places.append((record.offset, row, row == len(rows) - 1, time_ms, epoch))
                keys.append(key)
                signs.append(sign)
        offset, row_, last, time, epochs = np.array(places, np.int64).reshape(len(places), 5).T.copy()
        return DecodedLabels(
            partition=partition,
            offset=offset,
            row=row_,
            last=last.astype(np.bool_),
            time_ms=time,
            leader_epoch=epochs,
            keys=keys,
            sign=np.array(signs, np.int8),
        )

    def _rows(self, record: KeyedRecord, rejected: list[RejectedRecord]) -> list[tuple[bytes, int]]:
        rows: list[tuple[bytes, int]] = []
        rejections: list[Rejection] = []
        try:
            with blaming_the_record():
                found = self._parsed(record.value)
        except InvalidPoint as error:
            found, rejections = [], [Rejection(0, error.reason, encodable(error.what))]
            rows.append((b"", 0))
        for index, label in enumerate(found):
            try:
                with blaming_the_record():
                    rows.append(self._checked(label, record.key))
            except InvalidPoint as error:
                rejections.append(Rejection(index, error.reason, encodable(error.what)))
                rows.append((b"", 0))
        if rejections:
            rejected.append(RejectedRecord(record, len(rows), tuple(rejections)))
        return rows

    def _parsed(self, value: bytes | None) -> Sequence[Any]:
        config = self._config
        if not value:
            raise InvalidPoint("empty_record", "the record has no value")
        if len(value) > config.max_record_bytes:
            raise InvalidPoint(
                "oversize_record",
                f"the value has {len(value)} bytes; points.max_record_bytes is {config.max_record_bytes}",
            )
        if len(value) < SHORT_BYTES and value[:1] == b"{":
            try:
                return [self._one.decode(value)]
            except (msgspec.MsgspecError, UnicodeDecodeError):
                pass  # looked at again for the reason
        whole = values_of(value, config.ROWS_PER_RECORD)
        rows = whole if isinstance(whole, list) else [whole]
        if not rows:
            raise InvalidPoint("empty_record", "the array holds no label")
        return rows

    def _checked(self, label: Any, record_key: bytes | None) -> tuple[bytes, int]:
        if isinstance(label, InvalidPoint):
            raise label
        if isinstance(label, _Label):
            y, id_ = label.y, label.id
        elif isinstance(label, dict):
            y, id_ = label.get("y"), label.get("id")
        elif self._of_record:
            y, id_ = label, None
        else:
            raise InvalidPoint("wrong_type", f"the label is {excerpt(repr(label))}; it must be an object with id and y")
        if not isinstance(y, int | float | str | bool | None):
            raise InvalidPoint("wrong_type", f"y is {excerpt(repr(y))}")
        if isinstance(id_, bool) or not isinstance(id_, str | int | None):
            raise InvalidPoint("wrong_type", f"id is {excerpt(repr(id_))}; it must be text or an integer")
        key = record_key if self._of_record else key_of(id_)
        if key is None:
            raise InvalidPoint("missing_key", "the record has no key" if self._of_record else "id is missing")
        return key, sign_of(self._code_of(y), self._config.classes)
