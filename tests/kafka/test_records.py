"""Columns of consumed records: what the messages themselves say, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from streamsvm.kafka.records import Batch

Place = tuple[int, int, int | None, tuple[int, int]]
CREATED = (TIMESTAMP_CREATE_TIME, 1_700_000_000_000)
NO_TIME = (TIMESTAMP_NOT_AVAILABLE, 0)


def run(partition: int, first: int, length: int, epoch: int | None = 3) -> list[Place]:
    """Return places of one partition that follow each other."""
    return [(partition, first + index, epoch, (CREATED[0], CREATED[1] - index)) for index in range(length)]


@pytest.mark.parametrize(
    "places",
    [
        [],
        run(4, 7, 1),
        run(4, 7, 5),
        [*run(4, 7, 5), *run(0, 0, 3), *run(4, 12, 2)],
        [*run(4, 7, 5), *run(4, 13, 2), *run(1, 5, 2)],
        [*run(4, 7, 2, epoch=3), *run(4, 9, 2, epoch=4), *run(2, 1, 2, epoch=9)],
        [*run(4, 7, 2, epoch=None), *run(0, 1, 1, epoch=0)],
        [(1, 0, 0, CREATED), (1, 1, 0, NO_TIME), (1, 2, 0, (TIMESTAMP_CREATE_TIME, 0))],
    ],
    ids=["none", "one", "one-run", "runs", "a-gap", "epochs-rise", "no-epoch", "no-time"],
)
def test_columns_are_what_messages_say(places: list[Place]) -> None:
    """Also where a run is known by its ends."""
    messages = []
    for partition, offset, epoch, time in places:
        known: Any = {} if epoch is None else {"leader_epoch": epoch}
        value = b"x" * offset
        messages.append(Message(topic="t", partition=partition, offset=offset, timestamp=time, value=value, **known))
    batch = Batch(messages)
    assert batch.partitions.tolist() == [partition for partition, *_ in places]
    assert batch.offsets.tolist() == [offset for _, offset, *_ in places]
    assert batch.leader_epochs.tolist() == [-1 if epoch is None else epoch for *_, epoch, _ in places]
    times = [-1 if kind == TIMESTAMP_NOT_AVAILABLE else ms for *_, (kind, ms) in places]
    backwards = np.arange(len(places))[::-1]
    assert batch.times_ms(backwards).tolist() == times[::-1]
    assert batch.sizes.tolist() == [offset for _, offset, *_ in places]
    columns = batch.partitions, batch.offsets, batch.leader_epochs, batch.times_ms(backwards)
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
    partitions = {partition for partition, *_ in places}
    assert batch.counts() == {one: sum(p == one for p, *_ in places) for one in partitions}
    assert batch.ends() == {one: 1 + max(offset for p, offset, *_ in places if p == one) for one in partitions}
