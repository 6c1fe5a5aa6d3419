"""The papers' tables are measured again on small sets; nothing here is about speed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.papers.__main__ import main, sets_without_files
from tests.papers.table_of_sensitivities import GAP, load, sizes, table_row
from tests.streams import gaussian


def test_a_row_has_our_bounds_beside_the_papers(tmp_path: Path) -> None:
    """Ours is below the lemma's, its optimum is certified, and the theory asks for more draws than there are points."""
    row = table_row("pathological", load("pathological", sets_without_files(tmp_path)))
    assert 0 < row["t_ours"] < row["t_lemma"]
    assert row["optimum_gap"] <= GAP
    assert row["draws"] > row["n"] == 1_000
    assert row["paper_t"] == 77.6


@pytest.mark.long
def test_everything_is_measured_and_what_is_kept_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each set, method and size, and for each solver; the second run prints the figures of the first."""
    points = gaussian(600, dimension=4)
    for name in ("htru2", "ijcnn1"):
        np.savez(tmp_path / f"{name}.npz", X=points.X, y=points.y)
    options = ["--data", str(tmp_path), "--rounds", "1", "--rows", "100", "--out", str(tmp_path / "out")]
    main(options)
    printed = capsys.readouterr().out
    assert "475.8" in printed
    for said in (
        "htru2/offline",
        "htru2/stream",
        "alg2",
        "reservoir",
        "ijcnn1 rbf C=20",
        "svc",
        "stda-paper",
        "svmlight",
    ):
        assert said in printed
    main(options)
    assert capsys.readouterr().out == printed


def test_sizes_run_from_the_logarithm_to_four_fifths() -> None:
    """15 of them on a large set, each once, in order."""
    made = sizes(17_898, 15)
    assert (made[0], made[-1], len(made)) == (10, 2525, 15)
    assert made == sorted(set(made))
