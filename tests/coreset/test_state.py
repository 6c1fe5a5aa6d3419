"""One form of a state: the same bytes, every damage is found, and nothing foreign is taken."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from streamsvm.config import ModelConfig
from streamsvm.coreset.partition import Partition, PartitionState
from streamsvm.coreset.state import FORMAT, HEAD, MAGIC, Names, check_partition, decode_state, encode_state
from streamsvm.errors import StateError
from streamsvm.points import Position
from tests.coreset.streams import config_of, learned, mixture, rows_of

NAMES = Names(3, "Zq1", "ab12", "")


def state_of(labels: int) -> tuple[PartitionState, ModelConfig]:
    config = config_of(3, labels)
    return learned(rows_of(mixture(3_000, labels=labels)), config).state(), config


def sealed(head: object, arrays: bytes = b"", version: int = FORMAT) -> bytes:
    """Return bytes with a right hash, as somebody else might write them."""
    plain = msgspec.msgpack.encode(head)
    body = HEAD.pack(MAGIC, version, len(plain)) + plain + arrays
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("labels", [2, 4])
def test_a_state_comes_back_with_the_same_bytes_and_goes_on_alike(labels: int) -> None:
    """Encoded again it is the same, and a partition that is restored from it learns on to the same bytes."""
    state, config = state_of(labels)
    content = encode_state(state, NAMES)
    names, found = decode_state(content)
    assert (names, encode_state(found, names)) == (NAMES, content)
    check_partition(found, config)
    assert found.screen is not None
    more = rows_of(mixture(4_000, labels=labels)).slice(3_000, 4_000)
    ends = []
    for one in (state, found):
        partition = Partition(0, Position(0), config)
        partition.restore(one)
        start = 0
        while start < len(more):
            stop = min(len(more), start + partition.missing)
            partition.add(more.slice(start, stop))
            start = stop
        ends.append(encode_state(partition.state(), NAMES))
    assert ends[0] == ends[1]


def test_every_cut_and_every_changed_byte_is_found() -> None:
    """Bytes that were lost or changed are refused with what to do."""
    state, _ = state_of(2)
    content = encode_state(replace(state, screen=None, buckets=()), NAMES)
    for length in [*range(60), *range(60, len(content), 97)]:
        with pytest.raises(StateError):
            decode_state(content[:length])
    for at in range(0, len(content), 101):
        changed = bytearray(content)
        changed[at] ^= 0x41
        with pytest.raises(StateError) as refused:
            decode_state(bytes(changed))
        assert refused.value.remedy


@pytest.mark.parametrize(
    "tree",
    [
        ["#", "<f8", [1 << 60]],
        ["#", "<f8", [-1]],
        ["#", "<f8", [1 << 33, 1 << 33]],
        ["#", "|O", [1]],
        ["#", "<f8", [True]],
        ["#", "<f8"],
        ["@", "Popen", []],
        ["@", "Moments", [1]],
        ["x", 1],
        ["p", 1, 2, 3],
        [],
    ],
)
def test_what_a_right_hash_covers_is_still_not_believed(tree: list[object]) -> None:
    """Sizes beyond the bytes that are there, other kinds and other numbers of fields are refused before allocating."""
    with pytest.raises(StateError):
        decode_state(sealed([msgspec.to_builtins(NAMES), tree]))


def test_another_format_and_bytes_behind_the_end_are_refused() -> None:
    """A format of another build names both; an array that nobody asked for is no part of a state."""
    with pytest.raises(StateError, match=f"format 9; this build reads format {FORMAT}"):
        decode_state(sealed([msgspec.to_builtins(NAMES), 1], version=9))
    with pytest.raises(StateError, match="behind its last array"):
        decode_state(sealed([msgspec.to_builtins(NAMES), 1], b"12345678"))


def test_what_is_no_part_of_a_state_is_not_written() -> None:
    """An object of another class is an error of whoever writes it."""
    with pytest.raises(TypeError, match="Names is no part of a state"):
        encode_state((NAMES,), NAMES)


def test_a_state_that_breaks_an_invariant_is_refused_by_name() -> None:
    """Shapes, dtypes, labels, weights, numbers and positions are those of the configuration."""
    state, config = state_of(2)
    leaf, bucket = state.leaf, state.buckets[0]
    weight, X, y = leaf.weight.copy(), leaf.X.copy(), leaf.y.copy()
    weight[0], X[0, 0], y[0] = 0.0, np.nan, 3
    extent = bucket.extent
    broken = {
        "the weights of the leaf": replace(state, leaf=replace(leaf, weight=weight)),
        "the numbers of the leaf": replace(state, leaf=replace(leaf, X=X)),
        "the labels of the leaf": replace(state, leaf=replace(leaf, y=y)),
        "the features of the leaf": replace(state, leaf=replace(leaf, X=leaf.X.astype(np.float64))),
        "the positions of its buckets": replace(state, buckets=state.buckets[::-1]),
        "the positions of its leaf": replace(state, sealed=0),
        "the rows of a bucket": replace(
            state, buckets=(replace(bucket, extent=replace(extent, rows=1)), *state.buckets[1:])
        ),
    }
    assert state.screen is not None
    broken["the screen"] = replace(state, screen=replace(state.screen, sums=state.screen.sums[:, :5]))
    for what, each in broken.items():
        with pytest.raises(StateError, match=what):
            check_partition(each, config)
    with pytest.raises(StateError, match="the moments of a bucket"):
        check_partition(state, config_of(3, 4))
