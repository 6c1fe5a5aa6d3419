"""Every error of the client has one meaning, the table of them says what is true; and how long is waited after one."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError
from hypothesis import given, strategies as st

from consumers.host import exit_code
from streamsvm.errors import ConfigurationError, FatalError, Fenced, StateError, StreamsvmError, TransientError
from streamsvm.kafka import Connection, failures
from streamsvm.kafka.backoff import Backoff
from streamsvm.kafka.failures import _NAMES, FAULTS, Fault, fault_of, translate

CONNECTION = Connection(options={"bootstrap.servers": "broker:9092"})
CODES = {
    name: code
    for name in dir(KafkaError)
    if name.lstrip("_").isupper() and isinstance(code := getattr(KafkaError, name), int)
}
ROW = re.compile(r"`([A-Z]+)` +(.+?)  +(.+?)  +(\d+)$", re.MULTILINE)


def test_every_code_of_the_client_has_one_meaning_and_is_told_by_it() -> None:
    """No code is left to a default, none is misspelt; each error has its fault's class and remedy, in one line.

    What the client calls fatal is never retried; a code of the future may pass, and its text is shown.
    """
    assert len(CODES) > 180
    assert {"_ALL_BROKERS_DOWN", "_FENCED", "UNKNOWN_TOPIC_OR_PART"} <= CODES.keys()
    names = [name for listed in _NAMES.values() for name in listed.split()]
    assert sorted(names) == sorted(CODES)
    for name, code in CODES.items():
        fault, error = FAULTS[code], translate(KafkaError(code), CONNECTION, "read topic t")
        assert type(error) is fault.error, name
        assert error.remedy == fault.remedy.format(servers="broker:9092")
        assert "\n" not in str(error)
        assert "topic t" in str(error) or "broker:9092" in str(error)
        fatal = translate(KafkaError(code, "said", True), CONNECTION, "publish")
        assert not isinstance(fatal, TransientError)
        assert type(fatal) is fault.error or issubclass(fault.error, TransientError)
    later = translate(KafkaError(4242, "something new"), CONNECTION, "read topic t")
    assert type(later) is TransientError
    assert "something new" in str(later)


def test_the_documented_table_is_the_code() -> None:
    """The module's table lists every fault in order, with the exit status that its error really has."""
    rows = ROW.findall(failures.__doc__ or "")
    assert [name for name, *_ in rows] == [fault.name for fault in Fault]
    for name, _, reaction, status in rows:
        fault = Fault[name]
        assert int(status) == exit_code(fault.error("what"))
        if reaction.startswith("stops"):
            assert not issubclass(fault.error, TransientError)


@pytest.mark.parametrize(
    ("code", "error", "status"),
    [
        (KafkaError._TRANSPORT, TransientError, 75),
        (KafkaError._AUTHENTICATION, ConfigurationError, 78),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConfigurationError, 78),
        (KafkaError._FENCED, Fenced, 70),
        (KafkaError.PRODUCER_FENCED, Fenced, 70),
        (KafkaError.MSG_SIZE_TOO_LARGE, failures.PublishRefused, 70),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, TransientError, 75),
        (KafkaError.NOT_LEADER_FOR_PARTITION, TransientError, 75),
        (KafkaError._BAD_COMPRESSION, FatalError, 70),
        (KafkaError.OFFSET_OUT_OF_RANGE, StateError, 78),
        (KafkaError.INVALID_GROUP_ID, ConfigurationError, 78),
    ],
)
def test_known_cases(code: int, error: type[StreamsvmError], status: int) -> None:
    """The cases that the design argues about, independent of the table."""
    found = translate(KafkaError(code), CONNECTION, "work")
    assert isinstance(found, error)
    assert exit_code(found) == status
    assert fault_of(KafkaError(code)) is FAULTS[code]


def test_waits_double_up_to_the_ceiling_begin_anew_after_a_success_and_are_spread_by_jitter() -> None:
    """The caller's number in [0, 1) moves a wait by the share that was asked for."""
    backoff = Backoff(first_s=0.1, ceiling_s=1.0, jitter=0)
    assert [backoff.next_s(0.5) for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    backoff.reset()
    assert backoff.next_s(0.5) == pytest.approx(0.1)
    waits = [Backoff(first_s=1, jitter=0.2).next_s(unit) for unit in (0.0, 0.5, 1.0)]
    assert waits == pytest.approx([0.8, 1.0, 1.2])


@given(
    first_s=st.floats(1e-3, 10),
    factor=st.floats(1, 1e4),
    jitter=st.floats(0, 0.99),
    units=st.lists(st.floats(0, 1), min_size=1, max_size=2000),
)
def test_no_wait_is_longer_than_the_ceiling_or_none_at_all(
    first_s: float, factor: float, jitter: float, units: list[float]
) -> None:
    """However long it goes on failing, each wait is positive and at most the ceiling."""
    backoff = Backoff(first_s, first_s * factor, jitter)
    for unit in units:
        assert 0 < backoff.next_s(unit) <= first_s * factor


@pytest.mark.parametrize(
    ("first_s", "ceiling_s", "jitter"), [(0, 1, 0), (2, 1, 0), (1, 2, 1), (1, 2, -0.1), (1, float("inf"), 0)]
)
def test_a_backoff_that_makes_no_sense_is_refused(first_s: float, ceiling_s: float, jitter: float) -> None:
    """Waits that would vanish or be negative are an error at once."""
    with pytest.raises(ConfigurationError, match="backoff"):
        Backoff(first_s, ceiling_s, jitter)


@pytest.mark.parametrize(
    ("code", "doing", "missing"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "read t as group g", "read on topic t"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "read t as group g", "read on group g"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "commit positions of t as g", "read on group g"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "ask who is in group g", "describe on group g (read includes it)"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "publish to topic t or u", "write on topic t or u"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "deliver a message to topic t", "write on topic t"),
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            "look up topic t.dlq",
            "describe on topic t.dlq (read or write includes it)",
        ),
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            "ask for the end of t[0]",
            "describe on topic t (read or write includes it)",
        ),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "create topic t", "create on topic t"),
        (
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "take over transactional id i/m",
            "write on transactional id i/m",
        ),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "create topic t", "create on topic t, or create on the cluster"),
        (
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            "publish to topic t",
            "write on topic t, or idempotent_write on the cluster",
        ),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "work", ""),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "work", ""),
        (KafkaError._TRANSPORT, "read t", ""),
    ],
)
def test_a_refusal_names_the_permission_that_is_missing(code: int, doing: str, missing: str) -> None:
    """The operation and the resource; nothing where either is not known."""
    said = translate(KafkaError(code), CONNECTION, doing).what
    assert said.partition("; missing is ")[2] == missing
