"""The solver's benchmark: a stopped run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.benchmarks.solver import Report

CASE: dict[str, Any] = {"case": "a rbf C=1", "n": 10, "weighted": False}
MEASURED: dict[str, Any] = {
    "peer": "svc", "ratio_interval": [1.0, 4.0], "rounds": 5, "seconds": 0.1, "gap": 1e-4, "peer_gap": None,
    "objective": -2.0, "peer_objective": -2.0, "share_of_limit": 0.5, "converged": True, "peer_converged": True,
}  # fmt: skip


def test_what_a_file_has_is_not_measured_again(tmp_path: Path) -> None:
    """Another run over the same file knows the case beside that peer, and no other case, size, weighting or peer."""
    file = tmp_path / "solver.json"
    Report(file).add([CASE | MEASURED | {"ratio": 2.0}], {"onedal": "not installed"})
    again = Report(file)
    assert again.has(CASE, "svc")
    assert not again.has(CASE, "svc-sparse")
    for other in ({"case": "a rbf C=10"}, {"n": 11}, {"weighted": True}):
        assert not again.has(CASE | other, "svc")
    again.add([CASE | MEASURED | {"n": 11, "ratio": 3.0}], {})
    written = json.loads(file.read_text())
    assert [row["ratio"] for row in written["rows"]] == [2.0, 3.0]
    assert len(file.with_suffix(".txt").read_text().splitlines()) == 2
    assert written["absent"] == {"onedal": "not installed"}
