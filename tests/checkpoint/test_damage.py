"""Checkpoint damaged: each header byte flipped, truncations, random flips, generations lost."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from consumers import constants
from consumers.settings import Settings
from streamsvm.checkpoint.format import decode, encode
from streamsvm.errors import CorruptCheckpoint, StateError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.fixtures import TestBroker
from tests.consumers.trainers import Running, produce, records, run_until, settings_for, topic
from tests.golden.checkpoint import handmade
from tests.promise.topics import check_counts, check_promise

pytestmark = pytest.mark.enough("real")

WHOLE = encode(handmade())
HEADER_END = 20 + struct.unpack_from("<Q", WHOLE, 12)[0]
TRUNCATIONS = 100
FLIPS = 1_000


def undetected(damaged: list[bytes]) -> int:
    """Return how many damaged files are taken for a checkpoint."""

    def passes(content: bytes) -> bool:
        try:
            decode(content)
        except CorruptCheckpoint:
            return False
        return True

    return sum(map(passes, damaged))


def flipped(at: int, by: int) -> bytes:
    return WHOLE[:at] + bytes([WHOLE[at] ^ by]) + WHOLE[at + 1 :]


def header_flips() -> list[bytes]:
    """Every byte of the prefix and the header, its lowest bit, its highest, and all of them flipped."""
    return [flipped(at, by) for at in range(HEADER_END) for by in (1, 128, 255)]


def truncations() -> list[bytes]:
    """A hundred lengths, the shortest and the longest among them."""
    return [WHOLE[: int(length)] for length in np.linspace(0, len(WHOLE) - 1, TRUNCATIONS)]


def body_flips(seed: int) -> list[bytes]:
    """A thousand bytes of the arrays and of the checksum, each flipped by chance."""
    random = np.random.default_rng(seed)
    places = zip(random.integers(HEADER_END, len(WHOLE), FLIPS), random.integers(1, 256, FLIPS), strict=True)
    return [flipped(int(at), int(by)) for at, by in places]


def test_every_damage_is_detected(record_property: Callable[[str, object], None]) -> None:
    """Each byte of the header, a hundred truncations, a thousand random flips: none is taken for a checkpoint."""
    seed = 20_261_121
    damaged = header_flips() + truncations() + body_flips(seed)
    assert undetected(damaged) == 0
    record_property("damaged_files", len(damaged))
    record_property("seed", seed)


def test_without_the_checksum_damage_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row can fail: with the comparison taken out hundreds of flips in the arrays are loaded."""
    taken_out = type("Sha256", (), {"digest": lambda self: WHOLE[-32:]})()
    monkeypatch.setattr("streamsvm.coreset.state.hashlib.sha256", lambda content: taken_out)
    assert undetected(body_flips(1)) > FLIPS // 2


def broken(path: Path) -> None:
    """Flip one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def generations(settings: Settings) -> list[Path]:
    """Return the checkpoint files, the oldest first."""
    return sorted(settings.checkpoint.directory.glob("checkpoint-*.ssvm"))


@pytest.fixture
def trainer(broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A trainer that keeps all its generations, and an input of three versions' rows."""
    made = settings_for(broker.name("damage"), tmp_path / "checkpoint")
    Cluster(broker.connection).create([TopicSpec(made.input.topic, 1)])
    produce(broker.connection, made.input.topic, records(120))
    monkeypatch.setattr(constants, "CHECKPOINTS", 100)
    return made


def run_to_version(settings: Settings, connection: Connection, number: int) -> Running:
    with Running(settings, connection) as running:
        running.wait_until(lambda: running.value("streamsvm_model_version") >= number)
    return running


def test_an_older_generation_continues_without_a_doubled_version(
    trainer: Settings, broker: TestBroker, tmp_path: Path
) -> None:
    """With the newer half damaged, then all but the oldest, the topic ends as that of a trainer without a fault."""
    connection = broker.connection
    run_to_version(trainer, connection, 3)
    for damaged_from, version in ((lambda files: len(files) // 2, 4), (lambda files: 1, 5)):
        files = generations(trainer)
        for path in files[damaged_from(files) :]:
            broken(path)
        produce(connection, trainer.input.topic, records(40, seed=version))
        run_to_version(trainer, connection, version)
    found = check_promise(connection, trainer)
    check_counts(found)
    assert len(found) == 5
    clean = trainer.model_copy(
        update={
            "output": trainer.output.model_copy(update={"models_topic": f"{trainer.output.models_topic}-clean"}),
            "checkpoint": trainer.checkpoint.model_copy(update={"directory": tmp_path / "clean"}),
        }
    )
    run_until(clean, connection, 200)
    assert [(r.key, r.value) for r in topic(connection, trainer.output.models_topic)] == [
        (r.key, r.value) for r in topic(connection, clean.output.models_topic)
    ]


def test_a_start_without_a_usable_checkpoint_is_refused(trainer: Settings, broker: TestBroker) -> None:
    """All damaged: each file is named. All gone: the way to begin anew is named. Neither writes anything."""
    connection = broker.connection
    run_to_version(trainer, connection, 3)
    before = topic(connection, trainer.output.models_topic)
    files = generations(trainer)
    for path in files:
        broken(path)
    with pytest.raises(StateError) as refused:
        run_to_version(trainer, connection, 4)
    assert all(f"{path.name}: the file's checksum does not match" in str(refused.value) for path in files)
    assert generations(trainer) == files
    for path in files:
        path.unlink()
    with pytest.raises(StateError, match=re.escape("there is no checkpoint") + r".*--reset m/1"):
        run_to_version(trainer, connection, 4)
    assert generations(trainer) == []
    assert topic(connection, trainer.output.models_topic) == before
