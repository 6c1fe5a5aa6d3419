"""One form of a state: the same bytes, every damage is found, and nothing foreign is taken."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from streamsvm.config import ModelConfig
from streamsvm.coreset.partition import Partition, PartitionState
from streamsvm.coreset.state import FORMAT, Names, check_partition, decode_state, encode_state
from streamsvm.errors import CorruptCheckpoint
from streamsvm.points import Position
from tests.coreset.streams import batches, config_of, learned, mixture, rows_of
from tests.golden.rewritten import sealed

NAMES = Names(3, "Zq1", "ab12", "")


def state_of(labels: int) -> tuple[PartitionState, ModelConfig]:
    config = config_of(3, labels)
    return learned(rows_of(mixture(3_000, labels=labels)), config).state(), config


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
        for batch in batches(more, partition, len(more)):
            partition.add(batch)
        ends.append(encode_state(partition.state(), NAMES))
    assert ends[0] == ends[1]


def test_every_cut_and_every_changed_byte_is_found() -> None:
    """Bytes that were lost or changed are refused with what to do."""
    state, _ = state_of(2)
    content = encode_state(replace(state, screen=None, buckets=()), NAMES)
    for length in [*range(60), *range(60, len(content), 97)]:
        with pytest.raises(CorruptCheckpoint, match="bytes"):
            decode_state(content[:length])
    for at in range(0, len(content), 101):
        changed = bytearray(content)
        changed[at] ^= 0x41
        with pytest.raises(CorruptCheckpoint, match=r"does not begin with|checksum does not match"):
            decode_state(bytes(changed))


PLAIN = [["#", "<f8", [2]], ["#", "<f8", [2]], ["#", "<f8", [2]]]
"""Arrays of moments, in a state without bytes."""


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (["#", "<f8", [1 << 60]], "ends at byte .* has only 48 bytes of arrays"),
        (["#", "<f8", [1 << 33, 1 << 33]], "ends at byte"),
        (["#", "<f8", [-1]], "an array is described as"),
        (["#", "|O", [1]], "an array is described as"),
        (["#", "<f8", [True]], "an array is described as"),
        (["#", "<f8", []], "an array is described as"),
        (["#", "<f8", [0, 1 << 62]], "damaged"),
        (["#", "<f8"], "damaged"),
        (["=", 0, 1], "1 rows of array 0 are named"),
        (["t", PLAIN[0], ["=", 0, 3]], "3 rows of array 0"),
        (["t", PLAIN[0], ["=", 0, -1]], "-1 rows of array 0"),
        (
            ["@", "Popen", []],
            "of the kind 'Popen', which this build does not know. Use streamsvm 9.1, .* or a newer",
        ),
        (["@", "Moments", [1]], "'Moments' with 1 fields, which this build does not know"),
        (["@", "Moments", [1, *PLAIN, 5]], "'Moments' with 5 fields"),
        (["@", "Moments", ["1", *PLAIN]], "count of a Moments is described as str"),
        (["@", "Moments", [1, PLAIN[0], PLAIN[0], ["#", "<f4", [2]]]], "square of a Moments is described as float32"),
        (["@", "Position", [1, 2, 3]], "'Position' with 3 fields"),
        (["@", "Points", [["#", "<f4", [2]], ["#", "|i1", [2]], PLAIN[0]]], "features of points"),
        (["@", "Points", [["#", "<f4", [1, 1]], ["#", "|i1", [1]], ["#", "<f8", [1]], ["#", "<i8", [3]]]], "places of"),
        (["@", "Points", [["#", "<f4", [2, 1]], ["#", "|i1", [3]], PLAIN[0]]], "y of points is described as"),
        (["x", 1], "damaged"),
        ([], "damaged"),
    ],
)
def test_what_a_right_hash_covers_is_still_not_believed(tree: list[object], told: str) -> None:
    """Sizes, references, kinds, fields and their types are checked before anything is allocated or made."""
    with pytest.raises(CorruptCheckpoint, match=told):
        decode_state(sealed([msgspec.to_builtins(NAMES), "9.1", tree], bytes(48)))


def test_another_format_other_kinds_and_bytes_behind_the_end_are_refused() -> None:
    """A format of another build names both; an array that nobody asked for is no part of a state."""
    head = [msgspec.to_builtins(NAMES), "", 1]
    with pytest.raises(CorruptCheckpoint, match=f"its format is 9, and this build knows {FORMAT} only"):
        decode_state(sealed(head, version=9))
    with pytest.raises(CorruptCheckpoint, match="the arrays end at byte 0, but the state has 8"):
        decode_state(sealed(head, b"12345678"))
    with pytest.raises(CorruptCheckpoint, match="holds a int, but a PartitionState belongs there"):
        decode_state(sealed(head), PartitionState)
    for plain in ([{}, "", 1], [*head, 2], head[:2], 7):
        with pytest.raises(CorruptCheckpoint, match="head is damaged"):
            decode_state(sealed(plain))
    with pytest.raises(CorruptCheckpoint, match="head is damaged: maximum recursion depth"):
        decode_state(sealed(msgspec.Raw(b"\x91" * 100_000 + b"\x01")))


def test_what_two_states_share_is_stored_once_and_a_leaf_that_grew_once() -> None:
    """As where a cut waits of what the learner was: only screen and samples changed. Of defaults nothing is stored."""
    config = config_of(3)
    partition = learned(rows_of(mixture(3_000)).slice(0, 2_890), config)
    then = partition.state()
    partition.add(rows_of(mixture(3_000)).slice(2_890, 2_900))
    now, changes = partition.state(), len(encode_state((then.screen, then.audit), NAMES))
    assert then.sealed == now.sealed
    assert then.buckets
    content = encode_state((now, then), NAMES)
    assert len(content) < len(encode_state(now, NAMES)) + changes + 2_000
    assert encode_state(decode_state(content)[1], NAMES) == content
    with_defaults, without = (encode_state(replace(then, beside_offset=at), NAMES) for at in (7, -1))
    assert len(with_defaults) > len(without)


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
        with pytest.raises(CorruptCheckpoint, match=what):
            check_partition(each, config)
    with pytest.raises(CorruptCheckpoint, match="the moments of a bucket"):
        check_partition(state, config_of(3, 4))
