"""A version larger than the broker takes: refused at start where foreseeable, else dropped and reported."""

from __future__ import annotations

import json

import pytest

from streamsvm.kafka import Cluster, TopicSpec
from tests.consumers.trainers import records, topic
from tests.kafka.foreign import set_option
from tests.live.stage import Stage
from tests.promise.topics import check_counts, check_promise

REFUSED = 78
TOO_LITTLE, ENOUGH = "300", "1048588"


def lower_and_raise(stage: Stage, planted: str = "") -> None:
    """Let the broker take only small messages for one version, and large ones again for the next."""
    models = stage.settings.output.models_topic
    stage.create()
    stage.feed(records(40))
    daemon = stage.start(planted)
    assert daemon.reaches_version(1)
    set_option(stage.connection, models, "max.message.bytes", TOO_LITTLE)
    stage.feed(records(40, seed=1))
    if not planted:
        daemon.wait_for("version_refused")
    else:
        assert daemon.reaches_version(2)
    set_option(stage.connection, models, "max.message.bytes", ENOUGH)
    stage.feed(records(40, seed=2))
    assert daemon.reaches_version(2)
    assert daemon.stop() == 0
    found = check_promise(stage.connection, stage.settings)
    check_counts(found)
    assert [version.stream.rows for version in found] == [40, 120], "not the first and the third cut"
    audit = [json.loads(record.value or b"{}") for record in topic(stage.connection, stage.settings.output.audit_topic)]
    (refusal,) = (entry for entry in audit if entry["event"] == "version_refused")
    assert refusal["version"] == 2
    assert "too large" in refusal["why"].lower(), refusal
    assert planted or f"the topic {models} (max.message.bytes) allows only {TOO_LITTLE}" in refusal["why"], refusal


@pytest.mark.long
def test_a_limit_that_a_model_may_exceed_is_refused_at_start(stage: Stage) -> None:
    """One line names the limit and how many training points would fit into it; nobody is fenced."""
    stage.create()
    output = stage.settings.output
    Cluster(stage.connection).create(
        [TopicSpec(output.models_topic, 1, config={"max.message.bytes": TOO_LITTLE, "cleanup.policy": "compact"})]
    )
    daemon = stage.start()
    assert daemon.wait() == REFUSED, daemon.said
    assert f"the topic {output.models_topic} (max.message.bytes) allows only {TOO_LITTLE}" in daemon.log[-1]
    assert "Raise that limit to " in daemon.log[-1], "fewer training points make no linear model smaller"
    assert "train_points" not in daemon.log[-1]
    assert "Traceback" not in daemon.said


def test_a_version_that_grew_too_large_is_dropped_and_reported(stage: Stage) -> None:
    """The limit is lowered while it runs: audited, its number goes to the next version, which covers its points too."""
    lower_and_raise(stage)


@pytest.mark.faults_long
def test_a_refusal_taken_for_success_is_found(stage: Stage) -> None:
    """The row can fail: a trainer that takes the refused version for published leaves a gap."""
    with pytest.raises(AssertionError, match="a gap, or a number twice"):
        lower_and_raise(stage, "takes-a-refusal-for-success")
