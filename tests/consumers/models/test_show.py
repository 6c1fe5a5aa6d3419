"""What people are shown of a version."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from consumers.models.show import describe
from streamsvm.model import Audit, Sigmoid, content_sha256
from streamsvm.registry import Loaded
from tests.golden import model as golden
from tests.model.test_model import version_of


def shown(audit: Audit | None, probability: Sigmoid | None = None) -> str:
    written, version = io.StringIO(), version_of()
    version = replace(version, audit=audit, model=replace(version.model, probability=probability))
    Console(width=300, file=written).print(describe(Loaded(version=version, sha256="ab", offset=3, loaded_at=0.0)))
    return written.getvalue()


@pytest.mark.parametrize(("low", "outside"), [(0.0, False), (1e9, True)])
def test_the_objective_over_the_whole_stream_is_shown(low: float, outside: bool) -> None:
    """With its interval and sample, beside the coreset's own duality gap; a coreset that it contradicts is named."""
    text = shown(Audit(2e9, low, 3e9, 1_234))
    assert f"2e+09 over the whole stream, in 95 of 100 cases {low:.6g} to 3e+09, by 1,234 points" in text
    assert "duality gap" in text
    assert ("the training set's objective lies outside" in text) == outside


def test_a_version_without_an_audit_says_so() -> None:
    """Old ones, and those of a trainer that keeps no sample."""
    assert "no audit sample was kept" in shown(None)


def test_the_content_is_of_the_rows_and_not_of_the_log() -> None:
    """Name, number, topic, times, epochs, ancestors and build change nothing; a point, a label or a cut does."""
    version = golden.handmade()
    line, stream = version.lineage, version.stream
    cut = tuple(msgspec.structs.replace(part, leader_epoch=part.leader_epoch + 1) for part in line.cut)
    elsewhere = replace(
        version,
        name="other",
        number=version.number + 1,
        stream=msgspec.structs.replace(stream, first_time_ms=5, last_time_ms=6),
        lineage=msgspec.structs.replace(
            line, topic="t", topic_id="i", parent="0" * 64, links=(), build={"python": "4"}, cut=cut
        ),
    )
    assert content_sha256(elsewhere) == content_sha256(version)
    table = io.StringIO()
    Console(width=300, file=table).print(describe(Loaded(version=version, sha256="ab", offset=3, loaded_at=0.0)))
    assert re.search(rf"content\s+│ {content_sha256(version)}", table.getvalue())
    moved = tuple(msgspec.structs.replace(part, offset=part.offset + 1) for part in line.cut)
    others = [
        replace(version, lineage=msgspec.structs.replace(line, cut=moved)),
        replace(version, lineage=msgspec.structs.replace(line, training_set_sha256="0" * 64)),
        replace(version, stream=msgspec.structs.replace(stream, points=stream.points - 1)),
    ]
    assert len({content_sha256(one) for one in (version, *others)}) == 4


def test_how_a_decision_value_becomes_a_probability_is_shown() -> None:
    """The sigmoid's formula, or that there is none."""
    assert "sigmoid, 1 / (1 + exp(-1.5 f +0.25))" in shown(None, Sigmoid(-1.5, 0.25))
    assert re.search(r"probability\s+│ none", shown(None))


def test_a_version_of_points_evaluates_no_fields() -> None:
    """It says what its input was."""
    assert re.search(r"events\s+│ none: the input is points", shown(None))
