"""Where a trainer finds its checkpoints: in a directory of the model's own, or in the old one of all models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from consumers.host.checkpoint_places import with_old_checkpoint
from consumers.loader import load
from consumers.settings import Settings
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.checkpoint.disk import FileSystem
from tests.test_checkpoint import snapshot


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def save(directory: str, name: str) -> None:
    """Leave a model's checkpoint in a directory."""
    with CheckpointDirectory(FileSystem(Path(directory)), 3) as checkpoints:
        checkpoints.save(replace(snapshot(), name=name))


def found(settings: Settings) -> str:
    return str(with_old_checkpoint(settings).checkpoint.directory)


def test_each_model_has_a_directory_of_its_own() -> None:
    """By default, and in a configured path wherever `{name}` stands."""
    assert found(load({"name": "pulsar"})) == "checkpoint/pulsar"
    assert found(load({"name": "a", "checkpoint": {"directory": "/var/lib/{name}/c"}})) == "/var/lib/a/c"
    assert found(load({"name": "a", "checkpoint": {"directory": "mine"}})) == "mine"


def test_a_checkpoint_of_this_name_in_the_old_place_is_gone_on_from() -> None:
    """The log says where it is, and how to move it."""
    save("checkpoint", "pulsar")
    with structlog.testing.capture_logs() as said:
        assert found(load({"name": "pulsar"})) == "checkpoint"
    (line,) = said
    assert (line["event"], line["log_level"]) == ("checkpoint_in_old_place", "warning")
    assert "move its checkpoint-*.ssvm into checkpoint/pulsar" in line["remedy"]


def test_the_old_place_is_another_models_or_out_of_use() -> None:
    """Another model's checkpoint there is not ours, nor is an old one that the directory of our own succeeded."""
    save("checkpoint", "pulsar")
    assert found(load({"name": "brk"})) == "checkpoint/brk"
    assert found(load({"name": "pulsar", "checkpoint": {"directory": "mine"}})) == "mine"
    save("checkpoint/pulsar", "pulsar")
    assert found(load({"name": "pulsar"})) == "checkpoint/pulsar"
