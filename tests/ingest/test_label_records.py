"""Records of a labels topic: what is a label, what is rejected and why, and what only tells the time."""

from __future__ import annotations

from hypothesis import given, strategies as st

from streamsvm.config import PointsConfig
from streamsvm.ingest.label_records import LabelDecoder
from tests.ingest.rows import Raw

CONFIG = PointsConfig(dimension=2, labels=("no", "yes"), max_record_bytes=1_000)


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
