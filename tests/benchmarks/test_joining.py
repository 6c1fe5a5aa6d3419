"""The benchmark of the join runs, and its contenders join the same."""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.joining import CONTENDERS, main


def test_every_contender_joins_every_row(tmp_path: Path) -> None:
    """A small stream: every label meets its row, and what is held is what the delay says."""
    file = tmp_path / "joining.json"
    main(["--rows", "20000", "--late", "2000", "--json", str(file)])
    rows = json.loads(file.read_text())
    assert [row["contender"] for row in rows] == list(CONTENDERS)
    assert {row["joined"] for row in rows} == {20_000}
    joiner = rows[0]
    assert 2_000 < joiner["rows_held"] < 2_600
    assert joiner["bytes_a_row"] > 29
