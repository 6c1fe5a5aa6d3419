"""Connections: what may be set, what is hidden, and what an unreachable broker looks like."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing

import pytest
from confluent_kafka import KafkaError

from streamsvm.errors import BrokerUnavailable, ConfigurationError, FatalError, Fenced, TransientError
from streamsvm.kafka import (
    RESERVED,
    Cluster,
    Connection,
    EmbeddedBroker,
    Input,
    Message,
    Outbox,
    Publisher,
    TopicSpec,
    client,
    outbox as outbox_module,
)
from streamsvm.kafka.client import ClientLog, Link
from tests.kafka.steps import PATIENCE_S, eventually

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
    "describe": lambda connection: Cluster(connection).describe("t"),
    "create": lambda connection: Cluster(connection).create([TopicSpec("t")]),
    "log_range": lambda connection: Cluster(connection).log_range("t", 0),
    "starts": lambda connection: Cluster(connection).starts("t", [0], "latest"),
    "read_to_end": lambda connection: Cluster(connection).read_to_end("t", 0, timeout_s=1.0),
    "record": lambda connection: Cluster(connection).record("t", 0, timeout_s=1.0),
    "tail": lambda connection: Cluster(connection).tail("t", 0, 0),
    "publisher": lambda connection: Cluster(connection).publisher("id").start(),
    "input": lambda connection: Cluster(connection).input("t", None).assign({0: 0}),
}


@pytest.fixture
def unreachable() -> Connection:
    return Connection(options={"bootstrap.servers": NOBODY}, request_timeout_s=0.3)


@pytest.mark.parametrize("option", sorted(RESERVED))
def test_an_option_that_guarantees_rest_on_may_not_be_set(option: str) -> None:
    """A reserved option is refused by name."""
    with pytest.raises(ConfigurationError, match=option):
        Connection(options={"bootstrap.servers": NOBODY, option: "true"})


def test_a_connection_needs_a_broker() -> None:
    """Without bootstrap.servers there is no connection."""
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        Connection(options={"client.rack": "a"})


def test_secrets_do_not_show() -> None:
    """The representation of a connection masks every secret, and shows the rest."""
    connection = Connection(options={"bootstrap.servers": NOBODY, "sasl.username": "ann", **SECRETS})
    assert "hunter2" not in repr(connection)
    assert "hunter2" not in str(connection)
    assert "ann" in repr(connection)
    assert connection.masked_options().keys() == connection.options.keys()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("enable.ssl.certificate.verification", False),
        ("enable.ssl.certificate.verification", "False"),
        ("enable.ssl.certificate.verification", 0),
        ("enable.ssl.certificate.verification", "f"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("ssl.endpoint.identification.algorithm", "NONE"),
    ],
)
def test_the_brokers_certificate_is_always_checked(option: str, value: str | int) -> None:
    """In every spelling that the client takes, switching the check off is refused."""
    options = {"bootstrap.servers": NOBODY, option: value}
    with pytest.raises(ConfigurationError, match=rf"{option}.*disables a security check"):
        Connection(options=options)


def test_checks_that_are_switched_on_are_no_risk() -> None:
    """The secure values are nothing to warn of."""
    options = {"ssl.endpoint.identification.algorithm": "https", "enable.ssl.certificate.verification": True}
    assert Connection(options={"bootstrap.servers": NOBODY, **options}).risks() == []


@pytest.mark.parametrize(
    ("servers", "protocol", "risky"),
    [
        ("broker.example:9092", "SASL_PLAINTEXT", True),
        ("127.0.0.1:9092,10.0.0.7:9092", "sasl_plaintext", True),
        ("SASL_PLAINTEXT://[2001:db8::1]:9092", "SASL_PLAINTEXT", True),
        ("localhost.example:9092", "SASL_PLAINTEXT", True),
        ("localhost:9092, 127.0.0.2:9092", "SASL_PLAINTEXT", False),
        ("[::1]:9092", "SASL_PLAINTEXT", False),
        ("broker.example:9092", "SASL_SSL", False),
        ("broker.example:9092", "SSL", False),
        ("broker.example:9092", "PLAINTEXT", True),
        ("broker.example:9092", None, True),
        ("localhost:9092", "plaintext", False),
    ],
)
def test_what_goes_in_the_clear_is_a_risk_on_any_way_but_the_loopback(
    servers: str, protocol: str | None, risky: bool
) -> None:
    """No TLS to another machine, with a login or, as by default, without one, is said once, with the host at fault."""
    options = {"bootstrap.servers": servers} | ({"security.protocol": protocol} if protocol else {})
    risks = Connection(options=options).risks()
    assert len(risks) == risky
    assert not risky or "unencrypted" in risks[0]


def test_a_callback_is_no_option() -> None:
    """An option whose value the client would call is refused, and its value not shown if secret."""
    with pytest.raises(ConfigurationError, match="error_cb"):
        Connection(options={"bootstrap.servers": NOBODY, "error_cb": "x"})
    with pytest.raises(ConfigurationError) as refused:
        Connection(options={"bootstrap.servers": NOBODY, "sasl.password": ["hunter2"]})  # type: ignore[dict-item]
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("make", [lambda c: Input(c, "t", group=None), Outbox, lambda c: Publisher(c, "id")])
def test_an_unknown_option_is_named(make: Callable[[Connection], object]) -> None:
    """An option the client does not know makes a configuration error that names it."""
    with pytest.raises(ConfigurationError, match=r"no\.such\.option"):
        make(Connection(options={"bootstrap.servers": NOBODY, "no.such.option": 1}))


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
        with pytest.raises(TransientError, match="did not acknowledge 2 messages"):
            outbox.flush(0.2)
        with pytest.raises(TransientError, match="did not acknowledge 2 messages"):
            outbox.flush(0.0)


def test_an_outbox_fails_when_its_patience_ends() -> None:
    """A message that could not be delivered in its time fails the outbox for good."""
    options = {"bootstrap.servers": NOBODY, "delivery.timeout.ms": 200}
    with closing(Outbox(Connection(options=options, request_timeout_s=0.3))) as outbox:
        outbox.send(Message("t", b"x"))
        for _ in range(2):
            with pytest.raises(BrokerUnavailable, match=NOBODY):
                outbox.flush(PATIENCE_S)


def test_an_outbox_of_endless_patience_waits_where_another_fails(unreachable: Connection) -> None:
    """What one has given up by then, the other still holds, to be flushed again."""
    with (
        closing(Outbox(unreachable, patience_s=0.2)) as hasty,
        closing(Outbox(unreachable, patience_s=None)) as patient,
    ):
        for outbox in (hasty, patient):
            outbox.send(Message("t", b"x"))
        with pytest.raises(BrokerUnavailable, match=NOBODY):
            hasty.flush(PATIENCE_S)
        with pytest.raises(TransientError, match="did not acknowledge 1 messages"):
            patient.flush(0.0)


def test_a_full_outbox_does_not_block_for_ever(unreachable: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for long enough it says how many messages wait, and what to look at."""
    monkeypatch.setattr(outbox_module, "_FULL_S", 0.2)
    with closing(Outbox(unreachable, max_queued_bytes=1024, patience_s=None)) as outbox:
        outbox.send(Message("t", b"x" * 1000))
        with pytest.raises(
            TransientError, match=f"1 messages wait for {NOBODY}.*no room for another message to topic t"
        ):
            outbox.send(Message("t", b"y" * 1000))


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
            logging.ERROR,
            "%s [%s] %s",
            "REQTMOUT",
            "rdkafka#producer-1",
            f"refused (after {number}ms in state CONNECT)",
        )
        clock.now += 0.0625
    assert said(caplog) == [
        "REQTMOUT [rdkafka#producer-1] refused (after 0ms in state CONNECT)",
        "repeated 959 times in 60 s: REQTMOUT [rdkafka#producer-1] refused (after 0ms in state CONNECT)",
    ]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_a_count_does_not_wait_for_the_next_line(caplog: pytest.LogCaptureFixture) -> None:
    """A client that fell silent has its count said all the same, and then the line is news again."""
    clock = Clock()
    log = ClientLog(clock)
    for _ in range(3):
        log.log(logging.WARNING, "%s [%s] %s", "REQTMOUT", "name", "refused")
    clock.now += 60
    log.summarise()
    clock.now += 60
    log.summarise()
    log.log(logging.WARNING, "%s [%s] %s", "REQTMOUT", "name", "refused")
    first = "REQTMOUT [name] refused"
    assert said(caplog) == [first, f"repeated 2 times in 60 s: {first}", first]


def test_lines_of_two_facilities_or_texts_are_two(caplog: pytest.LogCaptureFixture) -> None:
    """What the client itself left out does not make a new line; another facility or another text does."""
    log = ClientLog(Clock())
    for name, facility, text in [
        ("one", "REQTMOUT", "refused (after 3ms)"),
        ("two", "REQTMOUT", "refused (after 90ms, 30 identical error(s) suppressed)"),
        ("one", "ERROR", "refused (after 3ms)"),
        ("one", "REQTMOUT", "no route"),
    ]:
        log.log(logging.WARNING, "%s [%s] %s", facility, name, text)
    assert [line.split()[0] for line in said(caplog)] == ["REQTMOUT", "ERROR", "REQTMOUT"]


def test_a_lost_connection_is_no_error_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """The client tries again; what does not come back is said by whoever waited for it."""
    caplog.set_level(logging.DEBUG)
    ClientLog(Clock()).log(logging.ERROR, "%s [%s] %s", "FAIL", "name", "Connection refused")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.DEBUG, "FAIL [name] Connection refused")
    ]


def test_connected_is_false_as_soon_as_the_broker_is_gone() -> None:
    """A reader whose broker disappears goes on polling, without error and not connected."""
    with EmbeddedBroker() as broker:
        Cluster(broker.connection).create([TopicSpec("t")])
        reader = Input(broker.connection, "t", group=None)
        with closing(reader):
            reader.assign({0: 0})
            eventually(lambda: reader.poll(1, 0.1) == [] and reader.connected(), "connected")
            broker.close()
            eventually(lambda: reader.poll(1, 0.1) == [] and not reader.connected(), "not connected")


# -------------------------------------------------------------- what callbacks report


def refusal() -> KafkaError:
    return KafkaError(KafkaError._AUTHENTICATION, "wrong password")


def everyone_is_down() -> KafkaError:
    return KafkaError(KafkaError._ALL_BROKERS_DOWN, "all down")


def test_a_fatal_error_reported_to_a_callback_ends_the_next_call(unreachable: Connection) -> None:
    """What the client calls fatal is raised by whoever polls next, again and again, and is never a retry."""
    link = Link(unreachable)
    link.on_error(KafkaError(KafkaError._TRANSPORT, "a passing failure"))
    link.check()
    link.on_error(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "numbers are out of order", True))
    for _ in range(2):
        with pytest.raises(FatalError, match="numbers are out of order"):
            link.check()
    assert isinstance(link.failure(everyone_is_down(), "publish"), FatalError)


def test_a_fence_reported_to_a_callback_is_a_fence(unreachable: Connection) -> None:
    """Fencing keeps its own class, by which the daemon knows to write nothing more."""
    link = Link(unreachable)
    link.on_error(KafkaError(KafkaError._FENCED, "fenced by a newer instance", True))
    with pytest.raises(Fenced):
        link.check()


def test_a_refused_password_ends_a_start_once_every_broker_refused(unreachable: Connection) -> None:
    """One broker's refusal is not the last word; when all are down and none ever answered, it is."""
    link = Link(unreachable)
    link.on_error(refusal())
    link.check()
    link.on_error(everyone_is_down())
    with pytest.raises(ConfigurationError, match="wrong password"):
        link.check()


def test_a_password_that_was_right_is_not_doubted_by_any_client_of_the_connection(unreachable: Connection) -> None:
    """A client that was idle until now does not take an outage of the broker's credentials for ours being wrong."""
    busy, idle = Link(unreachable), Link(unreachable)
    busy.saw_answer()
    for link in (busy, idle):
        link.on_error(refusal())
        link.on_error(everyone_is_down())
        link.check()
        assert isinstance(link.failure(everyone_is_down(), "read"), BrokerUnavailable)
    assert not busy.up
