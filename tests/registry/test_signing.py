"""Signatures of versions: who signs, who takes what, and what keys are refused."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from consumers.models import Records, RollBack, perform, pin
from consumers.settings import OutputConfig, Settings
from streamsvm.errors import ConfigurationError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from streamsvm.model import message as model_codec
from streamsvm.registry.loading import RefusedMessage, load_version
from streamsvm.registry.signing import Signer, TrustedKeys, signed_text
from streamsvm.registry.subscriber import ModelSubscriber
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import produce, records, run_until, settings_for, topic
from tests.registry.test_anchoring import NOW, Topic, connection as connection, models as models
from tests.registry.test_subscriber import DEADLINE_S, NAME, eventually

KEY: Final = "pulsar@7"
HASH: Final = "ab" * 32


def new_key(directory: Path, name: str = "key", mode: int = 0o600) -> tuple[Path, str]:
    """Write a private key; return its file, and the public one in PEM."""
    private = Ed25519PrivateKey.generate()
    file = directory / f"{name}.pem"
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(mode)
    return file, private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def body(public: str) -> str:
    """Return what stands between the first and the last line of a PEM file."""
    return "".join(public.strip().splitlines()[1:-1])


def signer_of(file: Path) -> Signer:
    signer = Signer.of(file)
    assert signer is not None
    return signer


def trusted(*texts: str) -> TrustedKeys:
    keys = TrustedKeys.of(texts=texts)
    assert keys is not None
    return keys


# ----------------------------------------------------------------------- keys


def test_a_signature_is_of_a_key_and_a_hash(tmp_path: Path) -> None:
    """Of another version, another value or by another key it is none."""
    (file, public), (_, other) = new_key(tmp_path), new_key(tmp_path, "other")
    signature = signer_of(file).sign(KEY, HASH).encode()
    assert len(base64.b64decode(signature)) == 64
    assert trusted(body(public)).signed(KEY, HASH, signature)
    assert not trusted(body(public)).signed("pulsar@8", HASH, signature)
    assert not trusted(body(public)).signed(KEY, "cd" * 32, signature)
    assert not trusted(body(other)).signed(KEY, HASH, signature)
    for bad in (None, b"", b"x", b"\xff", signature[:-4], signature + b"AAAA", b"A" * 88):
        assert not trusted(body(public)).signed(KEY, HASH, bad)
    assert signed_text(KEY, HASH) == b"streamsvm.model.signature/1\n" + KEY.encode() + b"\n" + HASH.encode() + b"\n"


def test_keys_are_rotated_by_having_two_for_a_while(tmp_path: Path) -> None:
    """A file holds several, and texts add to them."""
    pairs = [new_key(tmp_path, name) for name in ("old", "new", "third")]
    file = tmp_path / "trusted.pem"
    file.write_text("old and new\n" + pairs[0][1] + pairs[1][1])
    keys = TrustedKeys.of(file, [body(pairs[2][1])])
    assert keys is not None
    for private, _ in pairs:
        assert keys.signed(KEY, HASH, signer_of(private).sign(KEY, HASH).encode())
    file.write_text(pairs[1][1])
    keys = TrustedKeys.of(file)
    assert keys is not None
    assert [keys.signed(KEY, HASH, signer_of(private).sign(KEY, HASH).encode()) for private, _ in pairs] == [
        False,
        True,
        False,
    ]


def test_what_is_no_private_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    """A missing file, a directory, a public key, another kind, one with a password, one that others may touch."""
    for mode in (0o644, 0o640, 0o620, 0o602, 0o606):
        file, public = new_key(tmp_path, mode=mode)
        with pytest.raises(ConfigurationError, match=rf"its mode is {mode:03o}\. Remove their permissions: chmod 600"):
            Signer.of(file)
    private = Ed25519PrivateKey.generate()
    locked = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    kind = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (public.encode(), locked, kind, b"", b"secret words"):
        file = tmp_path / "wrong.pem"
        file.write_bytes(content)
        file.chmod(0o600)
        with pytest.raises(ConfigurationError, match="does not hold an Ed25519 private key") as refused:
            Signer.of(file)
        assert "secret" not in str(refused.value)
    for missing in (tmp_path / "none.pem", tmp_path):
        with pytest.raises(ConfigurationError, match=r"cannot be read|is not a regular file"):
            Signer.of(missing)


def test_what_is_no_public_key_is_refused(tmp_path: Path) -> None:
    """An empty file would else trust nobody, and say nothing."""
    private, _ = new_key(tmp_path)
    for content in ("", "words", private.read_text()):
        file = tmp_path / "trusted.pem"
        file.write_text(content)
        with pytest.raises(ConfigurationError, match="holds no public key in PEM"):
            TrustedKeys.of(file)
    for text in ("x", "AAAA", ""):
        with pytest.raises(ConfigurationError, match="not an Ed25519 public key"):
            TrustedKeys.of(texts=[text])
    with pytest.raises(ConfigurationError, match="cannot be read"):
        TrustedKeys.of(tmp_path / "none.pem")


def test_whoever_neither_signs_nor_asks_needs_no_library(tmp_path: Path) -> None:
    """It is not imported; and where it is missing, what is missing is said."""
    file, public = new_key(tmp_path)
    code = f"""
import sys
sys.modules["cryptography"] = None
from pathlib import Path
import consumers.trainer.publishing, consumers.models.moving, streamsvm.registry.subscriber
from streamsvm.registry.signing import Signer, TrustedKeys
assert Signer.of(None) is None and TrustedKeys.of() is None
for read in (lambda: Signer.of(Path({str(file)!r})), lambda: TrustedKeys.of(texts=[{body(public)!r}])):
    try:
        read()
    except Exception as error:
        print(error)
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.count("pip install '.[sign]'") == 2
    loaded = "streamsvm.registry.subscriber, consumers.trainer.publishing"
    plain = f"import sys, {loaded}; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", plain], check=True)


# -------------------------------------------------------------------- readers


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str]:
    return new_key(tmp_path)


@pytest.fixture
def filled(connection: Connection, models: str, keys: tuple[Path, str]) -> Iterator[Topic]:
    """Six versions, of which only 2, 3 and 5 are signed."""
    with closing(Topic(connection, models)) as made:
        for number in range(1, 7):
            made.signer = signer_of(keys[0]) if number in (2, 3, 5) else None
            made.grow(1)
        yield made


def test_readers_with_a_key_take_what_it_signed_and_nothing_else(
    connection: Connection, filled: Topic, keys: tuple[Path, str], tmp_path: Path
) -> None:
    """By number, by hash, by alias; a reader that follows keeps what it has, and says why."""
    own, other = trusted(body(keys[1])), trusted(body(new_key(tmp_path, "other")[1]))

    def load(which: int | str | None, keys: TrustedKeys) -> Any:
        return load_version(connection, NAME, models_topic=filled.models, number=which, trusted=keys)

    assert load(5, own).version.number == 5
    assert load(filled.hashes[3][:12], own).version.number == 3
    for which, said in ((4, "is not signed"), (None, "is not signed"), (filled.hashes[4], "is not signed")):
        with pytest.raises(RefusedMessage, match=said):
            load(which, own)
    with pytest.raises(RefusedMessage, match="is signed by none of the trusted keys"):
        load(5, other)
    filled.name("current", 5)
    with ModelSubscriber(connection, NAME, models_topic=filled.models, trusted=own) as following:
        assert following.wait_ready(DEADLINE_S).version.number == 5
        filled.name("current", 6)
        eventually(lambda: following.refusals == {"not_signed": 1}, "it is refused")
        assert following.wait_ready(DEADLINE_S).version.number == 5
        filled.name("current", 3)
        eventually(lambda: following.wait_ready(DEADLINE_S).version.number == 3, "the next good one is taken")
    with (
        ModelSubscriber(connection, NAME, models_topic=filled.models, version=4, trusted=own) as held,
        pytest.raises(RefusedMessage, match="is not signed"),
    ):
        held.wait_ready(DEADLINE_S)


def test_nobody_is_moved_to_what_readers_would_refuse(
    connection: Connection, filled: Topic, keys: tuple[Path, str], tmp_path: Path
) -> None:
    """Pins and rollbacks look at signatures where public keys are configured."""
    file = tmp_path / "trusted.pem"
    file.write_text(keys[1])
    output = OutputConfig(models_topic=filled.models, trusted_keys_file=file)
    ann = Records(Cluster(connection), Settings(name=NAME, output=output), "ann@desk", "", NOW)
    with pytest.raises(ConfigurationError, match=f"none of the trusted keys signed {NAME}@4"):
        perform(Cluster(connection), ann.settings, pin(ann, 4))
    assert f"pinned to {NAME}@5" in perform(Cluster(connection), ann.settings, RollBack(ann))
    with pytest.raises(ConfigurationError, match=f"none of the trusted keys signed {NAME}@4"):
        perform(Cluster(connection), ann.settings, RollBack(ann))
    assert f"pinned to {NAME}@3" in perform(Cluster(connection), ann.settings, pin(ann, 3))


def test_a_trainer_with_a_key_signs_every_version(broker: TestBroker, tmp_path: Path) -> None:
    """The signature stands in a header; a key that cannot be used ends it before it reads anything."""
    file, public = new_key(tmp_path)
    values = []
    for key in (None, file):
        settings = settings_for(broker.name("signed"), tmp_path / f"checkpoint-{key is None}")
        settings = settings.model_copy(update={"output": settings.output.model_copy(update={"signing_key_file": key})})
        Cluster(broker.connection).create([TopicSpec(settings.input.topic)])
        produce(broker.connection, settings.input.topic, records(120))
        run_until(settings, broker.connection, 120)
        published = topic(broker.connection, settings.output.models_topic)
        values.append(len(published))
        for record in published:
            signature = dict(record.headers).get(model_codec.SIGNATURE_HEADER)
            version = model_codec.decode(record.value or b"")
            signed = trusted(body(public)).signed(version.key, model_codec.sha256(record.value or b""), signature)
            assert signed == (key is not None)
    assert values[0] == values[1] > 1
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="its mode is 644"):
        run_until(settings, broker.connection, 121)
