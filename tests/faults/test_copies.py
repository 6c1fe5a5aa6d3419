"""SIGKILL around a commit: versions and their ONNX copies stand and fall together."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from streamsvm.model import message as model_codec
from streamsvm.registry import onnx_copy as onnx_codec
from tests.consumers.trainers import topic
from tests.faults.stage import Stage
from tests.faults.test_kill import life

PUBLISHING = ("publish.sent", "publish.committed", "publish.noted")
VERSIONS_A_LIFE = 2


def kill_around_commits(stage: Stage, planted: str = "") -> None:
    """Kill a trainer at each step of a commit, let it end its work, and compare copies with versions."""
    stage.create()
    for number, point in enumerate(PUBLISHING):
        stage.feed(life(seed=number))
        assert stage.start(planted, {"STREAMSVM_TEST_CRASH_AT": point}).wait() == -signal.SIGKILL
    stage.run_through(VERSIONS_A_LIFE * len(PUBLISHING), planted)
    values = [value for _, value in stage.models() if value is not None]
    copies = [copy.value for copy in topic(stage.connection, stage.settings.output.onnx_topic)]
    assert len(values) == VERSIONS_A_LIFE * len(PUBLISHING)
    assert copies == [copy_of(value) for value in values], "not the copies of the versions"


def copy_of(value: bytes) -> bytes:
    return onnx_codec.export(model_codec.decode(value), model_codec.sha256(value))


@pytest.fixture
def with_copies(stage: Stage) -> Stage:
    """A trainer that is asked for copies."""
    return replace(stage, options={"output_model_format": "onnx"})


@pytest.mark.long
def test_a_kill_leaves_no_version_without_its_copy_and_no_copy_without_its_version(with_copies: Stage) -> None:
    """Before the commit neither is there, after it both; each copy is, byte for byte, the one of its version."""
    kill_around_commits(with_copies)


@pytest.mark.faults_long
def test_copies_that_are_published_by_themselves_are_found(with_copies: Stage) -> None:
    """The row can fail: a trainer that commits the copy before its version leaves one copy too many."""
    with pytest.raises(AssertionError, match="not the copies of the versions"):
        kill_around_commits(with_copies, "publishes-copies-apart")
