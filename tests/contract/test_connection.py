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
    create_topics,
    describe_topic,
    fetch_one,
    log_range,
    read_to_end,
    start_positions,
)
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
    unreachable: Connection, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unreachable broker leaves one line in our log, none on the standard error stream."""
    with caplog.at_level(logging.DEBUG, "streamsvm.kafka.client"), closing(Outbox(unreachable)) as outbox:
        outbox.send(Message("t", b"x"))
        with pytest.raises(TransientError):
            outbox.flush(1.0)
    refused = [record for record in caplog.records if "Connection refused" in record.getMessage()]
    assert len(refused) == 1
    assert capfd.readouterr().err == ""


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
