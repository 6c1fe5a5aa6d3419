"""Connections: what may be set, what is hidden, and what an unreachable broker looks like."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

import pytest

from streamsvm.errors import BrokerUnavailable, ConfigurationError, TransientError
from streamsvm.kafka import (
    RESERVED,
    Connection,
    EmbeddedBroker,
    Input,
    Message,
    Outbox,
    Publisher,
    Tail,
    TopicSpec,
    client,
    create_topics,
    describe_topic,
    fetch_one,
    log_range,
    read_to_end,
    start_positions,
)
from streamsvm.kafka.client import ClientLog
from tests.contract.steps import PATIENCE_S, eventually

NOBODY = "127.0.0.1:1"
SECRETS = {
    "sasl.password": "hunter2",
    "ssl.key.password": "hunter2",
    "ssl.key.pem": "hunter2",
    "ssl.keystore.password": "hunter2",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.config": "secret=hunter2",
    "sasl.oauthbearer.assertion.private.key.pem": "hunter2",
    "sasl.oauthbearer.assertion.private.key.passphrase": "hunter2",
}

QUESTIONS: dict[str, Callable[[Connection], object]] = {
    "describe_topic": lambda connection: describe_topic(connection, "t"),
    "create_topics": lambda connection: create_topics(connection, [TopicSpec("t")]),
    "log_range": lambda connection: log_range(connection, "t", 0),
    "start_positions": lambda connection: start_positions(connection, "t", [0], "latest"),
    "read_to_end": lambda connection: read_to_end(connection, "t", 0, timeout_s=1.0),
    "fetch_one": lambda connection: fetch_one(connection, "t", 0, 0, timeout_s=1.0),
    "tail": lambda connection: Tail(connection, "t", 0, 0),
    "publisher": lambda connection: Publisher(connection, "id").start(),
    "input": lambda connection: Input(connection, "t", group=None).assign({0: 0}),
}


@pytest.fixture
def unreachable() -> Connection:
    return Connection({"bootstrap.servers": NOBODY}, request_timeout_s=0.3)


@pytest.mark.parametrize("option", sorted(RESERVED))
def test_an_option_that_guarantees_rest_on_may_not_be_set(option: str) -> None:
    """A reserved option is refused by name."""
    with pytest.raises(ConfigurationError, match=option):
        Connection({"bootstrap.servers": NOBODY, option: "true"})


def test_a_connection_needs_a_broker() -> None:
    """Without bootstrap.servers there is no connection."""
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        Connection({"client.rack": "a"})


def test_secrets_do_not_show() -> None:
    """The representation of a connection masks every secret, and shows the rest."""
    connection = Connection({"bootstrap.servers": NOBODY, "sasl.username": "ann", **SECRETS})
    assert "hunter2" not in repr(connection)
    assert "hunter2" not in str(connection)
    assert "ann" in repr(connection)
    assert connection.masked_options().keys() == connection.options.keys()


def test_a_callback_is_no_option() -> None:
    """An option whose value the client would call is refused, and its value not shown if secret."""
    with pytest.raises(ConfigurationError, match="error_cb"):
        Connection({"bootstrap.servers": NOBODY, "error_cb": "x"})
    with pytest.raises(ConfigurationError) as refused:
        Connection({"bootstrap.servers": NOBODY, "sasl.password": ["hunter2"]})  # type: ignore[dict-item]
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("make", [lambda c: Input(c, "t", group=None), Outbox, lambda c: Publisher(c, "id")])
def test_an_unknown_option_is_named(make: Callable[[Connection], object]) -> None:
    """An option the client does not know makes a configuration error that names it."""
    with pytest.raises(ConfigurationError, match=r"no\.such\.option"):
        make(Connection({"bootstrap.servers": NOBODY, "no.such.option": 1}))


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_an_unreachable_broker_is_said_in_one_line(
    unreachable: Connection, ask: Callable[[Connection], object]
) -> None:
    """Every question to a broker that is not there ends with one clear line."""
    with pytest.raises(BrokerUnavailable) as failure:
        ask(unreachable)
    assert str(failure.value).startswith(f"no broker answered at {NOBODY} within 0.3 s (")
    assert "Check bootstrap.servers" in str(failure.value)
    assert "\n" not in str(failure.value)


def test_an_outbox_says_what_is_not_acknowledged(unreachable: Connection) -> None:
    """Flushing towards a broker that is not there says how many messages wait, and keeps them."""
    with closing(Outbox(unreachable)) as outbox:
        outbox.send(Message("t", b"x"))
        outbox.send(Message("t", b"y"))
        with pytest.raises(TransientError, match="2 messages are not acknowledged"):
            outbox.flush(0.2)
        with pytest.raises(TransientError, match="2 messages are not acknowledged"):
            outbox.flush(0.0)


def test_an_outbox_fails_when_its_patience_ends() -> None:
    """A message that could not be delivered in its time fails the outbox for good."""
    options = {"bootstrap.servers": NOBODY, "delivery.timeout.ms": 200}
    with closing(Outbox(Connection(options, request_timeout_s=0.3))) as outbox:
        outbox.send(Message("t", b"x"))
        for _ in range(2):
            with pytest.raises(BrokerUnavailable, match=NOBODY):
                outbox.flush(PATIENCE_S)


def test_the_clients_complaints_are_said_once(
    unreachable: Connection,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unreachable broker leaves one line in our log however many clients meet it, none on standard error."""
    monkeypatch.setattr(client, "CLIENT_LOG", ClientLog())
    with caplog.at_level(logging.DEBUG, "streamsvm.kafka.client"):
        for _ in range(2):
            with closing(Outbox(unreachable)) as outbox:
                outbox.send(Message("t", b"x"))
                with pytest.raises(TransientError):
                    outbox.flush(0.5)
    assert len([line for line in said(caplog) if "Connection refused" in line]) == 1
    assert capfd.readouterr().err == ""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_line_that_repeats_is_said_at_once_and_then_as_a_count(caplog: pytest.LogCaptureFixture) -> None:
    """Sixteen lines a second that differ in numbers only: the first, then one count a minute, with its level."""
    clock = Clock()
    log = ClientLog(clock)
    for number in range(980):
        log.log(
            logging.ERROR, "%s [%s] %s", "FAIL", "rdkafka#producer-1", f"refused (after {number}ms in state CONNECT)"
        )
        clock.now += 0.0625
    assert said(caplog) == [
        "FAIL [rdkafka#producer-1] refused (after 0ms in state CONNECT)",
        "repeated 959 times in 60 s: FAIL [rdkafka#producer-1] refused (after 0ms in state CONNECT)",
    ]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_a_count_does_not_wait_for_the_next_line(caplog: pytest.LogCaptureFixture) -> None:
    """A client that fell silent has its count said all the same, and then the line is news again."""
    clock = Clock()
    log = ClientLog(clock)
    for _ in range(3):
        log.log(logging.WARNING, "%s [%s] %s", "FAIL", "name", "refused")
    clock.now += 60
    log.summarise()
    clock.now += 60
    log.summarise()
    log.log(logging.WARNING, "%s [%s] %s", "FAIL", "name", "refused")
    first = "FAIL [name] refused"
    assert said(caplog) == [first, f"repeated 2 times in 60 s: {first}", first]


def test_lines_of_two_facilities_or_texts_are_two(caplog: pytest.LogCaptureFixture) -> None:
    """What the client itself left out does not make a new line; another facility or another text does."""
    log = ClientLog(Clock())
    for name, facility, text in [
        ("one", "FAIL", "refused (after 3ms)"),
        ("two", "FAIL", "refused (after 90ms, 30 identical error(s) suppressed)"),
        ("one", "ERROR", "refused (after 3ms)"),
        ("one", "FAIL", "no route"),
    ]:
        log.log(logging.WARNING, "%s [%s] %s", facility, name, text)
    assert [line.split()[0] for line in said(caplog)] == ["FAIL", "ERROR", "FAIL"]


def test_connected_is_false_as_soon_as_the_broker_is_gone() -> None:
    """A reader whose broker disappears goes on polling, without error and not connected."""
    with EmbeddedBroker() as broker:
        create_topics(broker.connection, [TopicSpec("t")])
        reader = Input(broker.connection, "t", group=None)
        with closing(reader):
            reader.assign({0: 0})
            eventually(lambda: reader.poll(1, 0.1) == [] and reader.connected(), "connected")
            broker.close()
            eventually(lambda: reader.poll(1, 0.1) == [] and not reader.connected(), "not connected")
