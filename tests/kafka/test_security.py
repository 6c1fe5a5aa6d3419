"""Passwords, certificates and mechanisms; and permissions that are taken away in flight."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

import pytest

from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Publisher, TopicSpec
from tests.brokers.secured import Permission, SecuredBroker, password_of
from tests.consumers.trainers import records, versions
from tests.kafka.hostile_registry import hostile_registry, plain
from tests.kafka.secured_site import REFUSED_STATUS, Site, at_work, last_words
from tests.kafka.steps import eventually
from tests.live.process import Daemon, ask

READING_THE_INPUT: Final = "topic", "in", "read"
WRITING_VERSIONS: Final = "topic", "models", "write"


def lose_a_permission(site: Site, daemon: Daemon, permission: Permission) -> None:
    """Take a permission from a trainer at work, see it end with a line, give it back, and let the next life go on."""
    kind, name, operation = permission
    revoked = kind, site.name(name), operation
    assert revoked in site.permissions("trainer")
    site.broker.forbid("trainer", revoked)
    site.send(records(40, seed=1))
    assert daemon.wait() == REFUSED_STATUS, daemon.said
    said = last_words(daemon)
    assert revoked[1] in said
    assert "authorization failed" in said
    assert "Ask for the permission" in said
    site.broker.permit("trainer", [revoked])
    again = site.trainer()
    try:
        assert again.reaches_version(2), again.said
        assert again.stop() == 0
    finally:
        again.kill()
    assert [version.stream.points for version in versions(site.admin, site.settings)] == [40, 80]


@pytest.mark.long
@pytest.mark.parametrize("permission", [READING_THE_INPUT, WRITING_VERSIONS], ids=" ".join)
def test_a_permission_revoked_in_flight_ends_the_trainer_with_a_line(
    working: tuple[Site, Daemon], permission: Permission
) -> None:
    """Status 78, the topic and the reason; given back, the next life goes on where this one ended."""
    lose_a_permission(*working, permission)


@pytest.mark.long
def test_a_trainer_that_takes_refusals_for_outages_is_found(site: Site) -> None:
    """Planted: without a permission it waits for ever, and with a wrong password it would be started again for ever."""
    with pytest.raises(TimeoutExpired), at_work(site, "takes-refusals-for-outages") as daemon:
        lose_a_permission(site, daemon, READING_THE_INPUT)
    with pytest.raises(AssertionError, match="assert 75 == 78"):
        start_with_a_wrong_password(site, "takes-refusals-for-outages")


# ------------------------------------------------------------------- passwords, certificates


def start_with_a_wrong_password(site: Site, planted: str = "") -> None:
    """Start a trainer whose password is not the user's any more; it must end with a line."""
    daemon = site.trainer(password="an-old-password", planted=planted)
    assert daemon.wait() == REFUSED_STATUS
    assert "rejects this client" in last_words(daemon)
    assert "invalid credentials" in last_words(daemon)
    complaints = [line for line in daemon.log if "SASL authentication error" in line]
    assert 1 <= len(complaints) <= 3, daemon.said
    assert "an-old-password" not in daemon.said
    assert password_of("trainer") not in daemon.said


def test_a_wrong_password_is_said_once_and_ends_the_start(site: Site) -> None:
    """Status 78 and one line that says what to check; neither password is in the log."""
    start_with_a_wrong_password(site)


@pytest.mark.long
def test_an_expired_certificate_ends_a_start_and_only_delays_a_running_trainer(
    working: tuple[Site, Daemon],
) -> None:
    """In flight: not ready but healthy, until the certificate is renewed; at a start: status 78 and a clear line."""
    site, daemon = working
    broker = site.broker
    try:
        broker.present(broker.authority.certificate("expired", days=-1))
        broker.restart()
        starting = site.elsewhere().trainer()
        assert starting.wait() == REFUSED_STATUS
        assert "certificate verify failed" in last_words(starting)
        assert "certificates and their dates" in last_words(starting)
        eventually(lambda: ask(daemon, "readyz")[0] == 503, "not ready")
        assert "broker" in json.loads(ask(daemon, "readyz")[1])["waiting_for"]
        assert ask(daemon, "healthz")[0] == 200
        assert daemon.ended() is None
    finally:
        broker.present(broker.authority.certificate("renewed"))
        broker.restart()
    eventually(lambda: ask(daemon, "readyz")[0] == 200, "ready again")
    site.send(records(40, seed=1))
    assert daemon.reaches_version(2), daemon.said
    assert daemon.stop() == 0
    assert daemon.said.count("SSL handshake failed") <= 6


@pytest.mark.long
def test_another_authority_is_not_trusted(secured: SecuredBroker, tmp_path: Path) -> None:
    """A broker whom nobody vouches for is refused, and so is the option to check nothing."""
    stranger = type(secured.authority)(tmp_path)
    name = "somewhere"
    Cluster(secured.connect()).create([TopicSpec(name)])
    options = {**secured.options(), "ssl.ca.location": str(stranger.ca)}
    unchecked = {**options, "enable.ssl.certificate.verification": False}
    for refused in (options, unchecked):
        with pytest.raises(ConfigurationError, match="certificate"):
            Cluster(Connection(options=refused, request_timeout_s=2.0)).describe(name)


# ----------------------------------------------------------------------------- mechanisms


def token(principal: str) -> str:
    """Return an unsigned token, as the broker of these tests takes it."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": principal, "iat": now, "exp": now + 600}
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, ""])


def give_a_token(request: BaseHTTPRequestHandler) -> None:
    """Give a token to whoever knows the client's secret."""
    request.rfile.read(int(request.headers["Content-Length"]))
    known = base64.b64encode(b"trainer:hunter2").decode()
    good = request.headers.get("Authorization") == f"Basic {known}"
    answer = {"access_token": token("admin"), "expires_in": 600} if good else {"error": "no"}
    plain(json.dumps(answer).encode(), 200 if good else 401, **{"Content-Type": "application/json"})(request)


@pytest.fixture
def token_endpoint() -> Iterator[str]:
    with hostile_registry(give_a_token) as running:
        yield f"{running.url}/token"


PASSWORD: Final = {"sasl.username": "admin", "sasl.password": password_of("admin")}
MECHANISMS: Final[Mapping[str, dict[str, str | bool]]] = {
    "SCRAM-SHA-512": {"sasl.mechanism": "SCRAM-SHA-512", **PASSWORD},
    "PLAIN": {"sasl.mechanism": "PLAIN", **PASSWORD},
    "OAUTHBEARER, unsigned": {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=admin",
    },
    "OAUTHBEARER, oidc": {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "trainer",
        "sasl.oauthbearer.client.secret": "hunter2",
    },
}


def by(name: str, secured: SecuredBroker, endpoint: str, timeout_s: float, **other: str) -> Connection:
    """Return a connection that comes in by a mechanism; underscores of other options are dots."""
    options: dict[str, str | bool] = {k: v for k, v in secured.options().items() if not k.startswith("sasl.")}
    options |= MECHANISMS[name] | {key.replace("_", "."): value for key, value in other.items()}
    if name.endswith("oidc"):
        options["sasl.oauthbearer.token.endpoint.url"] = endpoint
    return Connection(options=options, request_timeout_s=timeout_s)


@pytest.mark.long(keep=("SCRAM-SHA-512",))
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_verb_works_over_tls_with_each_mechanism(secured: SecuredBroker, token_endpoint: str, name: str) -> None:
    """Create, describe, send, publish in a transaction and read back, by a client of its own each."""
    connection = by(name, secured, token_endpoint, 10.0)
    made = f"mechanism-{re.sub('[^a-z]', '', name.lower())}"
    Cluster(connection).create([TopicSpec(made)])
    assert Cluster(connection).describe(made).partitions == (0,)
    with closing(Outbox(connection)) as outbox:
        outbox.send(Message(made, b"one", partition=0))
        outbox.flush(30.0)
    with closing(Publisher(connection, made)) as publisher:
        publisher.start()
        publisher.publish([Message(made, b"two", partition=0)])
    assert [record.value for record in Cluster(connection).read_to_end(made, 0, timeout_s=30.0)] == [b"one", b"two"]


def test_a_token_that_is_refused_is_said(secured: SecuredBroker, token_endpoint: str) -> None:
    """A wrong client secret ends in a configuration error that names security, and shows no secret."""
    wrong = by("OAUTHBEARER, oidc", secured, token_endpoint, 3.0, sasl_oauthbearer_client_secret="swordfish")
    with pytest.raises(ConfigurationError, match="security options") as refused:
        Cluster(wrong).describe("any")
    assert "swordfish" not in str(refused.value)
