"""Which memories a partition can have: the trunk's own, and those that are plugged in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import ValidationError
from streamsvm.learning.memories import EverythingKept, memory_of
from streamsvm.learning.memory_kinds import MemoryKind, memory_kind

from consumers.settings import Settings
from streamsvm.config import ModelConfig, PointsConfig
from streamsvm.learning import memory_kinds as kinds
from streamsvm.learning.tasks import task_of


@pytest.fixture
def nothing_plugged_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A build without the branches."""
    monkeypatch.setattr(kinds, "plugged", lambda socket, kind: ())
    kinds.memory_kinds.cache_clear()
    yield
    kinds.memory_kinds.cache_clear()


def made(kind: MemoryKind, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(kinds, "plugged", lambda socket, _: (kind,))
    kinds.memory_kinds.cache_clear()
    config = ModelConfig(points=PointsConfig(dimension=2))
    config = config.model_copy(update={"coreset": config.coreset.model_copy(update={"memory": "adaptive"})})
    try:
        return memory_of(0, config, task_of(config))
    finally:
        kinds.memory_kinds.cache_clear()


@pytest.mark.usefixtures("nothing_plugged_in")
def test_a_memory_that_is_not_plugged_in_is_refused_by_name() -> None:
    """Where it would be made, and where settings are read; everything else goes on."""
    assert memory_kind("all").name == "all"
    with pytest.raises(ValueError, match=r"coreset\.memory = adaptive is not available in this build\. Available: all"):
        memory_kind("adaptive")
    given = {"points": {"dimension": 2}, "input": {"topic": "t"}}
    Settings.model_validate(given)
    with pytest.raises(ValidationError, match=r"coreset\.memory = adaptive is not available"):
        Settings.model_validate({**given, "coreset": {"memory": "adaptive"}})


def test_the_memory_of_a_configuration_is_what_is_plugged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever class stands at the name, if it is one of memories."""
    found = made(MemoryKind("adaptive", "streamsvm.learning.memories:EverythingKept"), monkeypatch)
    assert isinstance(found, EverythingKept)
    with pytest.raises(TypeError, match=r"streamsvm\.config:ModelConfig is not a memory"):
        made(MemoryKind("adaptive", "streamsvm.config:ModelConfig"), monkeypatch)
