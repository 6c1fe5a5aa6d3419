"""A broker that trusts nobody unasked: SASL_SSL, users by SCRAM, PLAIN and tokens, and every permission by name.

Made for the tests of security: an authority of this run, certificates by the `openssl` command, one node.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from streamsvm.kafka import Connection
from tests.brokers.jvm import CannotRun, JvmBroker, free_ports

Permission = tuple[str, str, str]
USERS = ("admin", "trainer", "scorer", "reader", "nobody")
HOST_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"
ANSWER_TIMEOUT_S = 20.0
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def password_of(user: str) -> str:
    """Return a user's password, long enough not to stand in a log by accident."""
    return f"correct-horse-of-{user}"


@dataclass(frozen=True)
class Certificate:
    """PEM files of a certificate, of its private key, and of both, as a Java broker wants them."""

    chain: Path
    key: Path
    both: Path


class Authority:
    """A certificate authority of this run, whose own certificate is in the file `ca`, and what it vouches for."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            raise CannotRun("openssl is not installed")
        self._directory = directory
        self.ca = directory / "ca.pem"
        subject = ("-subj", "/CN=authority of a test run")
        _openssl("req", "-x509", *CURVE, "-keyout", self._key("ca"), "-out", self.ca, "-days", "2", *subject)

    def certificate(self, name: str, days: int = 2) -> Certificate:
        """Return a certificate for this machine; of negative `days`, one that has expired."""
        made = Certificate(self._directory / f"{name}.pem", self._key(name), self._directory / f"{name}.both.pem")
        request, names = self._directory / f"{name}.csr", self._directory / "names.cnf"
        names.write_text(HOST_NAMES)
        _openssl("req", *CURVE, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}")
        signed_by = ("-CA", self.ca, "-CAkey", self._key("ca"), "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *signed_by, "-days", days, "-extfile", names, "-out", made.chain)
        made.both.write_text(made.key.read_text() + made.chain.read_text())
        return made

    def _key(self, name: str) -> Path:
        return self._directory / f"{name}.key"


def _openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class SecuredBroker(JvmBroker):
    """One Kafka node that clients reach by SASL_SSL only, and in which every permission has to be given.

    Its own traffic goes over a plain listener on the loopback, by which `permit` and `forbid` also work. The user
    `admin` may do everything; a user's password is `password_of(user)`.
    """

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.on_permit: Callable[[str, Permission], None] = lambda *_: None
        self._presented = directory / "presented.pem"
        self.present(self.authority.certificate("broker"))
        super().__init__()
        (self._client_port,) = free_ports(1)
        self._secure()

    def present(self, certificate: Certificate) -> None:
        """Show this certificate to clients from the next start on."""
        shutil.copy(certificate.both, self._presented)

    def options(self, user: str = "admin", password: str | None = None) -> dict[str, str]:
        """Return a client's options by which a user comes in, by SCRAM."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self._client_port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.ca),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password_of(user) if password is None else password,
        }

    def connect(self, user: str = "admin", **options: str | int | bool) -> Connection:
        """Return a user's connection; names of further options with underscores for dots."""
        return Connection(
            options={**self.options(user), **{name.replace("_", "."): value for name, value in options.items()}},
            request_timeout_s=5.0,
        )

    def permit(self, user: str, permissions: Iterable[Permission]) -> None:
        """Let a user do operations on resources: (kind, name, operation)."""
        permissions = list(permissions)
        admin = self._administrate()  # named, so that it lives until the answers are there
        bindings = [AclBinding(*_binding(user, *one)) for one in permissions]
        for future in (admin.create_acls(bindings) if bindings else {}).values():
            future.result(ANSWER_TIMEOUT_S)
        for permission in permissions:
            self.on_permit(user, permission)

    def forbid(self, user: str, permission: Permission, *, missing_ok: bool = False) -> None:
        """Take a permission back."""
        wanted = AclBindingFilter(*_binding(user, *permission))
        admin = self._administrate()
        (future,) = admin.delete_acls([wanted]).values()
        assert len(future.result(ANSWER_TIMEOUT_S)) == 1 or missing_ok, f"{user} had no {permission}"

    def _administrate(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def _secure(self) -> None:
        """Add the listener of the clients to the settings that every test broker has."""
        settings = dict(line.split("=", 1) for line in self._settings.read_text().splitlines())
        client = f"CLIENTS://127.0.0.1:{self._client_port}"
        for name in ("listeners", "advertised.listeners"):
            settings[name] = f"{client},{settings[name]}"
        settings["listener.security.protocol.map"] = f"CLIENTS:SASL_SSL,{settings['listener.security.protocol.map']}"
        settings |= CLIENTS | {"listener.name.clients.ssl.keystore.location": str(self._presented)}
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def _format_command(self) -> list[str]:
        """Make the users with the log."""
        scram = [
            f"--add-scram=SCRAM-SHA-512=[name={user},password={password_of(user)},iterations=4096]" for user in USERS
        ]
        return [*super()._format_command(), *scram]


@contextmanager
def secured_broker(directory: Path) -> Iterator[SecuredBroker]:
    """Run one until the end of the block; where none can be run the test is skipped, and says why."""
    try:
        broker = SecuredBroker(directory)
    except CannotRun as error:
        pytest.skip(f"no secured broker: {error}")
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


_MODULE = "org.apache.kafka.common.security"
CLIENTS: Mapping[str, str] = {
    "listener.name.clients.ssl.keystore.type": "PEM",
    "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
    "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{_MODULE}.scram.ScramLoginModule required;",
    "listener.name.clients.plain.sasl.jaas.config": f"{_MODULE}.plain.PlainLoginModule required "
    + " ".join(f'user_{user}="{password_of(user)}"' for user in USERS)
    + ";",
    "listener.name.clients.oauthbearer.sasl.jaas.config": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
    "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": f"{_MODULE}.oauthbearer.internals."
    "unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}
"""Settings of the clients' listener. Its tokens are unsigned: a test has no identity provider to trust."""


def _binding(user: str, kind: str, name: str, operation: str) -> tuple[Any, ...]:
    """Return what a permission is made of; a name that ends in a star is a prefix."""
    pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
    allowed = AclOperation[operation.upper()], AclPermissionType.ALLOW
    return ResourceType[kind.upper()], name.removesuffix("*"), pattern, f"User:{user}", "*", *allowed
