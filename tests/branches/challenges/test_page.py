"""What the page and the status of a trainer show of challenges."""

from __future__ import annotations

import json

from tests.consumers.page import boards
from tests.consumers.page.test_site import PICTURE, Page, value_at


def test_a_challenge_is_shown_with_both_figures_and_how_others_ended() -> None:
    """Where output.gate is shadow; every number is that of the status, and without it there is no such table."""
    own = boards.settings()
    output = own.output.model_copy(update={"gate": "shadow", "gate_labels": 800})
    site = boards.site(boards.snapshot(PICTURE), own=own.model_copy(update={"output": output}))
    metrics = site._metrics
    metrics.put("streamsvm_challenger_version", 9)
    metrics.put("streamsvm_challenge_labels", 350)
    metrics.put("streamsvm_challenge_figure", 0.8125, of="champion")
    metrics.put("streamsvm_challenge_figure", 0.875, of="challenger")
    metrics.put("streamsvm_challenge_difference", -0.25, end="low")
    metrics.put("streamsvm_challenge_difference", 0.5, end="high")
    metrics.increase("streamsvm_challenges", 2, outcome="worse")
    answer, status = site.answer("/"), site.answer("/status.json")
    assert answer is not None
    assert status is not None
    text, document = answer.body.decode(), json.loads(status.body)
    assert "Champion and challenger, by AUC as served" in text
    assert "worse: 2" in text
    shown = {field: value for field, value in Page(text).numbers().items() if field.startswith("challenge.")}
    assert len(shown) == 7
    for field, value in shown.items():
        assert float(value) == value_at(document, field)
    plain = boards.site(boards.snapshot(PICTURE))
    answer, status = plain.answer("/"), plain.answer("/status.json")
    assert answer is not None
    assert status is not None
    assert b"Champion" not in answer.body
    assert "challenge" not in json.loads(status.body)
