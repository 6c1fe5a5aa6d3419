"""SIGKILL around a commit: versions and their ONNX copies stand and fall together."""

from __future__ import annotations

from dataclasses import replace

from streamsvm.codec import model as model_codec
from streamsvm.codec import onnx as onnx_codec
from tests.consumers.trainers import topic
from tests.faults.stage import Stage
from tests.faults.test_kill import kill_at, life

PUBLISHING = ("publish.sent", "publish.committed", "publish.noted")


def test_a_kill_leaves_no_version_without_its_copy_and_no_copy_without_its_version(stage: Stage) -> None:
    """Before the commit neither is there, after it both; each copy is, byte for byte, the one of its version."""
    onnx = replace(stage, options={"output_model_format": "onnx"})
    onnx.create()
    for number, point in enumerate(PUBLISHING):
        onnx.feed(life(seed=number))
        kill_at(onnx, point, 2 * (number + 1))
    onnx.feed(life(seed=len(PUBLISHING)))
    onnx.run_through(2 * (len(PUBLISHING) + 1))
    values = [value for _, value in onnx.models() if value is not None]
    copies = topic(onnx.connection, stage.settings.output.onnx_topic)
    assert len(values) == 2 * (len(PUBLISHING) + 1)
    assert [copy.value for copy in copies] == [
        onnx_codec.export(model_codec.decode(value), model_codec.sha256(value)) for value in values
    ]
