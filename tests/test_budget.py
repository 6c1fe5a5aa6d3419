"""The budget is exceeded by what it is there to notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsvm.ingest.columns import Run, stretches
from streamsvm.ingest.decoder import PointDecoder
from streamsvm.ingest.row_builder import RowsBuilder
from streamsvm.learning.partition import Partition
from tests import budget, counted_work
from tests.budget import HERE, LIMITS, OWN, Counted, too_much
from tests.counted_work import Counts

PLANTED_LINES = 600
ROUND = 500
"""Limits of lines are rounded up to it: whoever makes the trunk smaller by more lowers them, too."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the product."""
    for package in (*OWN, "deploy"):
        shutil.copytree(
            HERE / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "node_modules", "target")
        )
    return tmp_path


def test_the_limits_of_lines_are_near() -> None:
    """The trunk keeps its limits, and each is near enough that a module more is noticed."""
    counted = budget.lines(HERE)
    assert too_much(counted) == []
    wanted = {one.name: -(-one.count // ROUND) * ROUND for one in counted}
    far = [name for name in wanted if LIMITS[name] > wanted[name]]
    assert not far, f"lower the limits to {wanted}"


def test_a_module_more_in_the_trunk_is_too_much(copy: Path) -> None:
    """Planted: a feature of 600 lines in the trunk; in a branch's folder it is none."""
    planted = "x = 1\n" * PLANTED_LINES
    (copy / "streamsvm/learning/planted.py").write_text(planted)
    found = too_much(budget.lines(copy))
    assert [line.partition(":")[0] for line in found] == [one.name for one in budget.lines(copy)]
    (copy / "streamsvm/learning/planted.py").unlink()
    folder = copy / "streamsvm/branches/planted"
    folder.mkdir(parents=True)
    (folder / "planted.py").write_text(planted)
    assert too_much(budget.lines(copy)) == []


def test_an_import_too_much_by_a_reader_is_named(copy: Path) -> None:
    """Planted: a reader's module that imports scikit-learn. As it is, a reader loads none of what is heavy."""
    counted, heavy = budget.reader(copy)
    assert too_much(counted) == heavy == []
    module = copy / "streamsvm/registry/subscriber.py"
    module.write_text(module.read_text().replace("import threading\n", "import threading\n\nimport sklearn.svm\n", 1))
    _, heavy = budget.reader(copy)
    assert heavy[0] == "a reader loads sklearn: import it where it is used"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.budget", "--tree", str(copy), "--without-trainer"],
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "OVER BUDGET: a reader loads sklearn" in ran.stderr


def test_help_shows_and_loads_what_it_may() -> None:
    """Options of `train`, and modules of the list of commands."""
    assert too_much(budget.asked_for_help(HERE)) == []


def test_a_count_beyond_its_limit_is_a_line() -> None:
    """It says what, how much and by how much."""
    name = "threads of a plain trainer"
    assert too_much([Counted(name, LIMITS[name])]) == []
    assert too_much([Counted(name, 7)], {name: 5}) == [f"{name}: 7, 2 more than the limit of 5"]


def test_a_pass_more_of_a_seal_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a product over the points of each leaf that is sealed; it is no call, since it is an operator."""
    assert beyond(counted_work.seals(1)) == []
    own = Partition._seal

    def planted(self: Partition) -> None:
        self.leaf.points.X @ np.ones(counted_work.DIMENSION, np.float32)
        own(self)

    monkeypatch.setattr(Partition, "_seal", planted)
    found = counted_work.seals(1)
    assert "passes over rows of a seal, 1 partition" in beyond(found)
    assert not [name for name in beyond(found) if "without a seal" in name]


def test_a_pass_more_of_each_batch_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a product over the rows of each call of `learn`, whether it seals a leaf or not."""
    own = Partition.add

    def planted(self: Partition, rows: Any) -> int:
        rows.points.X * 2.0
        return own(self, rows)

    monkeypatch.setattr(Partition, "add", planted)
    assert "passes over rows of a batch without a seal, 1 partition" in beyond(counted_work.seals(1))


def test_work_for_each_partition_of_a_poll_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: each partition's records are decoded by themselves."""
    several = counted_work.PARTITIONS
    assert beyond(counted_work.polls(1)) == beyond(counted_work.polls(several)) == []
    own = PointDecoder._decode_all

    def planted(self: PointDecoder, run: Run, builder: RowsBuilder) -> None:
        for _, start, stop in stretches(run.partition):
            own(self, run.slice(start, stop), builder)

    monkeypatch.setattr(PointDecoder, "_decode_all", planted)
    assert f"calls of a poll, {several} partitions" in beyond(counted_work.polls(several))


def test_work_for_each_record_of_a_poll_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a call for each record, and a copy of all values; what is called is named."""
    own = PointDecoder._decode_all

    def planted(self: PointDecoder, run: Run, builder: RowsBuilder) -> None:
        assert all(bytearray(value or b"").isascii() for value in run.values)
        kept = [bytes(bytearray(value or b"")) for value in run.values]
        own(self, run, builder)
        assert len(kept) == len(run)

    monkeypatch.setattr(PointDecoder, "_decode_all", planted)
    found = counted_work.polls(1)
    assert set(beyond(found)) >= {"calls of a poll, 1 partition", "kilobytes of a poll, 1 partition"}
    assert any(name.endswith("bytearray.isascii") for name in found["calls of a poll, 1 partition"][1])


def beyond(found: Counts) -> list[str]:
    """Return the names of counts beyond their limits."""
    return [line.split(": ")[0] for line in too_much([Counted(name, count) for name, (count, _) in found.items()])]
