"""Records of a labels topic: what is a label, what is rejected and why, and what only tells the time."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsvm.config import LabelKey, PointsConfig
from streamsvm.ingest.decoder import REASONS
from streamsvm.ingest.label_records import WATERMARK_HEADER, LabelDecoder

CONFIG = PointsConfig(dimension=2, labels=("no", "yes"), max_record_bytes=1_000)


@dataclass(frozen=True)
class Raw:
    """A record as a decoder sees it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int = 0
    offset: int = 7
    timestamp_ms: int | None = 5
    leader_epoch: int | None = None


def decoded(raw: Raw, key: LabelKey = "id") -> tuple[list[bytes], list[int], list[str]]:
    """Return keys, signs and reasons of one record."""
    (labels,), rejected = LabelDecoder(CONFIG, key).decode([raw])
    assert labels.last.tolist() == [False] * (len(labels.keys) - 1) + [True]
    return labels.keys, labels.sign.tolist(), [one.reason for record in rejected for one in record.rejections]


@pytest.mark.parametrize(
    ("value", "keys", "signs"),
    [
        (b'{"id": "a", "y": "yes"}', [b"a"], [1]),
        (b'{"id": 17, "y": "no", "more": [1, {}]}', [b"17"], [-1]),
        (b'[{"id": "17", "y": "no"}, {"y": "yes", "id": "b"}]', [b"17", b"b"], [-1, 1]),
    ],
)
def test_labels_are_read_by_id(value: bytes, keys: list[bytes], signs: list[int]) -> None:
    """A number and its digits are the same key; an array is a record of several labels."""
    assert decoded(Raw(value)) == (keys, signs, [])


def test_a_record_key_needs_no_id() -> None:
    """With the records' own keys an object with y, or the label alone, is enough."""
    assert decoded(Raw(b'{"y": "yes"}', b"k"), "record") == ([b"k"], [1], [])
    assert decoded(Raw(b'"no"', b"k"), "record") == ([b"k"], [-1], [])
    assert decoded(Raw(b'"no"'), "record") == ([b""], [0], ["missing_key"])


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        (None, ["empty_record"]),
        (b"[]", ["empty_record"]),
        (b"{", ["malformed_json"]),
        (b'{"id": "a"}', ["missing_field"]),
        (b'{"y": "yes"}', ["missing_key"]),
        (b'{"id": "a", "y": "maybe"}', ["unknown_label"]),
        (b'{"id": 1.5, "y": "yes"}', ["wrong_type"]),
        (b'{"id": "a", "y": ["yes"]}', ["wrong_type"]),
        (b'"yes"', ["wrong_type"]),
        (b'[{"id": "a", "y": "yes"}, 3, {"id": "b"}]', ["wrong_type", "missing_field"]),
        (b'{"id": "' + b"a" * 1_000 + b'", "y": "yes"}', ["oversize_record"]),
    ],
)
def test_a_bad_label_is_rejected_with_its_reason_and_keeps_its_place(value: bytes | None, reasons: list[str]) -> None:
    """Only that label is rejected, and its row still tells the time."""
    keys, signs, found = decoded(Raw(value))
    assert found == reasons
    assert signs.count(0) == len(reasons)
    assert len(keys) == len(signs)


def test_a_watermark_is_no_label_and_no_dead_letter() -> None:
    """Whatever its value is, it only tells the time."""
    for value in (None, b"", b'{"id": "a", "y": "yes"}'):
        assert decoded(Raw(value, headers=((WATERMARK_HEADER, b""),))) == ([b""], [0], [])


@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none()
            | st.booleans()
            | st.floats()
            | st.integers()
            | st.text(max_size=5)
            | st.sampled_from(["id", "y", "yes"]),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "y", "z"]), inner),
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_record_can_end_a_daemon(value: bytes) -> None:
    """Every value is labels, or rejected for a known reason."""
    _, signs, reasons = decoded(Raw(value))
    assert set(reasons) <= REASONS.keys() - {"undecodable"}
    assert signs.count(0) == len(reasons)


@given(
    st.lists(
        st.sampled_from(
            [
                b'{"id": "a", "y": "yes"}',
                b'{"y": "no", "id": 7}',
                b'{"id": "b", "y": "maybe"}',
                b'{"y": "no"}',
                b"[]",
                b"1",
                b'{"id": "a", "y": true}',
                b'{"id": "\\ud800", "y": "no"}',
                b'{"id": "c", "y": "yes", "z": [[1]]}',
            ]
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_batch_is_decoded_as_its_records_are_one_by_one(values: list[bytes]) -> None:
    """The short way of batches in which all is well changes no label, no place and no reason."""
    records = [Raw(value, offset=number, timestamp_ms=number) for number, value in enumerate(values)]
    (batch,), rejected = LabelDecoder(CONFIG, "id").decode(records)
    single = [LabelDecoder(CONFIG, "id").decode([record]) for record in records]
    assert batch.keys == [key for (labels,), _ in single for key in labels.keys]
    assert batch.sign.tolist() == [sign for (labels,), _ in single for sign in labels.sign.tolist()]
    assert batch.offset.tolist() == [offset for (labels,), _ in single for offset in labels.offset.tolist()]
    assert rejected == [one for _, refused in single for one in refused]
