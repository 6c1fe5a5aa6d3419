"""A join in a checkpoint."""

from __future__ import annotations

from streamsvm.branches.late_labels.joining import joining_of
from streamsvm.checkpoint import format as codec
from tests.branches.late_labels.golden import with_join
from tests.checkpoint.test_checkpoint import snapshot


def test_a_join_comes_back_as_it_was() -> None:
    """Open rows, early labels, what waits to be learned and both logs' positions survive; the bytes are a function."""
    saved = with_join(snapshot())
    content = codec.encode(saved)
    found = codec.decode(content)
    assert codec.encode(found) == content
    read, written = joining_of(found), joining_of(saved)
    assert read is not None
    assert written is not None
    assert read.base == written.base
    (own,), (its,) = read.partitions.values(), written.partitions.values()
    assert (own.features, own.labels, own.scalars, own.counts) == (its.features, its.labels, its.scalars, its.counts)
    assert own.row_key.tolist() == its.row_key.tolist()
    assert own.row_points.X.tolist() == its.row_points.X.tolist()
    assert own.early_offset.tolist() == its.early_offset.tolist()
    assert read.waiting[0].beside_offset is not None
    assert found.learner.partitions[0].beside_offset == 12
