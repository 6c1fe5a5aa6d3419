"""Passwords, certificates and permissions: refused, taken away in flight, and the least that will do."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Any, Final

import pytest

from streamsvm.errors import ConfigurationError
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, Publisher, TopicSpec
from streamsvm.registry import ModelSubscriber, load_version
from tests.brokers.jvm import CannotRun
from tests.brokers.secured import SecuredBroker, password_of
from tests.consumers.command import error_of, run
from tests.consumers.dead_letters.test_dead_letters import UNLABELED, message as letter_of
from tests.consumers.trainers import produce, records, settings_for, topic, versions
from tests.forked import PROGRAM
from tests.kafka.hostile_registry import hostile_registry, plain
from tests.kafka.steps import eventually, send
from tests.live.process import Daemon, arguments, ask
from tests.permissions import listed

ROOT = Path(__file__).parent.parent.parent
Permission = tuple[str, str, str]

ROWS = listed()
LOST_END: Permission = ("topic", "models.audit", "read")
SELDOM = [("trainer", LOST_END), ("moving readers", LOST_END), ("retiring versions", LOST_END)]
"""What is not missed before a broker loses the end of a transaction."""
VERSIONS: Permission = ("topic", "models", "read")
"""What a trainer does not miss before its first version."""
RETIRING: Permission = "transactional_id", "streamsvm/m/models/moves", "write"
"""What it does not miss before its hundredth."""
REFUSED_STATUS = 78
ATTEMPTED = {
    ("topic", "read"): r"failed to (read|look up topic|ask for the end of)",
    ("topic", "write"): r"failed to (publish to|deliver a message to|look up) topic",
    ("group", "read"): r"failed to (ask who is in|read \S+ as) group",
    ("transactional_id", "write"): r"failed to take over transactional id",
}
"""What a message says was attempted, by the kind and the operation of the permission that is missing."""

FRESH = count(1_000)
TASKS: Mapping[str, Sequence[str]] = {
    "reading versions": ("model show", "model list", "model diff 3 4", "model export --version 3"),
    "moving readers": ("model pin 4 --alias stable", "model pin 4", "model rollback", "model pin --remove"),
    "retiring versions": ("model retire 2",),
    "verifying": ("verify",),
    "reading letters": ("dead-letters {in.dlq}",),
    "resending letters": ("dead-letters {in.dlq} --resend {in} --yes",),
}
"""What people do, by how the documentation calls those who do it."""
UNDONE = {
    "model pin 4 --alias stable": "model pin 4 --alias {fresh}",
    "model retire 2": "model retire 3",
    "model pin --remove": "",
}
"""The same work where it is not done yet; to remove a pin that is not there changes nothing, and needs less."""


def documented(*who: str) -> list[tuple[str, Permission]]:
    """Return whom the documentation lists a permission for, and the permission."""
    return [(part, (kind, name, operation)) for part, kind, name, operation in ROWS if part in who]


def always_needed(*who: str) -> list[Any]:
    """Return what is documented and refused at once if it is missing."""
    rows = [row for row in documented(*who) if row not in [*SELDOM, ("trainer", VERSIONS), ("trainer", RETIRING)]]
    return [pytest.param(part, row, id=" ".join((part, *row))) for part, row in rows]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker of this module."""
    try:
        broker = SecuredBroker(tmp_path_factory.mktemp("certificates"))
    except CannotRun as error:
        pytest.skip(f"no secured broker: {error}")
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


class Site:
    """A trainer's topics on the secured broker, and the processes that use them."""

    def __init__(self, broker: SecuredBroker, prefix: str, directory: Path) -> None:
        self.broker, self.prefix, self.directory = broker, prefix, directory
        self.started: list[str] = []
        self.admin = broker.connect()
        self.settings = settings_for(prefix, directory / "checkpoint")
        names = ["in", "in.dlq", "points", "points.dlq", "scores", "models.audit"]
        compacted = {"cleanup.policy": "compact"}
        Cluster(self.admin).create([TopicSpec(self.name(name)) for name in names])
        names = ["models", "models.aliases", "scores.progress"]
        Cluster(self.admin).create([TopicSpec(self.name(name), config=compacted) for name in names])

    def name(self, documented: str) -> str:
        """Return what a topic, group or id of the documentation is called here."""
        if documented in ("streamsvm-m", "m-scorer", "m-scorer-*"):
            return documented
        if documented.startswith("streamsvm/"):
            return re.sub(r"/(in\.dlq|models)", rf"/{self.prefix}-\1", documented)
        return f"{self.prefix}-{documented}"

    def permissions(self, who: str) -> list[Permission]:
        """Return what the documentation lists for a part."""
        return [(kind, self.name(name), operation) for _, (kind, name, operation) in documented(who)]

    def permit_all_but(self, user: str, who: str, missing: Permission | None = None) -> None:
        """Let a user do what the documentation lists for a part, but for one row of it."""
        rows = [permission for _, permission in documented(who) if permission != missing]
        if rows:
            self.broker.permit(user, [(kind, self.name(name), operation) for kind, name, operation in rows])

    def daemon(self, command: list[str], user: str, password: str | None = None, planted: str = "") -> Daemon:
        """Start a process as a user, whose password is in a file."""
        self.started.append(user)
        module = "tests.defects.process" if planted else PROGRAM
        given = [*command, *self._client(user)]
        return Daemon([planted, *given][not planted :], {"STREAMSVM_SECRETS": self._secrets(user, password)}, module)

    def command(self, words: str, user: str) -> CompletedProcess[str]:
        """Run a command to its end as a user; topics of the documentation stand in braces."""
        given = [re.sub(r"\{(.+)\}", lambda found: self.name(found[1]), word) for word in words.split()]
        given += ["--bootstrap-servers", self.admin.servers, "--name", self.settings.name]
        if given[0] != "dead-letters":
            given += ["--output-models-topic", self.settings.output.models_topic]
        return run(*given, *self._client(user), STREAMSVM_SECRETS=self._secrets(user))

    def _client(self, user: str) -> list[str]:
        """Return the flags of a user's client; the password is in a file."""
        options = self.broker.options(user)
        del options["sasl.password"], options["bootstrap.servers"]
        return [part for name, value in options.items() for part in ("--kafka", f"{name}={value}")]

    def _secrets(self, user: str, password: str | None = None) -> str:
        secrets = self.directory / f"secrets-{user}"
        secrets.mkdir(exist_ok=True)
        (secrets / "kafka__sasl_password").write_text((password or password_of(user)) + "\n")
        return str(secrets)

    def trainer(self, user: str = "trainer", password: str | None = None, planted: str = "") -> Daemon:
        return self.daemon(arguments(self.settings, self.broker.connect()), user, password, planted)

    def elsewhere(self) -> Site:
        """Return the same trainer with another checkpoint directory."""
        other = copy(self)
        checkpoint = self.settings.checkpoint.model_copy(update={"directory": self.directory / "elsewhere"})
        other.settings = self.settings.model_copy(update={"checkpoint": checkpoint})
        return other

    def send(self, values: list[bytes], name: str = "in") -> None:
        produce(self.admin, self.name(name), values)

    def refuses(self, daemon: Daemon, missing: Permission) -> None:
        """Require that a process ends with status 78, and its last line with what is missing."""
        assert daemon.wait() == REFUSED_STATUS, daemon.said
        check_refusal(last_words(daemon), self, missing)


_sites = iter(range(1000))


@contextmanager
def permitting(secured: SecuredBroker) -> Iterator[None]:
    """Take back at the end what users were permitted meanwhile."""
    permitted: list[tuple[str, Permission]] = []
    secured.on_permit = lambda user, permission: permitted.append((user, permission))
    yield
    for user, permission in permitted:
        secured.forbid(user, permission, missing_ok=True)


@pytest.fixture
def site(secured: SecuredBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Topics of this test's own; what the users were permitted on them is taken back."""
    made = Site(secured, f"s{next(_sites)}", tmp_path)
    with permitting(secured):
        yield made
    request.node.user_properties.append(("processes", len(made.started)))


@contextmanager
def at_work(site: Site, planted: str = "") -> Iterator[Daemon]:
    """Run a trainer that has published its first version, by the documented permissions."""
    site.broker.permit("trainer", site.permissions("trainer"))
    site.send(records(40))
    daemon = site.trainer(planted=planted)
    try:
        assert daemon.reaches_version(1), daemon.said
        yield daemon
    finally:
        daemon.kill()


@pytest.fixture(scope="module")
def published(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Topics of this module with five versions, of which the first is retired, and no trainer any more."""
    made = Site(secured, f"s{next(_sites)}", tmp_path_factory.mktemp("published"))
    with permitting(secured), at_work(made) as trainer:
        made.send(records(160, seed=1))
        assert trainer.reaches_version(5), trainer.said
        assert trainer.stop() == 0
    retired = made.command("model retire 1", "admin")
    assert retired.returncode == 0, retired.stderr
    return made


@pytest.fixture
def history(published: Site) -> Iterator[Site]:
    """Published versions; what this test's users were permitted is taken back."""
    with permitting(published.broker):
        yield published


@pytest.fixture
def working(site: Site) -> Iterator[tuple[Site, Daemon]]:
    """A trainer at work."""
    with at_work(site) as daemon:
        yield site, daemon


def last_words(daemon: Daemon) -> str:
    """Return the line by which a process that has ended says why."""
    assert "Traceback" not in daemon.said
    return daemon.log[-1]


# ------------------------------------------------------------------------------ permissions


def test_a_trainer_works_with_the_documented_permissions_and_no_others(site: Site) -> None:
    """It learns, publishes, writes a dead letter, shows its progress, stops cleanly, and finds itself again."""
    site.broker.permit("trainer", site.permissions("trainer"))
    site.send([*records(40), b"no point"])
    for life, rows in enumerate((0, 40)):
        site.send(records(rows, seed=life))
        daemon = site.trainer()
        try:
            assert daemon.reaches_version(life + 1), daemon.said
            assert daemon.stop() == 0, daemon.said
        finally:
            daemon.kill()
        assert password_of("trainer") not in daemon.said
        assert '"level": "error"' not in daemon.said
    assert [version.number for version in versions(site.admin, site.settings)] == [1, 2]
    assert len(topic(site.admin, site.name("in.dlq"))) == 1
    assert len(topic(site.admin, site.name("models.audit"))) == 2


@contextmanager
def scoring(site: Site) -> Iterator[Daemon]:
    """Run a scorer as its user, with a point and what is none in its input."""
    site.send([b'{"x": [1, 2, 3]}', b"no point"], "points")
    options = {
        "name": "m",
        "bootstrap-servers": site.admin.servers,
        "output-models-topic": site.settings.output.models_topic,
        "scoring-topic": site.name("points"),
        "scoring-output-topic": site.name("scores"),
        "http-port": 0,
    }
    command = ["score", *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
    scorer = site.daemon(command, "scorer")
    try:
        yield scorer
    finally:
        scorer.kill()


def work_as_documented(site: Site) -> None:
    """Let a scorer with the documented permissions write a score and a dead letter, and stop it."""
    site.permit_all_but("scorer", "scorer")

    def written(name: str) -> int:
        return len(topic(site.admin, site.name(name)))

    before = {name: written(name) for name in ("scores", "points.dlq")}
    with scoring(site) as scorer:
        scorer.wait_for("started")
        for name, count in before.items():
            eventually(lambda name=name, count=count: written(name) > count, f"one more in {name}")  # type: ignore[misc]
        assert scorer.stop() == 0, scorer.said


@pytest.mark.long
def test_a_scorer_and_a_subscriber_work_with_theirs(history: Site) -> None:
    """A version reaches the scorer's process and a subscriber in this one; a score and a dead letter come out."""
    work_as_documented(history)
    history.permit_all_but("reader", "subscriber")
    models = history.settings.output.models_topic
    with ModelSubscriber(history.broker.connect("reader"), "m", models_topic=models) as subscriber:
        assert subscriber.wait_ready(30.0).version.number == 5


def check_refusal(said: str, site: Site, missing: Permission) -> None:
    """Require a line that names what was attempted and on what, and says where the permissions are listed."""
    kind, name, operation = missing
    assert re.search(ATTEMPTED[kind, operation], said), said
    resource = site.name(name)
    assert re.search(re.escape(resource.removesuffix("*")) + ("" if resource.endswith("*") else r"(?![\w.-])"), said)
    assert "authorization failed" in said.lower()
    assert "SECURITY.md lists the permissions" in said, said


@pytest.mark.long
@pytest.mark.parametrize(("who", "missing"), always_needed("trainer"))
def test_each_documented_permission_of_a_trainer_is_needed(site: Site, who: str, missing: Permission) -> None:
    """Without any one of them the trainer ends with status 78 and says what it may not do, and on what."""
    site.permit_all_but("trainer", who, missing)
    site.send([*records(40), b"no point"])
    site.refuses(site.trainer(), missing)


@pytest.mark.long
@pytest.mark.parametrize(("who", "missing"), always_needed("scorer"))
def test_each_documented_permission_of_a_scorer_is_needed(history: Site, who: str, missing: Permission) -> None:
    """A scorer that follows another ends without it with status 78, and says what it may not do, and on what."""
    work_as_documented(history)
    kind, name, operation = missing
    history.broker.forbid(who, (kind, history.name(name), operation))
    with scoring(history) as scorer:
        history.refuses(scorer, missing)


def dead_letter(site: Site) -> None:
    """Put a letter that was never sent again into the dead-letter topic."""
    value = encode([1.0, 2.0, 3.0], "maybe", 1.0)
    send(site.admin, [letter_of(site.name("in.dlq"), next(FRESH), value, UNLABELED)])


@pytest.mark.long
@pytest.mark.parametrize("who", TASKS)
def test_people_do_their_work_with_the_documented_permissions_and_no_others(history: Site, who: str) -> None:
    """Each command of those who read, move, retire, verify and resend ends with status 0."""
    history.permit_all_but("reader", who)
    dead_letter(history)
    for words in TASKS[who]:
        finished = history.command(words, "reader")
        assert finished.returncode == 0, finished.stderr
        assert password_of("reader") not in finished.stdout + finished.stderr


@pytest.mark.long
@pytest.mark.parametrize(("who", "missing"), always_needed(*TASKS))
def test_each_documented_permission_of_people_is_needed(history: Site, who: str, missing: Permission) -> None:
    """Without any one of them each command ends with status 78, and says what it may not do, and on what."""
    history.permit_all_but("reader", who, missing)
    dead_letter(history)
    for words in TASKS[who]:
        if undone := UNDONE.get(words, words).replace("{fresh}", f"fresh-{next(FRESH)}"):
            refused = history.command(undone, "reader")
            assert refused.returncode == REFUSED_STATUS
            check_refusal(error_of(refused), history, missing)


@pytest.mark.long
def test_without_reading_versions_a_trainer_does_not_start_again(site: Site) -> None:
    """It could not see whether the newest version is whole: status 78, what is missing; readers keep what is there."""
    with at_work(site) as trainer:
        assert trainer.stop() == 0
    site.broker.forbid("trainer", ("topic", site.name("models"), "read"))
    site.send(records(40, seed=1))
    site.refuses(site.trainer(), VERSIONS)
    models = site.settings.output.models_topic
    assert load_version(site.admin, "m", models_topic=models).version.number == 1


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
