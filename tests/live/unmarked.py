"""Transactions that a broker decides and does not mark in every partition, made at will.

A client adds a partition to its transaction by a request of its own (AddPartitionsToTxn; AddOffsetsToTxn for the
positions of a group). Where the network answers that request itself, the coordinator does not know of the partition,
and writes no marker there: what the client stored in it hangs, with the client's own producer id, exactly as after a
broker lost the marker. A broker that would ask the coordinator before it takes such a record must be told not to:
`UNVERIFIED`.

Only the versions of the two requests that librdkafka sends are understood: 0, without tagged fields.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Collection, Iterator
from typing import Final

UNVERIFIED: Final = {"transaction.partition.verification.enable": "false"}
"""Server settings under which a broker stores a record of a partition that the coordinator does not know of."""

ADD_PARTITIONS: Final = 24
ADD_OFFSETS: Final = 25
END_TXN: Final = 26
_DONE: Final = 0
_AGAIN: Final = 51
"""CONCURRENT_TRANSACTIONS: the client takes in the results before it, and asks again for what is left."""
_HEAD: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
_PRODUCER: Final = struct.Struct(">qh")
_ADDED: Final = struct.Struct(">ih")


class Unmarked:
    """Keeps partitions of one transaction from the coordinator; set it as `Proxy.unmarked`.

    `writer`: Part of the transactional id concerned. `topics`: Topics that get no marker; "" stands for the group's
    positions. `skip`: Transactions of the id that pass first. `times`: Transactions in which the topics get none.
    """

    def __init__(self, writer: str, topics: Collection[str], skip: int = 0, times: int = 1) -> None:
        self._writer = writer.encode()
        self._topics = set(topics)
        self._skip = skip
        self._left = times
        self._concerned = False
        self.happened = threading.Event()

    def answer(self, frame: bytes) -> bytes | None:
        """Return the answer to a request that must not reach the broker, None if it must."""
        key, version, correlation = _HEAD.unpack_from(frame)
        if key not in (ADD_PARTITIONS, ADD_OFFSETS, END_TXN) or self._writer not in frame:
            return None
        if key == END_TXN:
            self._note_end()
            return None
        if self._skip or not self._left:
            return None
        assert version == 0, f"request {key} has version {version}"
        if key == ADD_OFFSETS:
            return self._hidden(struct.pack(">iih", correlation, 0, 0)) if "" in self._topics else None
        added = list(_partitions(frame))
        hidden = [(topic, partition, _DONE) for topic, partition in added if topic in self._topics]
        others = [(topic, partition, _AGAIN) for topic, partition in added if topic not in self._topics]
        if not hidden:
            return None
        return self._hidden(struct.pack(">ii", correlation, 0) + _results([*hidden, *others]))

    def _hidden(self, answer: bytes) -> bytes:
        self._concerned = True
        return answer

    def _note_end(self) -> None:
        if self._skip:
            self._skip -= 1
        elif self._concerned:
            self._left, self._concerned = self._left - 1, False
            self.happened.set()


def _partitions(frame: bytes) -> Iterator[tuple[str, int]]:
    at = _HEAD.size
    _, at = _text(frame, at)  # the client's id
    _, at = _text(frame, at)  # the transactional id
    at += _PRODUCER.size
    (topics,) = _COUNT.unpack_from(frame, at)
    at += _COUNT.size
    for _ in range(topics):
        topic, at = _text(frame, at)
        (count,) = _COUNT.unpack_from(frame, at)
        at += _COUNT.size
        for _ in range(count):
            yield topic, _COUNT.unpack_from(frame, at)[0]
            at += _COUNT.size


def _text(frame: bytes, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(frame, at)
    start = at + _LENGTH.size
    end = start + max(length, 0)
    return frame[start:end].decode(), end


def _results(added: list[tuple[str, int, int]]) -> bytes:
    topics = dict.fromkeys(topic for topic, _, _ in added)
    answer = _COUNT.pack(len(topics))
    for topic in topics:
        results = [(partition, error) for name, partition, error in added if name == topic]
        answer += _LENGTH.pack(len(topic)) + topic.encode() + _COUNT.pack(len(results))
        answer += b"".join(_ADDED.pack(partition, error) for partition, error in results)
    return answer
