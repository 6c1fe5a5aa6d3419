"""What HTTPS shows, and whose certificates it takes; read again when the files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from consumers.host.web.access import WatchedFiles
from consumers.settings import HttpConfig
from streamsvm.errors import ConfigurationError

logger = logging.getLogger("streamsvm.http")


class ServerCertificate:
    """The certificate of this daemon; safe to call from one thread at a time.

    Parameters
    ----------
    config : HttpConfig
        With a certificate and its key.

    Raises
    ------
    ConfigurationError
        If a file cannot be used.
    """

    def __init__(self, config: HttpConfig) -> None:
        self._config = config
        files = (config.tls_certificate, config.tls_key, config.tls_client_ca)
        self._watched = WatchedFiles(path for path in files if path is not None)
        self._context = _context(config)

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection; that of renewed files as soon as they fit each other."""
        if self._watched.changed():
            self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            self._context = _context(self._config)
        except ConfigurationError as error:
            logger.warning("the previous certificate stays in force: %s", error)
        else:
            logger.info("loaded the new certificate from %s", self._config.tls_certificate)


def _context(config: HttpConfig) -> ssl.SSLContext:
    assert config.tls_certificate is not None
    assert config.tls_key is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, config.tls_certificate, config.tls_key)
    if config.tls_client_ca is not None:
        _trust(context, config.tls_client_ca)
        # Probes of Kubernetes show no certificate; `Access` asks for one wherever it is needed.
        context.verify_mode = ssl.CERT_OPTIONAL if config.open_probes else ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:  # of which ssl.SSLError is one
        raise ConfigurationError(
            f"HTTPS cannot be served with {certificate} and {key}: {error}",
            "Give PEM files of a certificate and of its own key, without a password and readable for this user.",
        ) from None


def _trust(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(authority)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"http.tls_client_ca {authority} cannot be used: {error}",
            "Give a PEM file of the authority that signs the client certificates.",
        ) from None


def _no_password() -> str:
    """Answer instead of the terminal, which a daemon must not wait for."""
    raise ValueError("the key is protected by a password")
