"""The pipeline benchmark runs, counts right and says what it promises; nothing here is about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.contenders import LEAVES, whole
from tests.benchmarks.pipeline import summarise
from tests.benchmarks.timing import Lap, Outcome, alternate

ROOT = Path(__file__).parents[2]
CONTENDERS = {
    ("broker", "client"),
    ("broker", "sgd_loop"),
    ("broker", "streamsvm_learned"),
    ("broker", "streamsvm_published"),
    ("prefetched", "sgd_loop"),
    ("prefetched", "streamsvm_learned"),
}


@pytest.mark.long
def test_a_tiny_run_reports_every_contender(tmp_path: Path) -> None:
    """As a command, on few points: all contenders saw all points (or it fails), each row is complete."""
    report_file = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.benchmarks.pipeline", "--points", "900", "--dimension", "3,5"]
    done = subprocess.run(
        [*command, "--runs", "2", "--json", str(report_file)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(report_file.read_text())["rows"]
    assert {row["d"] for row in rows} == {3, 5}
    for dimension in (3, 5):
        assert {(row["case"], row["contender"]) for row in rows if row["d"] == dimension} == CONTENDERS
    for row in rows:
        assert row["n"] == 880
        assert 0 < row["min"] <= row["points_per_s_median"] <= row["max"]
        assert row["ratio_to_sgd_loop"] > 0
        assert len(row["versions"]) == (2 if row["contender"] == "streamsvm_published" else 0)
        assert all(1 <= versions <= 8 for versions in row["versions"])
        assert row["contender"] in done.stdout


def test_a_contender_that_missed_points_is_no_measurement() -> None:
    """A round that lost a point fails the benchmark instead of looking fast."""
    lap = Lap(1.0, 1.0, 1.0)
    with pytest.raises(AssertionError, match="saw 9 of 10"):
        summarise([Outcome("broker", "sgd_loop", 10, lap), Outcome("broker", "client", 9, lap)], 10, 3)


def test_ratios_are_to_the_loop_of_the_same_case() -> None:
    """A median of rounds is compared with the SGD loop's that ran under the same conditions."""
    outcomes = [
        Outcome(case, contender, 10, Lap(seconds, 1.0, 1.0))
        for case, contender, runs in (
            ("broker", "sgd_loop", (1.0, 2.0, 9.0)),
            ("broker", "client", (1.0, 0.5, 1.0)),
            ("prefetched", "sgd_loop", (0.5, 0.5, 0.5)),
        )
        for seconds in runs
    ]
    rows = {(row["case"], row["contender"]): row for row in summarise(outcomes, 10, 3)}
    assert rows["broker", "client"]["ratio_to_sgd_loop"] == 2.0
    assert rows["prefetched", "sgd_loop"]["ratio_to_sgd_loop"] == 1.0
    assert (rows["broker", "sgd_loop"]["min"], rows["broker", "sgd_loop"]["max"]) == (1, 10)


def test_contenders_take_turns_after_an_unmeasured_round() -> None:
    """The first place rotates, and warm-up runs are not reported."""
    calls: list[str] = []

    def contender(name: str) -> list[Outcome]:
        calls.append(name)
        return [Outcome("broker", name, 1, Lap(1.0, 1.0, 1.0))]

    outcomes = alternate([lambda: contender("a"), lambda: contender("b")], 2)
    assert calls == ["a", "b", "a", "b", "b", "a"]
    assert [outcome.contender for outcome in outcomes] == calls[2:]


def test_streams_end_with_whole_leaves() -> None:
    """Every point belongs to a sealed leaf, so that the last version due covers all."""
    assert [whole(points) for points in (1, LEAVES, 2 * LEAVES - 1, 160_000)] == [LEAVES, LEAVES, LEAVES, 160_000]
