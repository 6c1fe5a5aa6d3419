"""The compiled parser of plain points: what it accepts is what every parser makes of it."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from streamsvm.ingest import json_scan
from streamsvm.ingest.decimals import LARGEST_POWER, LEAST_POWER, _powers_of_five
from streamsvm.ingest.json_scan import Scanned
from tests.examples import examples


def scan(values: Sequence[bytes], dimension: int, largest: float) -> Scanned:
    return json_scan.scan(values, np.array([len(value) for value in values]), dimension, largest)


def number(text: str) -> float | None:
    """Return what the parser makes of a number; None if it declines."""
    found = scan([b'{"x": [' + text.encode() + b'], "y": 1}'], 1, math.inf)
    return float(found.X[0, 0]) if found.accepted[0] else None


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


DECIMALS = st.builds(
    lambda digits, exponent: f"{digits}e{exponent}", st.integers(-(2**63), 2**63), st.integers(-345, 310)
)
PLAIN = st.floats(allow_nan=False, allow_infinity=False).map(repr)
HALFWAY = st.builds(lambda half, twos: str((2 * half + 1) << twos), st.integers(2**52, 2**53), st.integers(0, 8))


@settings(max_examples=examples(3000), deadline=None)
@given(text=PLAIN | DECIMALS | HALFWAY)
@example(text="-0.0")
@example(text="9007199254740993")
@example(text="0.00012345678901234567")
@example(text="2.2250738585072014e-308")
@example(text="1.7976931348623157e308")
def test_numbers_are_rounded_correctly(text: str) -> None:
    """Bit for bit as Python's own correctly rounded conversion, or declined."""
    found = number(text)
    assert found is None or bits(found) == bits(float(text))


@settings(max_examples=500, deadline=None)
@given(value=st.floats(-1e30, 1e30).filter(lambda value: value == 0 or abs(value) > 1e-300))
def test_ordinary_numbers_are_not_declined(value: float) -> None:
    """The shortest text of a number, which is what encoders write, is understood."""
    assert number(repr(value)) == value


@pytest.mark.parametrize(
    "text", ["01", "1.", ".5", "+1", "-", "1e", "1e+", "--1", "0x1", "NaN", "Infinity", "1e999", "5e-324", "-0", "1_0"]
)
def test_what_is_no_json_number_or_no_ordinary_one_is_declined(text: str) -> None:
    """A full parser decides about these."""
    assert number(text) is None


def test_powers_of_five_are_the_leading_bits() -> None:
    """Truncated where the power is whole, above and within one unit where it is a fraction."""
    for q, (high, low) in zip(range(LEAST_POWER, LARGEST_POWER + 1), _powers_of_five().tolist(), strict=True):
        leading = (high << 64) + low
        assert leading.bit_length() == 128
        power = 5 ** abs(q)
        shift = power.bit_length() - 128 if q >= 0 else power.bit_length() + 127
        if q >= 0:
            assert leading == (power >> shift if shift >= 0 else power << -shift)
        else:
            assert (leading - 2) * power < 1 << shift < (leading + 1) * power


def test_every_place_where_a_record_can_be_cut_is_declined() -> None:
    """A record ends where it ends, whatever follows it in the batch."""
    whole = b' { "id" : -12 , "y":1, "w" : 2.5e0 ,"x":[ 0.5 , -1 ] } '
    assert scan([whole, whole], 2, math.inf).accepted.all()
    for start, end in pairwise(range(2, len(whole) - 1)):
        assert not scan([whole[:start], whole[end:]], 2, math.inf).accepted.any()


@given(x=st.lists(st.floats(-1e38, 1e38), min_size=3, max_size=3))
def test_features_are_rounded_once_more_for_storage(x: list[float]) -> None:
    """As float32 they are what float64's cast gives: the same as by any other way of decoding."""
    value = json.dumps({"x": x, "y": 1}).encode()
    found = json_scan.scan([value], np.array([len(value)]), 3, math.inf, np.dtype(np.float32))
    if found.accepted[0]:
        assert found.X.dtype == np.float32
        assert found.X[0].tolist() == np.array(x).astype(np.float32).tolist()
