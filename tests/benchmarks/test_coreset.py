"""The benchmark of summaries goes on where it stopped, counts all memory and certifies its optima."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsvm.config import CoresetConfig, SvmConfig
from tests.benchmarks import coreset
from tests.benchmarks.optimum import Model, fit, objective
from tests.benchmarks.summaries import ONLINE, Method, learned, offline, reservoir, uniform
from tests.streams import gaussian


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    points = gaussian(600)
    np.savez(tmp_path / "small.npz", X=points.X, y=points.y)
    return tmp_path


def rows(directory: Path, *options: str) -> list[dict[str, Any]]:
    """Run the command on the small set; return its rows."""
    return coreset.main(["--data", str(directory), "--memory", "120", "--rounds", "2", *options])


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--structure", "tree", "--order", "drifting"],
        ["--mode", "offline", "--order", "by-class"],
        ["--alpha", "1e-3", "--order", "given"],
    ],
)
def test_every_peer_has_a_row_with_every_figure(directory: Path, options: list[str]) -> None:
    """Gaps are above what is known of the optimum, accuracies are shares, memory is kept to, and SGD is one row."""
    found = rows(directory, "--peers", "reservoir,alg2,sgd", *options)
    assert [row["peer"] for row in found] == ["reservoir", "alg2", "sgd"]
    for row in found:
        assert coreset.GAP <= row["gap"] <= row["gap_max"]
        assert 0.5 < row["accuracy"] <= 1
        assert row["n"] == 480
        assert row["memory_points"] <= (480 if "offline" in options else 120)
        assert {"state_bytes", "ratio", "peer_gap", "peer_accuracy", "points_per_s", "peer_points_per_s"} <= row.keys()


@pytest.mark.long
@pytest.mark.parametrize("structure", ["tree", "chain"])
def test_partitions_share_the_memory(directory: Path, structure: str) -> None:
    """One row for each number of partitions, all of them within one budget; each structure has its name."""
    found = rows(directory, "--partitions", "1,3", "--structure", structure, "--outliers", "3", "--C", "100/n")
    assert all(20 < row["memory_points"] <= 120 for row in found)
    one, three = (str(row["case"]) for row in found)
    assert ("/3-partitions" in three) > ("partitions" in one)
    assert f"/{structure}/" in one


@pytest.mark.long
def test_kernel_rows_compare_accuracies_at_equal_memory(directory: Path) -> None:
    """Ours and a reservoir hold no more than was given."""
    (row,) = rows(directory, "--kernel", "rbf", "--gamma", "scale")
    assert row["memory_points"] <= row["peer_memory_points"] == 120
    assert 0.5 < row["accuracy"] <= 1
    assert 0.5 < row["peer_accuracy"] <= 1


def test_drifting_rows_are_sorted_along_their_widest_axis() -> None:
    """The order is that of the first principal component: no later row lies before an earlier one."""
    points = gaussian(300)
    along = coreset.first_component(coreset.ordered(points, "drifting", 0))
    assert np.all(np.diff(along) >= 0)
    assert along.var() >= (points.X.astype(np.float64) / points.X.std(axis=0)).var(axis=0).max()


def test_a_peer_that_is_not_installed_is_named(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else to compare with: the command ends with a message."""
    if all(importlib.util.find_spec(module) for module in coreset.FOREIGN.values()):
        pytest.skip("all foreign peers are installed")
    with pytest.raises(SystemExit):
        coreset.parse(["--data", str(directory), "--peers", "vw"])
    assert "vw" in capsys.readouterr().err


METHODS: dict[str, Method] = {
    "reservoir": reservoir(50),
    "uniform": uniform(50),
    "offline": offline(50, SvmConfig(C=1.0)),
    "chain": learned(CoresetConfig(reducer="calibrated", structure="chain", points=50), SvmConfig()),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_summary_stands_for_the_whole_stream(name: str) -> None:
    """Its weight is the stream's, it keeps no more than it says, and the same trial keeps the same."""
    points = gaussian(400)
    kept, again = (METHODS[name](points, 3).kept for _ in range(2))
    assert not isinstance(kept, Model)
    assert not isinstance(again, Model)
    assert len(kept) <= 50
    assert kept.weight.sum() == pytest.approx(points.weight.sum(), rel=1e-9)
    assert kept.sha256() == again.sha256()


@pytest.mark.parametrize("peer", ONLINE)
def test_an_online_peer_comes_near_the_optimum(peer: str) -> None:
    """Its best setting does, and every setting beats no model: a peer that did not learn would make any ratio large."""
    if peer in coreset.FOREIGN:
        pytest.importorskip(coreset.FOREIGN[peer])
    points = gaussian(20_000).reweighted(np.ones(20_000))
    exact, upper = points.X.astype(np.float64), np.full(20_000, 0.005)
    settings, make = ONLINE[peer]
    made = [make(setting, 0.005, np.zeros(3), np.ones(3))(points, 0).kept for setting in range(len(settings))]
    reached = [objective(exact, points.y, upper, one.w, one.b) for one in made if isinstance(one, Model)]
    assert len(reached) == len(settings)
    assert min(reached) < 1.25 * fit(exact, points.y, upper, 1e-4).objective
    assert max(reached) < objective(exact, points.y, upper, np.zeros(3), 0.0)
