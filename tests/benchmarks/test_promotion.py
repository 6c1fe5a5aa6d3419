"""The benchmark of promotions decides as the shipped rule does, goes on where it stopped, and its truths are true."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamsvm.branches.challenges.betting import BETS
from streamsvm.branches.challenges.rule import Rule, compare
from streamsvm.branches.challenges.served import COLUMNS, Served
from tests.benchmarks.promotion import TRUTHS, Row, decide, main, of_answers, of_orders, of_probabilities


@pytest.mark.parametrize("gain", [0.03, -0.03])
def test_a_stream_is_decided_where_the_shipped_rule_decides_it(gain: float) -> None:
    """At the very label, and not at the one before."""
    random, n, alpha = np.random.default_rng(5), 3_000, 0.01
    y = np.where(random.random(n) < 0.4, 1, -1).astype(np.int8)
    u = random.random(n)
    old, new = np.where(u < 0.05 + max(gain, 0.0), -y, y), np.where(u > 0.95 - max(-gain, 0.0), -y, y)
    said = np.zeros((n, len(COLUMNS)))
    for name, column in (("offset", np.arange(n)), ("answer", old), ("shadow_answer", new)):
        said[:, COLUMNS.index(name)] = column
    rows, rule = Served(said=said, y=y, counts={}), Rule(figure="accuracy", labels=n, alpha=alpha)
    differences = ((old != y).astype(float) - (new != y)).astype(float)
    at = np.flatnonzero(differences)
    wealths = np.zeros(len(BETS)), np.zeros(len(BETS))
    decided = decide(at, differences[at], BETS, -np.log(alpha), *wealths)
    assert np.sign(decided) == np.sign(gain)
    first = np.arange(n) < abs(decided)
    assert compare(rows.where(first), rule).outcome == ("better" if gain > 0.0 else "worse")
    first[abs(decided) - 1] = False
    assert compare(rows.where(first), rule).outcome == "open"


def test_the_run_after_goes_on_with_what_was_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two streams and then two more are the four of one run."""
    kept = tmp_path / "counted.json"
    asked = ["--figures", "accuracy", "--positives", "0.5", "--challenges", "1,3", "--json"]
    for streams in ("2", "4"):
        main([*asked, "--streams", streams, "--counted", str(kept)])
        said = capsys.readouterr().out
    main([*asked, "--streams", "4"])
    assert json.loads(said)["rows"] == json.loads(capsys.readouterr().out)["rows"]
    assert {row["streams"] for row in json.loads(said)["rows"]} == {4}
    assert json.loads(kept.read_text())["hours"] > 0.0


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("figure", ["cost_50", "log_loss", "auc"])
def test_made_streams_are_as_good_as_they_say(figure: str, truth: str) -> None:
    """The mean of a million rows' differences is that of the truth, within four of its standard errors."""
    cell = Row(figure=figure, positives=0.1, cost=50.0, truth=truth, challenges=1)
    made, random = {"auc": of_orders, "log_loss": of_probabilities}.get(figure, of_answers), np.random.default_rng(4)
    parts = [made(cell, random)[1] for _ in range(50)]
    sums = np.array([part.sum() for part in parts])
    terms = len(np.concatenate(parts)) if figure != "cost_50" else 50 * 20_000
    share = (1.0 - TRUTHS[truth]) * {"auc": 0.15, "cost_50": (0.1 * 0.2 * 50.0 + 0.9 * 0.1) / 50.0}.get(figure, np.nan)
    if figure == "log_loss":
        share = (1.0 - TRUTHS[truth]) * champions_loss(replace(cell, truth="equal"))
    assert sums.sum() / terms == pytest.approx(share, abs=4.0 * sums.std() * np.sqrt(50.0) / terms + 2e-4)


def champions_loss(cell: Row) -> float:
    """Return the champion's clipped log loss as a share of the greatest, by its own quadrature."""
    from scipy.special import expit, ndtri

    from tests.benchmarks.promotion import MOST_LOSS, NOISE, losses

    random = np.random.default_rng(9)
    logits = ndtri(cell.positives) * 2.5 + 2.0 * random.standard_normal(1_000_000)
    said = logits + NOISE * random.standard_normal(1_000_000)
    return float(losses(random.random(1_000_000) < expit(logits), said).mean()) / MOST_LOSS
