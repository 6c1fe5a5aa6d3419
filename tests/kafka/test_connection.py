"""Connections: what may be set, what is hidden, and what an unreachable broker looks like."""

from __future__ import annotations

import json
import logging
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import KafkaError, ThrottleEvent

from streamsvm.errors import BrokerUnavailable, ConfigurationError, FatalError, Fenced, StreamsvmError, TransientError
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
from streamsvm.kafka.connection import RECENT_S, Throttling
from tests.brokers.fixtures import TestBroker
from tests.brokers.jvm import java, kafka_jars
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

QUESTIONS: list[Callable[[Connection], object]] = [
    lambda connection: Cluster(connection).describe("t"),
    lambda connection: Cluster(connection).create([TopicSpec("t")]),
    lambda connection: Cluster(connection).log_range("t", 0),
    lambda connection: Cluster(connection).starts("t", [0], "latest"),
    lambda connection: Cluster(connection).read_to_end("t", 0, timeout_s=1.0),
    lambda connection: Cluster(connection).record("t", 0, timeout_s=1.0),
    lambda connection: Cluster(connection).tail("t", 0, 0),
    lambda connection: Cluster(connection).publisher("id").start(),
    lambda connection: Cluster(connection).input("t", None).assign({0: 0}),
]


@pytest.fixture
def unreachable() -> Connection:
    return Connection(options={"bootstrap.servers": NOBODY}, request_timeout_s=0.3)


def test_an_option_that_guarantees_rest_on_may_not_be_set() -> None:
    """Nor one that the client would call; a broker must be named; no secret is shown where it is refused."""
    for option in (*RESERVED, "error_cb"):
        with pytest.raises(ConfigurationError, match=option):
            Connection(options={"bootstrap.servers": NOBODY, option: "true"})
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        Connection(options={"client.rack": "a"})
    with pytest.raises(ConfigurationError) as refused:
        Connection(options={"bootstrap.servers": NOBODY, "sasl.password": ["hunter2"]})  # type: ignore[dict-item]
    assert "hunter2" not in str(refused.value)


def test_secrets_do_not_show() -> None:
    """The representation of a connection masks every secret, and shows the rest."""
    connection = Connection(options={"bootstrap.servers": NOBODY, "sasl.username": "ann", **SECRETS})
    assert "hunter2" not in repr(connection)
    assert "hunter2" not in str(connection)
    assert "ann" in repr(connection)
    assert connection.masked_options().keys() == connection.options.keys()


def test_the_brokers_certificate_is_always_checked() -> None:
    """In every spelling that the client takes, switching the check off is refused; the secure values are no risk."""
    certificate, name = "enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"
    refused = [(certificate, value) for value in (False, "False", 0, "f")] + [(name, "none"), (name, "NONE")]
    for option, value in refused:
        with pytest.raises(ConfigurationError, match=rf"{option}.*disables a security check"):
            Connection(options={"bootstrap.servers": NOBODY, option: value})
    assert Connection(options={"bootstrap.servers": NOBODY, name: "https", certificate: True}).risks() == []


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


def test_an_unknown_option_is_named() -> None:
    """An option the client does not know makes a configuration error that names it."""
    connection = Connection(options={"bootstrap.servers": NOBODY, "no.such.option": 1})
    for make in (
        lambda: Input(connection, "t", group=None),
        lambda: Outbox(connection),
        lambda: Publisher(connection, "id"),
    ):
        with pytest.raises(ConfigurationError, match=r"no\.such\.option"):
            make()  # type: ignore[no-untyped-call]


def test_an_unreachable_broker_is_said_in_one_line(unreachable: Connection) -> None:
    """Every question to a broker that is not there ends with one clear line."""
    for ask in QUESTIONS:
        with pytest.raises(BrokerUnavailable) as failure:
            ask(unreachable)
        assert str(failure.value).startswith(f"no broker answered at {NOBODY} within 0.3 s (")
        assert "Check bootstrap.servers" in str(failure.value)
        assert "\n" not in str(failure.value)


def test_an_outbox_waits_as_long_as_its_patience(unreachable: Connection) -> None:
    """It says how many messages wait and keeps them; one whose patience ends, by either option, fails for good."""
    options = {"bootstrap.servers": NOBODY, "delivery.timeout.ms": 200}
    with (
        closing(Outbox(Connection(options=options, request_timeout_s=0.3))) as timed,
        closing(Outbox(unreachable, patience_s=0.2)) as hasty,
        closing(Outbox(unreachable, patience_s=None)) as patient,
    ):
        for outbox in (timed, hasty, patient, patient):
            outbox.send(Message("t", b"x"))
        for outbox in (timed, timed, hasty):
            with pytest.raises(BrokerUnavailable, match=NOBODY):
                outbox.flush(PATIENCE_S)
        for patience_s in (0.2, 0.0):
            with pytest.raises(TransientError, match="did not acknowledge 2 messages"):
                patient.flush(patience_s)


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
    """Sixteen lines a second that differ in numbers only: the first, then one count a minute, with its level.

    The count does not wait for the next line; then the line is news again.
    """
    clock = Clock()
    log = ClientLog(clock)
    for number in range(980):
        refused = f"refused (after {number}ms in state CONNECT)"
        log.log(logging.ERROR, "%s [%s] %s", "REQTMOUT", "rdkafka#producer-1", refused)
        clock.now += 0.0625
    first = "REQTMOUT [rdkafka#producer-1] refused (after 0ms in state CONNECT)"
    assert said(caplog) == [first, f"repeated 959 times in 60 s: {first}"]
    for _ in range(2):
        clock.now += 60
        log.summarise()
    log.log(logging.ERROR, "%s [%s] %s", "REQTMOUT", "rdkafka#producer-1", "refused (after 1ms in state CONNECT)")
    assert [line.split()[0] for line in said(caplog)[2:]] == ["repeated", "REQTMOUT"]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_lines_of_two_facilities_or_texts_are_two(caplog: pytest.LogCaptureFixture) -> None:
    """What the client itself left out does not make a new line; another facility or another text does.

    A lost connection is no error: the client tries again, and what does not come back is said by whoever waits for it.
    """
    caplog.set_level(logging.DEBUG)
    log = ClientLog(Clock())
    for name, facility, text in [
        ("one", "REQTMOUT", "refused (after 3ms)"),
        ("two", "REQTMOUT", "refused (after 90ms, 30 identical error(s) suppressed)"),
        ("one", "ERROR", "refused (after 3ms)"),
        ("one", "REQTMOUT", "no route"),
        ("one", "FAIL", "Connection refused"),
    ]:
        log.log(logging.WARNING, "%s [%s] %s", facility, name, text)
    assert [line.split()[0] for line in said(caplog)] == ["REQTMOUT", "ERROR", "REQTMOUT", "FAIL"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 3 + [logging.DEBUG]


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


def test_a_quota_is_told(real_broker: TestBroker) -> None:
    """Which broker delays answers, and by how much; no more once none was delayed for a while."""
    connection = replace(real_broker.connection, client_id=real_broker.name("slow"))
    quota = ("--add-config", "producer_byte_rate=20000", "--entity-type", "clients", "--entity-name")
    kafka = [java(), "-cp", f"{kafka_jars()}/*", "kafka.admin.ConfigCommand", "--bootstrap-server", connection.servers]
    subprocess.run([*kafka, "--alter", *quota, connection.client_id], check=True, capture_output=True)
    assert (connection.throttling.recent_s(), connection.throttling.said()) == (0.0, "")
    topic = real_broker.topic()
    with closing(Outbox(connection)) as outbox:
        for _ in range(20):
            outbox.send(Message(topic, random.randbytes(20_000), partition=0))
        outbox.flush(PATIENCE_S)
        assert connection.throttling.recent_s() > 0.1
        assert "the quota of broker" in connection.throttling.said()


def test_a_delay_is_shown_for_half_a_minute() -> None:
    """By the clock, and until an answer comes without one."""
    now = [0.0]
    throttling = Throttling(lambda: now[0])
    throttling.note(ThrottleEvent("b:9092", 1, 1.5))
    now[0] = RECENT_S - 1.0
    assert (throttling.recent_s(), "b:9092" in throttling.said()) == (1.5, True)
    throttling.note(ThrottleEvent("b:9092", 1, 0.0))
    assert (throttling.recent_s(), throttling.said()) == (0.0, "")
    throttling.note(ThrottleEvent("b:9092", 1, 1.5))
    now[0] += RECENT_S
    assert (throttling.recent_s(), throttling.said()) == (0.0, "")


# -------------------------------------------------------------- what callbacks report


def refusal() -> KafkaError:
    return KafkaError(KafkaError._AUTHENTICATION, "wrong password")


def everyone_is_down() -> KafkaError:
    return KafkaError(KafkaError._ALL_BROKERS_DOWN, "all down")


def test_a_fatal_error_reported_to_a_callback_ends_the_next_call(unreachable: Connection) -> None:
    """What the client calls fatal is raised by whoever polls next, again and again; a fence keeps its own class."""
    link = Link(unreachable)
    link.on_error(KafkaError(KafkaError._TRANSPORT, "a passing failure"))
    link.check()
    link.on_error(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "numbers are out of order", True))
    for _ in range(2):
        with pytest.raises(FatalError, match="numbers are out of order"):
            link.check()
    assert isinstance(link.failure(everyone_is_down(), "publish"), FatalError)
    fenced = Link(unreachable)
    fenced.on_error(KafkaError(KafkaError._FENCED, "fenced by a newer instance", True))
    with pytest.raises(Fenced):
        fenced.check()


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


@pytest.mark.parametrize("state", ["AUTH_HANDSHAKE", "AUTH_REQ"])
def test_a_connection_is_up_while_its_login_is_renewed(unreachable: Connection, state: str) -> None:
    """Brokers ask for that now and then, and a reader is not cut off; a first login is not a connection yet."""
    link = Link(unreachable)

    def is_up(state: str, connects: int) -> bool:
        broker = {"state": state, "connects": connects, "source": "learned"}
        link.on_statistics(json.dumps({"brokers": {"broker:9092/1": broker}}))
        return link.up

    seen = [is_up(*one) for one in ((state, 1), ("UP", 1), (state, 1), ("DOWN", 1), (state, 2), ("UP", 2), (state, 2))]
    assert seen == [False, True, True, False, False, True, True]


def test_clients_that_meet_nobody_try_with_growing_pauses() -> None:
    """Each kind, over a port that takes no connection for long: after a few seconds it tries at most once a second."""
    kinds: dict[str, Callable[[Connection], object]] = {
        "question": lambda connection: Cluster(connection).log_range("t", 0),
        "id": lambda connection: Cluster(connection).topic_id("t"),
        "marks": lambda connection: Cluster(connection).marks([("t", 0)]),
        "input": lambda connection: Input(connection, "t", group="g").assign({0: 0}),
        "publisher": lambda connection: Publisher(connection, "id", transaction_timeout_s=30.0).start(),
        "outbox": lambda connection: sent(Outbox(connection), Message("t", b"x")),
    }
    tries = dict.fromkeys(kinds, 0)
    with ExitStack() as stack:
        for kind, ask in kinds.items():
            nobody = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = {"bootstrap.servers": f"127.0.0.1:{nobody.getsockname()[1]}"}
            connection = Connection(options=server, request_timeout_s=20.0)
            threading.Thread(target=partial(turned_away, nobody, tries, kind), daemon=True).start()
            threading.Thread(target=partial(outcome_of, ask, connection), daemon=True).start()
        time.sleep(12.0)
        before = dict(tries)
        time.sleep(6.0)
    assert all(before.values()), before
    assert {kind: tries[kind] - before[kind] for kind in kinds if tries[kind] - before[kind] > 6} == {}


def turned_away(nobody: socket.socket, tries: dict[str, int], kind: str) -> None:
    """Count who comes, until the port is closed."""
    with suppress(OSError):
        while True:
            nobody.accept()[0].close()
            tries[kind] += 1


def sent(outbox: Outbox, message: Message) -> None:
    """Send a message, and wait for it: an outbox with nothing to send need not connect."""
    outbox.send(message)
    outbox.flush(20.0)


def outcome_of(ask: Callable[[Connection], object], connection: Connection) -> object:
    """Return what a question comes to, for whoever cares."""
    try:
        return ask(connection)
    except StreamsvmError as error:
        return error
