"""Who may ask for what: names this daemon answers to, a bearer token, and a client certificate.

A browser can be made to ask any address for any page by a name that its owner lets resolve to that address (DNS
rebinding), and then hands the answer to the page that asked. So a request must call this daemon by a name of its own.
An IP address is always accepted: nobody needs rebinding to reach an address, and Kubernetes probes by it.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from consumers.host.web.head import HttpRequest
from consumers.settings import HttpConfig
from streamsvm.errors import ConfigurationError

LEAST_TOKEN_BYTES: Final = 16
"""A shorter token could be guessed: 16 random letters and digits are 95 bits."""

LOOK_AGAIN_AFTER_S: Final = 1.0
"""Seconds after which a file is looked at again; a change takes effect that late."""

PROBES: Final = frozenset({"/healthz", "/readyz"})

logger = logging.getLogger("streamsvm.http")


class WatchedFiles:
    """Notices when any of some files was replaced or written.

    Parameters
    ----------
    paths : iterable of Path
    clock : callable
        Monotonic seconds.
    """

    def __init__(self, paths: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._paths = tuple(paths)
        self._clock = clock
        self._due_at = clock() + LOOK_AGAIN_AFTER_S
        self._known = self._look()

    def changed(self) -> bool:
        """Return whether one differs from what it was when this last said so; looks at most once a second."""
        if self._clock() < self._due_at:
            return False
        self._due_at = self._clock() + LOOK_AGAIN_AFTER_S
        before, self._known = self._known, self._look()
        return self._known != before

    def _look(self) -> tuple[object, ...]:
        return tuple(map(_identity, self._paths))


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Token:
    """A bearer token in a file, read again when the file changes.

    Parameters
    ----------
    path : Path

    Raises
    ------
    ConfigurationError
        If it cannot be read, or is too short.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watched = WatchedFiles((path,))
        self._token = _read_token(path)

    def admits(self, authorization: str) -> bool:
        """Return whether an `Authorization` header bears the token; takes as long for every wrong one."""
        if self._watched.changed():
            self._renew()
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1"), self._token)
        return same and scheme.lower() == "bearer"

    def _renew(self) -> None:
        try:
            self._token = _read_token(self._path)
        except ConfigurationError as error:
            logger.warning("the previous token stays in force: %s", error)
        else:
            logger.info("loaded the new token from %s", self._path)


def _read_token(path: Path) -> bytes:
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise ConfigurationError(
            f"http.bearer_file {path} cannot be read: {error.strerror}", "Give a file that this user may read."
        ) from None
    if len(token) < LEAST_TOKEN_BYTES or not all(0x21 <= byte <= 0x7E for byte in token):
        raise ConfigurationError(
            f"http.bearer_file {path} holds no token of at least {LEAST_TOKEN_BYTES} printable letters without spaces",
            "Create a token, for example: openssl rand -hex 32",
        )
    return token


class Access:
    """What a request has to show; safe to call from one thread at a time.

    Parameters
    ----------
    config : HttpConfig

    Raises
    ------
    ConfigurationError
        If the token cannot be read.
    """

    def __init__(self, config: HttpConfig) -> None:
        names = ("localhost", config.host, *config.allowed_hosts)
        self._names = frozenset(name.lower().removesuffix(".") for name in names)
        self._any_name = "*" in config.allowed_hosts
        self._token = None if config.bearer_file is None else Token(config.bearer_file)
        self._certificate_wanted = config.tls_client_ca is not None
        self._open = PROBES if config.open_probes else frozenset()

    def refusal(self, request: HttpRequest, *, certified: bool) -> HTTPStatus | None:
        """Return the status by which a request is refused; None if it may be answered.

        Parameters
        ----------
        request : HttpRequest
        certified : bool
            Whether the client has shown a certificate of `http.tls_client_ca`.
        """
        if not self.answers_to(request.headers.get("host", "")):
            return HTTPStatus.MISDIRECTED_REQUEST
        if request.path in self._open:
            return None
        if self._certificate_wanted and not certified:
            return HTTPStatus.FORBIDDEN
        if self._token is not None and not self._token.admits(request.headers.get("authorization", "")):
            return HTTPStatus.UNAUTHORIZED
        return None

    def answers_to(self, host: str) -> bool:
        """Return whether a `Host` header names this daemon; browsers never send an empty one."""
        if not host or self._any_name:
            return True
        name = _without_port(host).lower().removesuffix(".")
        return name in self._names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name if not port or port.startswith(":") else host
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
