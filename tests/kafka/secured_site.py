"""A trainer's topics on a broker that trusts nobody unasked, and processes that come in as its users."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import count
from pathlib import Path
from subprocess import CompletedProcess

from consumers.streams import output_topics
from streamsvm.kafka import Cluster, TopicSpec
from tests.brokers.secured import Permission, SecuredBroker, password_of
from tests.consumers.command import run
from tests.consumers.trainers import produce, records, settings_for
from tests.forked import PROGRAM
from tests.live.process import Daemon, arguments
from tests.permissions import permissions_of

REFUSED_STATUS = 78
OTHERS = ("in", "points", "points.dlq", "scores", "labels", "labels.dlq")
COMPACTED = ("scores.progress", "m.coresets")
"""Topics beside those that a trainer makes."""

_sites = count()


class Site:
    """A trainer's topics on the secured broker, and the processes that use them."""

    def __init__(self, broker: SecuredBroker, directory: Path, *, topics: bool = True) -> None:
        self.broker, self.prefix, self.directory = broker, f"s{next(_sites)}", directory
        self.started: list[str] = []
        self.admin = broker.connect()
        self.settings = settings_for(self.prefix, directory / "checkpoint").model_copy(update={"name": self.prefix})
        if topics:
            others = [TopicSpec(self.name(name)) for name in OTHERS]
            compacted = [TopicSpec(self.name(name), config={"cleanup.policy": "compact"}) for name in COMPACTED]
            Cluster(self.admin).create([*output_topics(self.settings), *others, *compacted])

    def name(self, documented: str) -> str:
        """Return what a topic, group or id of the documentation is called here; its model `m` has the site's name."""
        if documented.startswith(("streamsvm-", "m-", "m.")):
            return re.sub(r"(?<![a-z])m(?=[-.]|$)", self.prefix, documented)
        if documented.startswith("streamsvm/"):
            return re.sub(r"/(in\.dlq|models)", rf"/{self.prefix}-\1", documented.replace("/m/", f"/{self.prefix}/"))
        return f"{self.prefix}-{documented}"

    def permissions(self, who: str, missing: Permission | None = None) -> list[Permission]:
        """Return what the documentation lists for a part, but for one row of it."""
        rows = [row for row in permissions_of(who) if row != missing]
        return [(kind, self.name(name), operation) for kind, name, operation in rows]

    def daemon(self, command: list[str], user: str, password: str | None = None, planted: str = "") -> Daemon:
        """Start a process as a user, whose password is in a file."""
        self.started.append(user)
        module = "tests.defects.process" if planted else PROGRAM
        given = [*command, *self._client(user)]
        return Daemon([planted, *given][not planted :], {"STREAMSVM_SECRETS": self._secrets(user, password)}, module)

    def command(self, words: Iterable[str], user: str) -> CompletedProcess[str]:
        """Run a command to its end as a user; topics of the documentation stand in braces."""
        given = [re.sub(r"\{(.+)\}", lambda found: self.name(found[1]), word) for word in words]
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

    def trainer(self, user: str = "trainer", password: str | None = None, planted: str = "", **options: str) -> Daemon:
        return self.daemon(arguments(self.settings, self.broker.connect(), **options), user, password, planted)

    def elsewhere(self) -> Site:
        """Return the same trainer with another checkpoint directory."""
        other = copy(self)
        checkpoint = self.settings.checkpoint.model_copy(update={"directory": self.directory / "elsewhere"})
        other.settings = self.settings.model_copy(update={"checkpoint": checkpoint})
        return other

    def send(self, values: Sequence[bytes], name: str = "in") -> None:
        produce(self.admin, self.name(name), values)


@contextmanager
def permitting(secured: SecuredBroker) -> Iterator[None]:
    """Take back at the end what users were permitted meanwhile."""
    permitted: list[tuple[str, Permission]] = []
    before, secured.on_permit = secured.on_permit, lambda user, permission: permitted.append((user, permission))
    yield
    secured.on_permit = before
    for user, permission in permitted:
        secured.forbid(user, permission, missing_ok=True)


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


def last_words(daemon: Daemon) -> str:
    """Return the line by which a process that has ended says why."""
    assert "Traceback" not in daemon.said
    return daemon.log[-1]
