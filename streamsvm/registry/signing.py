"""Signatures of versions: Ed25519 over a version's key and the SHA-256 of its value, in a header of its record.

What is signed, in ASCII: ``streamsvm.model.signature/1``, the key ``name@number``, and the SHA-256 in lower-case
hexadecimal, a newline after each. The header `streamsvm.signature` holds the 64 bytes in base64. A reader that is given
public keys takes a version that one of them signed, and no other; of two keys the old one is taken away once nothing
it signed is wanted any more.

The private key is read from a file that only its owner may read. The library (``cryptography``) is imported where a key
is read, so that a trainer that does not sign does not need it.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from streamsvm.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

DOMAIN: Final = "streamsvm.model.signature/1"
MOST_KEY_BYTES: Final = 65_536
"""A larger file is not read as a file of keys."""
EXTRA: Final = (
    "pip install '.[sign]' in the folder of the sources, or 'streamsvm-reader[sign]' where only the reader is installed"
)
_BEGIN, _END = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"


def signed_text(key: str, sha256: str) -> bytes:
    """Return what a signature is made over: the domain, a version's key and its value's SHA-256."""
    return f"{DOMAIN}\n{key}\n{sha256}\n".encode()


class Signer:
    """Signs versions with a private key.

    Parameters
    ----------
    key : Ed25519PrivateKey
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def of(cls, file: Path | None) -> Self | None:
        """Read a private key (PEM, PKCS #8, not encrypted); None where no file is named.

        Raises
        ------
        ConfigurationError
            If the file cannot be read, others may read or write it, or it holds no such key.
        """
        if file is None:
            return None
        content = _private(file)
        _require_library(f"{file} is given to sign versions")
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(content, None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError(
                f"{file} does not hold an Ed25519 private key in PEM format without a password",
                f"Create a key: (umask 077; openssl genpkey -algorithm ed25519 -out {file})",
            )
        return cls(key)

    def sign(self, key: str, sha256: str) -> str:
        """Return the signature of a version, in base64."""
        return base64.b64encode(self._key.sign(signed_text(key, sha256))).decode("ascii")


class TrustedKeys:
    """Public keys, one of which must have signed a version.

    Parameters
    ----------
    keys : sequence of Ed25519PublicKey
        At least one.
    """

    def __init__(self, keys: Sequence[Ed25519PublicKey]) -> None:
        if not keys:
            raise ConfigurationError(
                "signatures are to be checked, but no public key is given", "Give at least one public key."
            )
        self._keys = tuple(keys)

    @classmethod
    def of(cls, file: Path | None = None, texts: Sequence[str] = ()) -> Self | None:
        """Read public keys from a file, from texts, or both; None where neither is given.

        Parameters
        ----------
        file : Path, optional
            PEM, one public key after the other.
        texts : sequence of str
            Each a public key as its PEM file has it between the first and the last line.

        Raises
        ------
        ConfigurationError
            If the file cannot be read or holds no key, or something that is not an Ed25519 public key.
        """
        if file is None and not texts:
            return None
        _require_library("trusted keys are given to check signatures of versions")
        keys = [_public(text, "a trusted key") for text in texts]
        if file is not None:
            keys += [_public(body, str(file)) for body in _bodies(file)]
        return cls(keys)

    def signed(self, key: str, sha256: str, signature: bytes | None) -> bool:
        """Return whether a version was signed by one of the keys.

        Parameters
        ----------
        key : str
            Of the version, name@number.
        sha256 : str
            Of its value, recomputed.
        signature : bytes or None
            The header's; None where there is none.
        """
        from cryptography.exceptions import InvalidSignature

        try:
            raw = base64.b64decode(signature or b"", validate=True)
        except (binascii.Error, ValueError):
            return False
        for one in self._keys:
            try:
                one.verify(raw, signed_text(key, sha256))
            except InvalidSignature:
                continue
            return True
        return False


def _require_library(why: str) -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            f"{why}, but the library for signatures is not installed", f"Install it: {EXTRA}"
        ) from None


def _private(file: Path) -> bytes:
    """Read a file that nobody else may read or write; the open file is what is looked at, not its name."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigurationError(f"the signing key file {file} cannot be read: {error.strerror}", _WHERE) from None
    try:
        _require_private(file, os.fstat(descriptor))
        return os.read(descriptor, MOST_KEY_BYTES)
    finally:
        os.close(descriptor)


def _require_private(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"the signing key {file} is not a regular file")
    if status.st_mode & _forbidden(status):
        raise ConfigurationError(
            f"other users may read or write the signing key file {file}: its mode is {status.st_mode & 511:03o}",
            f"Remove their permissions: chmod 600 {file}",
        )


def _forbidden(status: os.stat_result) -> int:
    """Return the permissions that no key may have; a mounted secret of root's may be read by our group."""
    ours = status.st_uid == os.geteuid()
    return stat.S_IRWXO | stat.S_IWGRP | (stat.S_IRGRP if ours else 0)


def _bodies(file: Path) -> list[str]:
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_KEY_BYTES).decode("ascii", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"the trusted keys file {file} cannot be read: {error.strerror}", _WHERE) from None
    bodies = [part.partition(_END)[0] for part in text.split(_BEGIN)[1:]]
    if not bodies:
        raise ConfigurationError(f"the trusted keys file {file} holds no public key in PEM format", _HOW)
    return bodies


_WHERE: Final = "Give a file that this user may read."
_HOW: Final = "Export the public key: openssl pkey -in PRIVATE.pem -pubout"


def _public(body: str, where: str) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(base64.b64decode("".join(body.split()), validate=True))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(f"{where} holds something that is not an Ed25519 public key", _HOW)
    return key
