"""JSON points: what is accepted, what is rejected, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import ConfigurationError, InvalidPoint, TransientError
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import LARGEST_FEATURE, REASONS, Decoded, PointDecoder, encode
from streamsvm.ingest.row import Point
from streamsvm.points import Position
from tests.ingest.rows import AVRO, Raw, few_rows
from tests.ingest.test_formats import BAD_ARROW, BAD_AVRO

CONFIG = few_rows(5)(dimension=2, labels=(0, 1), max_record_bytes=2_000)


def decode(*values: bytes | None, config: PointsConfig = CONFIG) -> Decoded:
    return PointDecoder(config).decode([Raw(value, offset) for offset, value in enumerate(values)])


BAD = [
    (b"nonsense", "malformed_json"),
    (b"{", "malformed_json"),
    (b"\xff\xfe", "malformed_json"),
    (b"[" * 1500, "malformed_json"),
    (b"[NaN," + b"[" * 500 + b"]" * 501, "malformed_json"),
    (b'\xef\xbb\xbf[{"x": [1, 2], "y": 1}]', "malformed_json"),
    ('[{"x": [1, 2], "y": 1}]'.encode("utf-16"), "malformed_json"),
    (b'{"x": [1, 2], "y": 1, "id": "\\ud800"}', "malformed_json"),
    (b'{"x": [1, 2], "y": 1, "\\ud800": 1}', "malformed_json"),
    (b'{"\\udfff": 1, "x": [NaN, 2], "y": 1}', "malformed_json"),
    (b'{"x": ["\\ud800", 2], "y": 1}', "malformed_json"),
    (b'{"x": [1, 2], "y": 1, "w": "\\ud800"}', "malformed_json"),
    (b'[{"x": [1, 2], "y": 1, "\\ud800": 1}]', "malformed_json"),
    (b'{"x": [1, 2], "y": "\\ud800"}', "unknown_label"),
    (b'{"x": [1, 2], "y": 1, "op": {"\\ud800": "\\ud800"}}', "unsupported_operation"),
    (b'"\\ud800"', "wrong_type"),
    (b"", "empty_record"),
    (None, "empty_record"),
    (b"[]", "empty_record"),
    (b'{"y": 1}', "missing_field"),
    (b'{"x": [1, 2]}', "missing_field"),
    (b'{"x": [1, 2], "y": null}', "missing_field"),
    (b'{"x": [1], "y": 1}', "wrong_dimension"),
    (b'{"x": [], "y": 1}', "wrong_dimension"),
    (b'{"x": [1, 2, 3], "y": 1}', "wrong_dimension"),
    (b'{"x": [1, NaN], "y": 1}', "not_finite"),
    (b'{"x": [-Infinity, 1], "y": 1}', "not_finite"),
    (b'{"x": [1, 1e999], "y": 1}', "not_finite"),
    (b'{"x": [1, 4e38], "y": 1}', "not_finite"),
    (b'{"x": [1, ' + b"9" * 400 + b'], "y": 1}', "not_finite"),
    (b'{"x": [1, 2], "y": 2}', "unknown_label"),
    (b'{"x": [1, 2], "y": "1"}', "unknown_label"),
    (b'{"x": [1, 2], "y": true}', "unknown_label"),
    (b'{"x": [1, 2], "y": 0.5}', "unknown_label"),
    (b'{"x": [1, 2], "y": 1, "w": 0}', "invalid_weight"),
    (b'{"x": [1, 2], "y": 1, "w": -1}', "invalid_weight"),
    (b'{"x": [1, 2], "y": 1, "w": NaN}', "invalid_weight"),
    (b'{"x": [1, 2], "y": 1, "w": 1e16}', "invalid_weight"),
    (b'{"x": [1, 2], "y": 1, "w": 5e-324}', "invalid_weight"),
    (b'{"x": ["1", 2], "y": 1}', "wrong_type"),
    (b'{"x": 3, "y": 1}', "wrong_type"),
    (b'{"x": [true, 2], "y": 1}', "wrong_type"),
    (b'{"x": [1, 2], "y": [1]}', "wrong_type"),
    (b"7", "wrong_type"),
    (b'"text"', "wrong_type"),
    (b'{"x": [1, 2], "y": 1, "op": "delete"}', "unsupported_operation"),
    (b'{"x": [1, 2], "y": 1}' + b" " * 2000, "oversize_record"),
    (b"[" + b",".join([b'{"x": [1, 2], "y": 1}'] * 6) + b"]", "too_many_rows"),
]


@pytest.mark.parametrize(("value", "reason"), BAD)
def test_bad_records_are_rejected_with_their_reason(value: bytes | None, reason: str) -> None:
    """Each kind of bad record is one rejected row with a reason of the closed list and words for people."""
    decoded = decode(b'{"x": [1, 2], "y": 1}', value, b'{"x": [3, 4], "y": 0}')
    assert decoded.rows[0].accepted.tolist() == [True, False, True]
    (rejected,) = decoded.rejected
    assert [bad.reason for bad in rejected.rejections] == [reason]
    assert rejected.rejections[0].what
    assert "\n" not in rejected.rejections[0].what


def test_every_reason_is_reached() -> None:
    """The closed list of reasons has no entry that nothing produces."""
    reached = {reason for _, reason in [*BAD, *BAD_ARROW, *BAD_AVRO]}
    of_events = {"wrong_envelope", "malformed_protobuf"}  # test_envelopes.py, test_protobuf.py
    of_frames = {"framed"}  # test_framed.py
    of_labels = {"absent_label", "changed_label", "doubled_key", "missing_key", "unmatched_label"}  # test_joiner.py
    assert reached | of_events | of_frames | of_labels | {
        "unknown_content_type",
        "undecodable",
    } == set(REASONS)


@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize("value", [value for value, _ in BAD if value and b"\\ud" in value])
def test_half_a_surrogate_pair_is_no_end_of_a_daemon(value: bytes, labeled: bool) -> None:
    """Alone, among others, and as a row of an array: the same verdict, and a dead letter that can be written."""
    good = b'{"x": [1, 2], "y": 1}'
    decoder = PointDecoder(CONFIG, labeled=labeled)
    alone = decoder.decode([Raw(value)]).rows[0].accepted.tolist()
    several = decoder.decode([Raw(one, offset) for offset, one in enumerate([good, value, good])])
    assert several.rows[0].accepted.tolist() == [True, *alone, True]
    for bad in several.rejected:
        assert deadletter.encode("topic", bad, None, (), model="m").headers
    if not value.startswith(b"["):
        array = decoder.decode([Raw(b"[" + good + b"," + value + b"]")])
        assert array.rows[0].accepted.tolist() == [True, *alone]


class Failing(PointDecoder):
    """A decoder with a defect: some bytes make it raise."""

    error: Exception = RuntimeError("a defect\nof ours: \udcff")

    def _rows_of(self, format_: str, value: bytes) -> Sequence[Point | InvalidPoint]:
        if b"13" in value:
            raise self.error
        return super()._rows_of(format_, value)

    def _check(self, point: Point) -> int:
        if point.x[0] == 17:
            raise self.error
        return super()._check(point)


def test_an_error_that_nobody_foresaw_rejects_the_record() -> None:
    """One that its bytes cause, for the whole record or for a row of it; its neighbours are learned."""
    good = b'{"x": [1, 2], "y": 1}'
    values = [good, b'{"x": [13, 2], "y": 1, "id": null}', good, b'[{"x": [17, 2], "y": true}, {"x": [1, 2], "y": 1}]']
    decoded = Failing(CONFIG).decode([Raw(value, offset) for offset, value in enumerate(values)])
    assert decoded.rows[0].accepted.tolist() == [True, False, True, False, True]
    told = [[(bad.row, bad.reason) for bad in one.rejections] for one in decoded.rejected]
    assert told == [[(0, "undecodable")], [(0, "undecodable")]]
    what = decoded.rejected[0].rejections[0].what
    assert what == "RuntimeError: a defect of ours: \\udcff"
    assert deadletter.encode("topic", decoded.rejected[0], None, (), model="m").headers


@pytest.mark.parametrize("error", [MemoryError("none"), TransientError("away"), ConfigurationError("refused")])
def test_what_is_not_the_records_fault_passes(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lack of memory and a registry that is away say nothing of the record."""
    monkeypatch.setattr(Failing, "error", error)
    with pytest.raises(type(error)):
        Failing(CONFIG).decode([Raw(b'{"x": [13, 2], "y": true}')])


def test_a_failure_of_the_registrys_client_is_not_the_records_fault() -> None:
    """Whatever it raises passes: what is rejected depends on bytes and configuration only."""

    class Broken:
        def schema(self, schema_id: int | str) -> str | None:
            raise ValueError(f"no answer about {schema_id}")

    with pytest.raises(ValueError, match="no answer about 1"):
        PointDecoder(CONFIG, schemas=Broken()).decode([Raw(b"\0\0\0\0\1\2", headers=AVRO)])


def test_one_bad_row_rejects_that_row() -> None:
    """The other rows of its record are learned, and positions count all of them."""
    decoded = decode(b'[{"x": [1, 2], "y": 1}, {"x": [1], "y": 1}, {"x": [1, NaN], "y": 1}, {"x": [3, 4], "y": 0}]')
    rows = decoded.rows[0]
    assert rows.accepted.tolist() == [True, False, False, True]
    assert [(bad.row, bad.reason) for bad in decoded.rejected[0].rejections] == [
        (1, "wrong_dimension"),
        (2, "not_finite"),
    ]
    assert [rows.position_after(index) for index in range(4)] == [
        Position(0, 1),
        Position(0, 2),
        Position(0, 3),
        Position(1, 0),
    ]


@pytest.mark.parametrize(
    ("labels", "accepted", "rejected"),
    [
        ((0, 1), [b"0", b"1", b"1.0"], [b"true", b'"1"', b"2"]),
        (("no", "yes"), [b'"no"', b'"yes"'], [b'"maybe"', b"1"]),
        ((False, True), [b"false", b"true"], [b"0", b"1"]),
    ],
)
def test_labels_are_matched_by_type_and_value(
    labels: tuple[object, object], accepted: list[bytes], rejected: list[bytes]
) -> None:
    """The second label is +1; a label of another JSON type is not the same label."""
    config = PointsConfig(dimension=1, labels=labels)  # type: ignore[arg-type]
    for y in accepted:
        rows = decode(b'{"x": [1], "y": ' + y + b"}", config=config).rows[0]
        assert rows.accepted.all()
        assert rows.points.y[0] == (1 if y.rstrip(b".0") == accepted[-1].rstrip(b".0") or y == accepted[1] else -1)
    for y in rejected:
        assert not decode(b'{"x": [1], "y": ' + y + b"}", config=config).rows[0].accepted.any()


@pytest.mark.parametrize(
    ("labels", "y", "fits"),
    [
        ((False, True), b'"true"', '["false", "true"]'),
        ((False, True), b'"True"', '["False", "True"]'),
        ((False, True), b"0", "[0, 1]"),
        (("false", "true"), b"true", "[false, true]"),
        (("no", "yes"), b'"YES"', '["NO", "YES"]'),
        (("0", "1"), b"1", "[0, 1]"),
        ((-1, 1), b'"-1"', '["-1", "1"]'),
        ((0, 1), b"true", "[false, true]"),
        (("no", "yes"), b'"maybe"', None),
        ((0, 1), b"2", None),
    ],
)
def test_a_label_of_another_kind_is_told_with_the_option_that_fits(
    labels: tuple[Label, Label], y: bytes, fits: str | None
) -> None:
    """What is the same but for its kind or its case: the option, which then takes the record; else no guess."""
    value = b'{"x": [1, 2], "y": ' + y + b"}"
    decoded = decode(value, config=PointsConfig(dimension=2, labels=labels))
    (bad,) = decoded.rejected
    told = bad.rejections[0].what
    assert (f"--points-labels '{fits}' fits" in told) == (fits is not None), told
    assert ("--points-labels" in told) == (fits is not None)
    if fits is not None:
        again = decode(value, config=PointsConfig(dimension=2, labels=tuple(json.loads(fits))))
        assert not again.rejected


@settings(max_examples=100, deadline=None)
@given(
    x=st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=2),
    y=st.sampled_from([0, 1]),
    w=st.none() | st.floats(1e-12, 1e15),
)
def test_encoded_points_decode_to_the_same(x: list[float], y: int, w: float | None) -> None:
    """Features to float32, label and weight exactly."""
    rows = decode(encode(x, y, w)).rows[0]
    assert rows.accepted.all()
    np.testing.assert_array_equal(rows.points.X[0], np.array(x, np.float64).astype(np.float32))
    assert rows.points.y[0] == 2 * y - 1
    assert rows.points.weight[0] == (1.0 if w is None else w)


@settings(max_examples=300, deadline=None)
@given(value=st.binary(max_size=60) | st.text(alphabet='[]{}",:xyw1e-9NaN ', max_size=40).map(str.encode))
def test_no_bytes_break_the_decoder(value: bytes) -> None:
    """Whatever comes is accepted or rejected, row by row, and never raises."""
    decoded = decode(value)
    rows = decoded.rows[0]
    assert len(rows) >= 1
    assert rows.last[-1]
    assert int((~rows.accepted).sum()) == sum(len(bad.rejections) for bad in decoded.rejected)


class Slow(PointDecoder):
    """The decoder without its ways for batches and arrays in which all is well."""

    def _scanned(self, *arguments: object) -> bool:
        return False

    def _scanned_array(self, *arguments: object) -> bool:
        return False

    def _all_well(self, *arguments: object) -> None:
        return None


SOME = st.sampled_from(
    [
        b'{"x": [1, 2], "y": 1}',
        b'{"x": [0.1, -2e30], "y": 0, "w": 2.5, "id": "a"}',
        b'{"x": [3, 4], "y": 0, "id": 7, "extra": [1]}',
        *(value for value, _ in BAD if value is None or len(value) < 100),
        b'{"x": [1, 2], "y": 1.0}',
        b'[{"x": [1, 2], "y": 1}, {"x": [5, 6], "y": 0}]',
    ]
)
GOOD = st.sampled_from([b'{"x": [1, 2], "y": 1}', b'{"x": [0.1, -2e30], "y": 0, "w": 2.5, "id": "a"}'])


@settings(max_examples=300, deadline=None)
@given(
    values=st.lists(GOOD, min_size=1, max_size=6) | st.lists(SOME, min_size=1, max_size=6),
    labeled=st.booleans(),
    labels=st.sampled_from([(0, 1), (False, True), ("0", "1")]),
)
def test_the_short_way_gives_the_same(values: list[bytes | None], labeled: bool, labels: tuple[object, object]) -> None:
    """Column by column or row by row: the same rows, rejections and ids."""
    config = CONFIG.model_copy(update={"labels": labels})
    records = [Raw(value, offset, offset % 2, None if offset % 3 else 7, offset) for offset, value in enumerate(values)]
    fast = PointDecoder(config, labeled=labeled).decode(records)
    slow = Slow(config, labeled=labeled).decode(records)
    assert (fast.rejected, fast.ids) == (slow.rejected, slow.ids)
    for one, other in zip(fast.rows, slow.rows, strict=True):
        for field in ("offset", "row", "last", "time_ms", "accepted", "leader_epoch"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field), strict=True)
        assert one.points.take(one.accepted).sha256() == other.points.take(other.accepted).sha256()


FAR = [
    b"0." + b"0" * zeros + b"1" + form + exponent
    for zeros in (9, 9_990, 10_010, 12_344, 99_990, 99_998, 123_455)
    for form in (b"e", b"E+", b"e-", b"e000")
    for exponent in (b"10", b"10000", b"12345", b"99999", b"100000", b"123456", b"1234567", b"99999999999999999999")
] + [
    digits + b"e-" + exponent
    for digits in (b"1" + b"0" * 9_999, b"1" + b"0" * 12_345, b"7" * 99_999, b"1" + b"0" * 123_456)
    for exponent in (b"9999", b"10000", b"12345", b"99999", b"100000", b"123456", b"1234567")
]


@pytest.mark.long(keep=("True",))
@pytest.mark.parametrize("labeled", [True, False])
def test_far_exponents_have_one_value(labeled: bool) -> None:
    """Alone, beside good records, beside bad ones and in an array: what Python's own exact conversion says."""
    config = PointsConfig(dimension=1, labels=(0, 1), dtype="float64")
    decoder = PointDecoder(config, labeled=labeled)
    good, bad = b'{"x": [5], "y": 1}', b"nonsense"
    for text in FAR:
        expected = float(text)
        one = b'{"x": [' + text + b'], "y": 1}'
        array = b"[" + good + b"," + one + b"]"
        for values in ([one], [good, one, good], [bad, one, bad, bad], [bad, array], [array]):
            decoded = decoder.decode([Raw(value, offset) for offset, value in enumerate(values)])
            rows = decoded.rows[0]
            kept = [x for x in rows.points.X[rows.accepted, 0].tolist() if x != 5.0]
            assert kept == ([expected] if expected <= LARGEST_FEATURE["float64"] else []), (text[-20:], len(text))
            told = [bad.reason for one in decoded.rejected for bad in one.rejections if bad.reason != "malformed_json"]
            assert told == ([] if kept else ["not_finite"])


@pytest.mark.parametrize("depth", [90, 100, 500, 900, 990])
def test_nesting_is_judged_by_the_bytes_alone(depth: int) -> None:
    """Not by how much of the interpreter's stack the caller has used already."""
    value = b'{"x":[1,2],"y":1,"more":' + b"[" * depth + b"]" * depth + b"}"

    def below(calls: int) -> bool:
        return below(calls - 1) if calls else bool(decode(value).rows[0].accepted[0])

    assert below(0) == below(50) == below(400) == (depth <= 99)


def test_long_arrays_are_not_deep() -> None:
    """Many brackets side by side are fine."""
    config = PointsConfig(dimension=2, labels=(0, 1))
    value = b"[" + b",".join([encode([1, 2], 1)] * 500) + b"]"
    assert decode(value, config=config).rows[0].accepted.sum() == 500


def test_partitions_are_told_apart() -> None:
    """Each partition's rows come by themselves, in ascending order of partition."""
    records = [Raw(encode([1, 2], 1), 5, 3), Raw(encode([3, 4], 0), 9, 1), Raw(encode([5, 6], 0), 6, 3)]
    rows = PointDecoder(CONFIG).decode(records).rows
    assert [(part.partition, part.offset.tolist()) for part in rows] == [(1, [9]), (3, [5, 6])]


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(GOOD, min_size=1, max_size=8) | st.lists(SOME, min_size=1, max_size=8),
    partitions=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    labeled=st.booleans(),
)
def test_partitions_are_decoded_together_as_each_alone(
    values: list[bytes | None], partitions: list[int], labeled: bool
) -> None:
    """Which records of other partitions came in the same poll, and in which order, decides nothing."""
    records = [Raw(value, at, partition, at, at) for at, (value, partition) in enumerate(zip(values, partitions))]  # noqa: B905
    together = PointDecoder(CONFIG, labeled=labeled).decode(records)
    alone = [
        PointDecoder(CONFIG, labeled=labeled).decode([one for one in records if one.partition == partition])
        for partition in sorted({one.partition for one in records})
    ]
    assert together.rejected == [bad for one in alone for bad in one.rejected]
    assert together.ids == [id_ for one in alone for id_ in one.ids]
    for rows, expected in zip(together.rows, (one.rows[0] for one in alone), strict=True):
        assert rows.partition == expected.partition
        for field in ("offset", "row", "last", "time_ms", "accepted", "leader_epoch"):
            np.testing.assert_array_equal(getattr(rows, field), getattr(expected, field), strict=True)
        assert rows.points.take(rows.accepted).sha256() == expected.points.take(expected.accepted).sha256()


def test_float64_keeps_what_float32_cannot() -> None:
    """The wider dtype accepts larger features, up to what can be squared."""
    config = PointsConfig(dimension=1, dtype="float64")
    assert decode(b'{"x": [4e38], "y": 1}', config=config).rows[0].accepted.all()
    beyond = LARGEST_FEATURE["float64"] * 10
    assert not decode(encode([beyond], 1), config=config).rows[0].accepted.any()
