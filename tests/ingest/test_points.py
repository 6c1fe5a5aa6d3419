"""JSON points: what is accepted, what is rejected, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from streamsvm.config import Label, PointsConfig
from streamsvm.errors import ConfigurationError, InvalidPoint, TransientError
from streamsvm.ingest import dead_letter as deadletter
from streamsvm.ingest.decoder import LARGEST_FEATURE, Decoded, PointDecoder, encode
from streamsvm.ingest.row import Point
from tests.ingest.rows import AVRO, Raw, few_rows

CONFIG = few_rows(5)(dimension=2, labels=(0, 1), max_record_bytes=2_000)


def decode(*values: bytes | None, config: PointsConfig = CONFIG) -> Decoded:
    return PointDecoder(config).decode([Raw(value, offset) for offset, value in enumerate(values)])


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
