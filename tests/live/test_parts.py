"""The parts of a live run: the late end of a transaction, acknowledgements, sums of runs, brokers that come back."""

from __future__ import annotations

import json
import struct
import threading
from subprocess import TimeoutExpired

import pytest

from tests.brokers.jvm import CannotRun, JvmBroker
from tests.defects import LIVE
from tests.live.nemesis import NEMESES
from tests.live.proxy import END_TXN, PRODUCE, Late
from tests.live.readers import gist
from tests.live.workload import spans


def frame(key: int, writer: bytes = b"writer", correlation: int = 1) -> bytes:
    """Return the beginning of a request, and whose it is."""
    return struct.pack(">hhi", key, 1, correlation) + writer


def test_an_end_is_kept_back_until_the_next_transaction_is_half_written() -> None:
    """The first end is kept, its repetition passes, and the first write after that lets the kept one go."""
    late = Late(b"writer")
    assert late.sees(frame(PRODUCE)) == (False, False)
    assert late.sees(frame(END_TXN, b"other")) == (False, False)
    assert late.sees(frame(END_TXN)) == (True, False)
    assert late.caught.is_set()
    assert late.sees(frame(PRODUCE)) == (False, False), "what the first transaction still writes is not the next one"
    assert late.sees(frame(END_TXN, correlation=2)) == (False, False)
    assert late.sees(frame(PRODUCE)) == (False, True)
    assert late.sees(frame(PRODUCE)) == (False, False)


def test_a_doubled_end_passes_at_once_and_comes_again() -> None:
    """Where nothing is dropped, a copy comes within the next transaction."""
    late = Late(b"writer", skip=1, produces=2, drops=False)
    assert [late.sees(frame(END_TXN)) for _ in range(2)] == [(False, False), (False, False)]
    assert [late.sees(frame(PRODUCE)) for _ in range(3)] == [(False, False), (False, True), (False, False)]


def test_acknowledgements_are_kept_as_runs() -> None:
    """Offsets that follow each other are one line of the history."""
    assert spans([3, 1, 2, 7, 8, 5]) == [(1, 3), (5, 5), (7, 8)]
    assert spans([]) == []


def test_of_a_version_its_lineage_is_kept() -> None:
    """A history holds of a version what its chain is judged by, of a score what names its version, else all."""
    labels = {"part": "info_labels", "topic_id": "l"}
    lineage: dict[str, object] = {"parent": None, "cut": [], "topic": "t", "topic_id": "i"}
    kept = {"name": "m", "version": 1, "stream": {"points": 3}}
    version = {**kept, "x": [1], "lineage": {**lineage, "seed": 0}, "parts": [{"part": "info_other"}, labels]}
    assert gist(json.dumps(version).encode()) == {**kept, "lineage": {**lineage, "labels": labels}}
    assert gist(b'{"id":1,"score":2.0,"label":1,"model":"m","version":3,"points":9}') == {
        "id": 1,
        "model": "m",
        "version": 3,
    }
    assert gist(b"\xff") is None


def test_every_defect_has_a_nemesis_that_exists() -> None:
    """What is to bring a defect to light can be brought about."""
    assert {name for defect in LIVE.values() for name in defect.nemeses} <= set(NEMESES)


def test_a_broker_that_a_fault_started_again_outlives_the_fault() -> None:
    """A fault is a thread of its own, and what the kernel ends with its parent it ends with that thread."""
    try:
        broker = JvmBroker()
        broker.start()
    except CannotRun as missing:
        pytest.skip(f"no broker: {missing}")
    try:
        fault = threading.Thread(target=broker.restart)
        fault.start()
        fault.join()
        assert broker._process is not None
        with pytest.raises(TimeoutExpired):
            broker._process.wait(0.5)
    finally:
        broker.stop()
