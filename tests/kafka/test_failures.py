"""Every error of the client has one meaning, and the table of them says what is true."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError

from consumers.host import exit_code
from streamsvm.errors import ConfigurationError, FatalError, Fenced, StateError, StreamsvmError, TransientError
from streamsvm.kafka import Connection, failures
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
