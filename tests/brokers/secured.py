"""A broker that trusts nobody unasked: SASL_SSL, users by SCRAM, PLAIN and tokens, and every permission by name.

Made for the tests of security: an authority of this run, certificates by the `openssl` command, one node.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.brokers.jvm import CannotRun

USERS = ("admin", "trainer", "scorer", "reader", "nobody")
HOST_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"
ANSWER_TIMEOUT_S = 20.0
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def password_of(user: str) -> str:
    """Return a user's password, long enough not to stand in a log by accident."""
    return f"correct-horse-of-{user}"


@dataclass(frozen=True)
class Certificate:
    """A key pair on disk.

    Attributes
    ----------
    chain, key
        PEM files of the certificate and of its private key (PKCS#8).
    both
        PEM file of the two, as a Java broker wants them.
    """

    chain: Path
    key: Path
    both: Path


class Authority:
    """A certificate authority of this run, and what it vouches for.

    Parameters
    ----------
    directory : Path
        Where its files go.

    Attributes
    ----------
    ca : Path
        PEM file of its own certificate.
    """

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
