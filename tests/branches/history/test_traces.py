"""What a row leaves is found wherever it stands; nothing else is."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamsvm.branches.history.traces import FORMS, LEAST, Content, Traces, traces_of
from streamsvm.model.machine import Scaler
from streamsvm.model.packing import Grid

pytestmark = pytest.mark.quick


def contents(n: int = 50, d: int = 5, dtype: str = "f4", seed: int = 0) -> list[Content]:
    random = np.random.default_rng(seed)
    return [
        Content(
            place=f"0:{at}",
            values=random.standard_normal(d).astype(dtype),
            id=f"person-{at:04}",
            record=b'{"id": "person-%04d", "x": []}' % at,
        )
        for at in range(n)
    ]


ROWS = contents()
TRACES = Traces(ROWS)


def planted(values: NDArray[np.floating]) -> dict[str, tuple[str, bytes]]:
    """Return forms and bytes in which a row may stand, by what they are."""
    found = {
        f"{'base64 of ' if wrapped else ''}{kind} after {begun} bytes": (
            "half precision" if kind.endswith("f2") else "value",
            b64encode(bytes(begun) + raw + bytes(begun)) if wrapped else bytes(begun) + raw,
        )
        for kind in ("<f8", ">f8", "<f4", ">f4", "<f2", ">f2")
        for raw in [values.astype(kind).tobytes()]
        for wrapped in (False, True)
        for begun in range(4)
    }
    found["CSV"] = "text", ",".join(str(value) for value in values).encode()
    found["JSON"] = "text", repr([float(value) for value in values]).encode()
    found["a value"] = "text", f"value={float(values[2])!r}".encode()
    return found


@pytest.mark.parametrize("what", planted(ROWS[0].values))
def test_a_row_is_found_however_it_is_written(what: str) -> None:
    """Numbers of any width and byte order, alone and in base64 at any place, and text."""
    form, raw = planted(ROWS[7].values)[what]
    assert TRACES.met(b"before " + raw + b" after") >= {("0:7", form)}


def test_ids_records_and_hashes_are_found() -> None:
    """The record as it came, its id, and hashes of both."""
    content = ROWS[3]
    assert ("0:3", "id") in TRACES.met(b"user=person-0003;")
    assert ("0:3", "text") in TRACES.met(content.record)
    assert ("0:3", "hash") in TRACES.met(sha256(content.record).hexdigest().encode())
    assert ("0:3", "hash") in TRACES.met(b64encode(sha256(b"person-0003").digest()))
    assert {pair for pair in TRACES.met(b"person-0004") if pair[0] == "0:3"} == set()


def test_a_name_that_another_one_begins_with_is_not_left() -> None:
    """In text only: in a binary form the byte beside a name may be anything."""
    one = Traces([Content(place="0:0", values=np.zeros(2, np.float32), id="client-1", key=b"client-1")])
    for text in (b'{"id": "client-17", "y": 1}', b'{"id": "xclient-1"}', b"client-10", b"aclient-1"):
        assert not one.met(text)
    for text in (
        b'{"id": "client-1", "y": 1}',
        b"client-1",
        b"the client-1.",
        b"\x00\x01client-17\x02",
        b"4client-1\x00\xff7",
    ):
        assert one.met(text) == {("0:0", "id")}, text


def test_nothing_is_found_in_noise() -> None:
    """Ten megabytes of random bytes, and of other rows."""
    random = np.random.default_rng(9)
    assert not TRACES.met(random.bytes(10_000_000))
    assert not TRACES.met(random.standard_normal(200_000).tobytes())
    assert not TRACES.met(b"")
    assert not TRACES.met(bytes(LEAST - 1))


def test_numbers_of_many_versions_are_no_text_of_a_thousand_rows() -> None:
    """Among so many some begin with the same seven digits; no number is the same, and no two in a row begin so."""
    traces, numbers = Traces(contents(1_000, 3, seed=4)), np.random.default_rng(10).standard_normal(100_000).tolist()
    assert not traces.met(repr(numbers).encode())
    row = contents(1_000, 3, seed=4)[7].values.tolist()
    assert traces.met(f"[{row[0]:.6g}, {row[1]:.6g}]".encode()) == {("0:7", "text")}
    assert traces.met(repr(row[2]).encode()) == {("0:7", "text")}
    one = Traces([Content(place="0:0", values=np.array([0.1234567, 2.0], np.float32))])
    assert one.met(b"x=0.1234567;") == one.met(b"0.1234567") == {("0:0", "text")}
    assert not one.met(b"0.12345671")
    assert not one.met(b"20.1234567")


def test_round_values_have_no_trace_of_their_own() -> None:
    """Zeros and small numbers are everywhere: only a whole row of them is looked for, or none, which is told."""
    zeros = Traces([Content(place="0:0", values=np.zeros(4, np.float32))])
    assert not len(zeros)
    assert zeros.untold == {("0:0", form) for form in FORMS}
    few = Traces([Content(place="0:0", values=np.array([1.0, 0.5, 0.0, 2.0], np.float32))])
    assert not few.met(np.array([1.0, 0.5, 3.0, 2.0], np.float32).tobytes())
    assert few.met(np.array([7.0, 1.0, 0.5, 0.0, 2.0], np.float32).tobytes()) == {("0:0", "value")}


@given(st.integers(0, 49), st.integers(0, 300), st.sampled_from(FORMS), st.randoms(use_true_random=False))
def test_every_trace_is_found_anywhere(row: int, before: int, form: str, random: object) -> None:
    """Whatever stands before it and after it."""
    own = [trace for kind, trace in traces_of(ROWS[row]) if kind == form]
    trace = random.choice(own)  # type: ignore[attr-defined]
    assert (f"0:{row}", form) in TRACES.met(bytes(before) + trace + b"x" * (before % 7))


def test_a_row_is_met_in_a_packed_version() -> None:
    """At any place in base64 of its support vectors, and no other row of the same grid."""
    random = np.random.default_rng(0)
    X, scaler = random.normal(size=(50, 12)), Scaler(np.full(12, 0.5), np.full(12, 2.0))
    Z = scaler.transform(X)
    grid = Grid.of(Z, 0.1)
    written = b64encode(grid.packed(Z[[3, 17, 40]]).tobytes())
    for row in range(50):
        found = Traces([Content(place=f"{row}", values=X[row]).scaled(scaler, grid)]).met(written)
        assert found == ({(f"{row}", "value")} if row in (3, 17, 40) else frozenset())
