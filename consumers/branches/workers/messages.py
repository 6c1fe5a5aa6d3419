"""The messages of a trainer and its workers, over a pair of connected sockets: MessagePack, one frame a message.

A frame is its length, eight bytes little-endian, and the message. Both ends are processes of one build.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np

from streamsvm.coreset.outliers import Tally
from streamsvm.coreset.reducers.base import Observed
from streamsvm.errors import (
    BrokerUnavailable,
    ConfigurationError,
    CorruptCheckpoint,
    FatalError,
    LogGap,
    StateError,
    StreamsvmError,
    TopicMissing,
    TransientError,
)
from streamsvm.kafka import OffsetOutOfRange
from streamsvm.points import Points, Rows, Times

_LENGTH: Final = struct.Struct("<Q")
LARGEST_FRAME: Final = 1 << 36
"""More than any state takes: a length beyond it is no length."""
ERRORS: Final[Mapping[str, type[StreamsvmError]]] = {
    kind.__name__: kind
    for kind in (
        StreamsvmError,
        TransientError,
        BrokerUnavailable,
        FatalError,
        ConfigurationError,
        TopicMissing,
        StateError,
        LogGap,
        CorruptCheckpoint,
    )
} | {OffsetOutOfRange.__name__: LogGap}
"""What the trainer raises for an error that ended a worker, by the name that the worker tells."""


class Prepare(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """To a worker, first: who it is. It answers `Ready` once everything is compiled.

    Attributes
    ----------
    number, workers : int
        It owns the partitions p with p mod workers = number.
    settings : dict
        The settings as `Settings` takes them.
    kafka : dict
        How the broker is reached.
    """

    number: int
    workers: int
    settings: dict[str, Any]
    kafka: dict[str, Any]
    client_id: str
    embedded: bool


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a partition: its record, and those of its buckets that were not sent before."""

    partition: int
    buckets: list[bytes]
    value: bytes


class Assign(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """To a worker: learn on.

    Attributes
    ----------
    settings : dict
        As they go on from the checkpoint.
    configuration_sha256 : str
        Of the models' configuration; a worker that has another one ends.
    bases : dict of partition to (offset, row)
        Of partitions that it did not have before.
    states : list of Handed
        Of those that have learned something already.
    read_to : dict of partition to int
        As of `streamsvm.delivery.reading.Reading`.
    published_cut : dict of partition to (offset, row)
        Up to where the newest version's rows are learned again; no row past it until the next `Assign`.
    next_number : int
    points_elsewhere : int
        Valid points of this incarnation in partitions of others.
    ends : bool
        Learn nothing more.
    left_out : dict of partition to list of (offset, row)
        Rows that count as rejected ones, without dead letters; the same in every message.
    """

    settings: dict[str, Any]
    configuration_sha256: str
    bases: dict[int, tuple[int, int]]
    states: list[Handed]
    read_to: dict[int, int]
    published_cut: dict[int, tuple[int, int]]
    next_number: int
    points_elsewhere: int
    ends: bool
    left_out: dict[int, list[tuple[int, int]]]


NOTHING_VALID: Final = "no row was valid yet"
"""What a worker says in `Late` whose letters wait for the first valid row."""


class Report(msgspec.Struct, frozen=True, tag=True):
    """To a worker: hand over what was learned; with `settle`, once its dead letters are stored.

    Where no row of any worker was valid, one that rejected rows does not hand over, and answers `NOTHING_VALID`.
    """

    ticket: int
    settle: bool
    timeout_s: float
    valid: bool = False


class Show(msgspec.Struct, frozen=True, tag=True):
    """To a worker: commit group offsets, for observers."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From a worker: everything is compiled."""


class Newest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest rows of a partition that were just learned, for the trainer's figures and its gate."""

    partition: int
    offset: bytes
    row: bytes
    last: bytes
    time_ms: bytes
    accepted: bytes
    leader_epoch: bytes
    X: bytes
    y: bytes
    weight: bytes
    dtype: str


class Counted(msgspec.Struct, frozen=True):
    """A change of a metric: an increase of a counter, a gauge's value, or an observation."""

    kind: str
    name: str
    labels: dict[str, str]
    value: float


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """The record that was rejected last."""

    partition: int
    offset: int
    row: int
    reason: str
    what: str


class Progress(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """From a worker, some times a second: how far it is; nothing of it decides what a model is.

    Attributes
    ----------
    positions : dict of partition to (offset, row)
    ahead : dict of partition to int
        The offset before which nothing is still to be learned.
    fetched : dict of partition to int
        The next offset to read.
    watermarks : dict of partition to int or None
        The offset after the last record.
    leaves : int
        Completed since the worker handed over last.
    rows : int
        Learned since the base.
    points_held : int
    idle : bool
        Whether the newest poll brought nothing.
    waiting_for : dict of str to str
        Conditions of readiness that do not hold, and why.
    valid : bool
        Whether a row of its partitions was ever valid.
    nothing_valid : bool
        Whether rows were rejected, and none was ever valid; False where no limit stops the trainer.
    """

    positions: dict[int, tuple[int, int]]
    ahead: dict[int, int]
    fetched: dict[int, int]
    watermarks: dict[int, int | None]
    leaves: int
    rows: int
    points_held: int
    idle: bool
    waiting_for: dict[str, str]
    counted: list[Counted]
    newest: list[Newest]
    rejected: Rejected | None
    valid: bool = False
    nothing_valid: bool = False


class States(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """From a worker: what it has learned, in answer to `Report`."""

    ticket: int
    partitions: list[Handed]
    leaves: int
    read_to: dict[int, int]
    observed: Observed
    outliers: Tally
    clipped: int


class Late(msgspec.Struct, frozen=True, tag=True):
    """From a worker: its dead letters could not be stored in time, and why."""

    ticket: int
    what: str
    remedy: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """From a worker, last: the error that ends it. `kind` is one of `ERRORS`; empty for a defect."""

    kind: str
    what: str
    remedy: str


ToWorker = Prepare | Assign | Report | Show
FromWorker = Ready | Progress | States | Late | Failed
_TO_WORKER: Final[msgspec.msgpack.Decoder[ToWorker]] = msgspec.msgpack.Decoder(ToWorker)
_FROM_WORKER: Final[msgspec.msgpack.Decoder[FromWorker]] = msgspec.msgpack.Decoder(FromWorker)


class Channel:
    """One end of a pair of sockets. Sending blocks until the other end takes it; receiving may time out.

    Parameters
    ----------
    connected : socket.socket
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, message: ToWorker | FromWorker) -> None:
        """Send a message.

        Raises
        ------
        OSError
            If the other end is gone.
        """
        content = msgspec.msgpack.encode(message)
        self._socket.sendall(_LENGTH.pack(len(content)))
        self._socket.sendall(content)

    def receive(self) -> bytes:
        """Return the next frame; blocks until it is there.

        Raises
        ------
        EOFError
            If the other end is gone.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length > LARGEST_FRAME:
            raise EOFError(f"a frame of {length} bytes")
        return self._exactly(length)

    def close(self) -> None:
        """Let go of the socket; a `receive` that blocks raises `EOFError`."""
        with suppress(OSError):  # the other end may have been first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        content = bytearray(size)
        view = memoryview(content)
        at = 0
        while at < size:
            try:
                came = self._socket.recv_into(view[at:])
            except OSError:
                came = 0
            if not came:
                raise EOFError("the other end is gone")
            at += came
        return bytes(content)


def to_worker(frame: bytes) -> ToWorker:
    """Decode what a worker receives."""
    return _TO_WORKER.decode(frame)


def from_worker(frame: bytes) -> FromWorker:
    """Decode what a trainer receives."""
    return _FROM_WORKER.decode(frame)


def newest_of(rows: Rows) -> Newest:
    """Encode rows of one partition, at least one."""
    return Newest(
        partition=rows.partition,
        offset=rows.offset.tobytes(),
        row=rows.row.tobytes(),
        last=rows.last.tobytes(),
        time_ms=rows.time_ms.tobytes(),
        accepted=rows.accepted.tobytes(),
        leader_epoch=rows.leader_epoch.tobytes(),
        X=rows.points.X.tobytes(),
        y=np.asarray(rows.points.y, np.int8).tobytes(),
        weight=np.asarray(rows.points.weight, np.float64).tobytes(),
        dtype=rows.points.X.dtype.str,
    )


def rows_of(newest: Newest) -> Rows:
    """Decode rows. Their arrays may be written to, as those of a decoder: numba compiles anew for others."""
    offset = np.frombuffer(newest.offset, np.int64).copy()
    X = np.frombuffer(newest.X, np.dtype(newest.dtype)).reshape(len(offset), -1).copy()
    y, weight = np.frombuffer(newest.y, np.int8).copy(), np.frombuffer(newest.weight, np.float64).copy()
    return Rows(
        partition=newest.partition,
        offset=offset,
        row=np.frombuffer(newest.row, np.int64).copy(),
        last=np.frombuffer(newest.last, np.bool_).copy(),
        times=Times.of(np.frombuffer(newest.time_ms, np.int64).copy()),
        accepted=np.frombuffer(newest.accepted, np.bool_).copy(),
        points=Points(X, y, weight),
        leader_epoch=np.frombuffer(newest.leader_epoch, np.int64).copy(),
    )
