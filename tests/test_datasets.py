"""The data set that ships with the package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from streamsvm.datasets import DATASETS, HTRU2_FEATURES, dataset_source, load_htru2, write_csv
from streamsvm.errors import ConfigurationError
from streamsvm.ingest import PointSource, open_source

PROJECT = Path(__file__).parents[1]


def read(source: PointSource) -> tuple[np.ndarray, list[object]]:
    batches = list(source.batches())
    return np.concatenate([batch.X for batch in batches]), [label for batch in batches for label in batch.y or ()]


def test_htru2_is_the_published_set() -> None:
    """The counts are those that its source states, the values are raw and finite; it can be replayed like a file."""
    X, y, names = load_htru2()
    assert (X.shape, X.dtype, y.dtype) == ((17_898, 8), np.float32, np.int8)
    assert [each.tolist() for each in np.unique(y, return_counts=True)] == [[-1, 1], [16_259, 1_639]]
    assert X[0, :2].tolist() == [140.5625, np.float32(55.68378214)]
    assert np.isfinite(X).all()
    source = dataset_source("htru2")
    found, labels = read(source)
    assert source.feature_names == HTRU2_FEATURES == names
    assert len(names) == len(set(names)) == 8
    assert source.rows == len(y)
    assert np.array_equal(found, X)
    assert labels == y.tolist()


@pytest.mark.parametrize("name", DATASETS)
def test_the_csv_holds_the_same_points(tmp_path: Path, name: str) -> None:
    """Read back, the file gives the same bits, labels and names as the data set itself."""
    write_csv(tmp_path / "a.csv", name)
    source, expected = open_source(tmp_path / "a.csv"), dataset_source(name)
    found, labels = read(source)
    given, expected_labels = read(expected)
    assert found.tobytes() == given.tobytes()
    assert labels == expected_labels
    assert source.feature_names == expected.feature_names


def test_what_cannot_be_had_is_told_in_one_line(tmp_path: Path) -> None:
    """An unknown set, with the names there are; a folder that does not exist is the person's to mend."""
    with pytest.raises(ConfigurationError, match=r"unknown data set iris\. Available data sets: htru2"):
        dataset_source("iris")
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
        write_csv(tmp_path / "none" / "a.csv")


def test_the_wheel_carries_the_data_and_it_is_small(tmp_path: Path) -> None:
    """Whoever installs the package has the demonstration's data, below a megabyte."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.getinfo("streamsvm/datasets/htru2.npz").file_size < 1_000_000


def test_some_rows_can_be_written_in_words(tmp_path: Path) -> None:
    """So many rows of the survey in another order, its labels in words: the same points."""
    write_csv(tmp_path / "a.csv", rows=100, words=("noise", "pulsar"), shuffle_seed=3)
    found = list(open_source(tmp_path / "a.csv").batches())
    X, y, _ = load_htru2()
    known = {x.tobytes(): label for x, label in zip(X.astype(np.float64), y, strict=True)}
    rows = [(x, label) for batch in found for x, label in zip(batch.X, batch.y or (), strict=True)]
    assert len(rows) == 100
    assert {label for _, label in rows} == {"noise", "pulsar"}
    assert all(known[x.tobytes()] == (1 if label == "pulsar" else -1) for x, label in rows)
