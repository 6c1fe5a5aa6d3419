"""The benchmark of probabilities runs, and its figures are what they are called."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.benchmarks.calibration import ece, main


def test_every_contender_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """On the same rows; what is fitted beats the bare rate, and a short stream is wholly shared."""
    main(["--kernels", "linear", "--rows", "1000", "--seeds", "1", "--json"])
    rounds = {one["contender"]: one for one in json.loads(capsys.readouterr().out)["rounds"]}
    assert list(rounds) == ["rate", "uncalibrated", "sigmoid", "isotonic", "cv sigmoid", "cv isotonic"]
    for contender in ("sigmoid", "isotonic", "cv sigmoid", "cv isotonic"):
        assert rounds[contender]["brier"] < 0.5 * rounds["rate"]["brier"]
    assert rounds["sigmoid"]["shared"] == 1.0


def test_the_table_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """With medians and their intervals."""
    main(["--kernels", "linear", "--rows", "1000", "--seeds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "htru2, linear, 1,000 rows"
    assert [line.split("  ")[0] for line in lines[2:]][:2] == ["rate", "uncalibrated"]


def test_ece_is_the_distance_of_words_from_facts() -> None:
    """None where every bin's share is as said; a constant error is found whole."""
    y = np.where(np.arange(1_500) % 2 == 0, 1, -1)
    assert ece(y, np.full(1_500, 0.5)) == pytest.approx(0.0)
    assert ece(y, np.full(1_500, 0.9)) == pytest.approx(0.4)
