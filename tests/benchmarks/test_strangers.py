"""The benchmark of proposals for the tables of strangers runs, and its pipelines answer what they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import strangers
from tests.benchmarks.strangers import TABLES, main


def no_trees(*_: object) -> None:
    """Fail as an import does."""
    raise ModuleNotFoundError("no trees")


def test_a_proposal_is_measured_beside_declared_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the same held-out rows; a cell that is kept is not measured again, and an error is shown in its row."""
    few = ["--tables", "churn", "--rows", "1500", "--rounds", "1", "--json", str(tmp_path / "cells.json")]
    (row,) = main([*few, "--contenders", "proposal,pipeline"])
    assert row["rows"] == 1_500
    assert row["proposal"] > 0.7
    assert row["pipeline"] > 0.8
    assert row["lost"] == row["pipeline"] - row["proposal"]
    assert any(line.startswith("TotalCharges = ") for line in row["proposed"])
    monkeypatch.setattr(strangers, "streamsvm", None)
    monkeypatch.setattr(strangers, "write", no_trees)
    (again,) = main(few)
    assert again["proposal"] == row["proposal"]
    assert again["what"] == "lightgbm: no trees"
    assert "lightgbm: no trees" in capsys.readouterr().out


@pytest.mark.parametrize("name", TABLES)
def test_each_table_is_the_same_again(name: str, tmp_path: Path) -> None:
    """By its seed, byte for byte in each format; about as many rows are positive as is said."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    files, again = (strangers.write(name, 3, 2_000, folder) for folder in (first, second))
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in again]
    train, test = strangers.read(files[0], TABLES[name], 0)
    assert len(test.positive) == 400
    assert train.positive.mean() == pytest.approx(TABLES[name].share, abs=0.05)
