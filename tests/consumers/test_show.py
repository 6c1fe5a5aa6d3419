"""What people are shown of a version."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from consumers.show import describe
from streamsvm.subscriber import Loaded
from streamsvm.training import Audit
from tests.codec.test_model import version_of


def shown(audit: Audit | None) -> str:
    written = io.StringIO()
    Console(width=300, file=written).print(describe(Loaded(replace(version_of(), audit=audit), "ab", 3, 0.0)))
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
