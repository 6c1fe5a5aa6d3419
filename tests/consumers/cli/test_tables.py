"""Tables whose columns are no features as they stand, by the commands: each is proposed as what it is, or named."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.consumers.command import error_of, run

ROWS: Final = 120
CODES: Final = [b"DE", b"FR", b"NL"] * (ROWS // 3)
SECONDS: Final = [1_767_225_600 + 7_919 * row for row in range(ROWS)]
UNREAD: Final = "# f: cannot be read: it is "
COLUMNS: Final[dict[str, tuple[Any, str]]] = {
    "binary": (pa.array(CODES), 'f = {as = "category", values = ["DE", "FR", "NL"]}'),
    "fixed": (pa.array(CODES, pa.binary(2)), 'f = {as = "category", values = ["DE", "FR", "NL"]}'),
    "latin": (pa.array([b"\xfc", *CODES[1:]]), UNREAD + "bytes that are not text in UTF-8"),
    "time of day": (pa.array(range(ROWS), pa.time32("s")), UNREAD + "a time of day"),
    "duration": (pa.array(range(ROWS), pa.duration("ns")), UNREAD + "a duration"),
    "nanoseconds": (pa.array([one * 10**9 for one in SECONDS], pa.timestamp("ns")), 'f = {as = "time"}'),
    "year 10000": (pa.array([253_402_300_800, *SECONDS[1:]], pa.timestamp("s")), UNREAD + "not in the years 1 to 9999"),
}
"""Columns of Parquet called f, and the line that is proposed."""
INDICES: Final = ("__index_level_0__", "__index_level_1__", "Unnamed: 0")


def write(path: Path, names: Sequence[str], *columns: Any) -> Path:
    """Write columns, and behind them x and the label, as the file's ending says."""
    chance = np.random.default_rng(0)
    x, y = chance.random(ROWS), chance.integers(0, 2, ROWS)
    arrays = [*columns, pa.array(x), pa.array(y)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_arrays(arrays, [*names, "x", "y"]), path)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([[*names, "x", "y"], *zip(*(one.to_pylist() for one in arrays), strict=True)])
    return path


def proposed(path: Path, begin: str) -> str:
    """Return the line that `infer` proposes for a field; `evaluate` takes the whole."""
    done = run("features", "infer", str(path))
    assert done.returncode == 0, done.stderr
    config = path.with_name("config.toml")
    config.write_text(done.stdout)
    tried = run("evaluate", str(path), "--config", str(config), "--no-optimum")
    assert tried.returncode == 0, tried.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.removeprefix("# ").startswith(begin))
    return line


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_that_json_has_no_type_for_is_its_text_or_left_out(kind: str, tmp_path: Path) -> None:
    """With what it is, and what to write instead."""
    column, said = COLUMNS[kind]
    assert proposed(write(tmp_path / "a.parquet", ["f"], column), "f").startswith(said)


@pytest.mark.parametrize("kind", ["latin", "time of day", "duration", "year 10000"])
def test_a_feature_of_such_a_column_is_refused(kind: str, tmp_path: Path) -> None:
    """By the file, the row and the field."""
    path, config = write(tmp_path / "a.parquet", ["f"], COLUMNS[kind][0]), tmp_path / "config.toml"
    config.write_text(
        '[events]\nlabel = {field = "y", negative = [0], positive = [1]}\n[features]\nf = {as = "hash", bits = 2}\n'
    )
    done = run("evaluate", str(path), "--config", str(config), "--no-optimum")
    assert (done.returncode, "a.parquet: row 1: f cannot be read: it is" in error_of(done)) == (78, True)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("command", [["features", "infer"], ["evaluate"]], ids=["infer", "evaluate"])
def test_two_columns_of_one_name_are_refused(command: list[str], ending: str, tmp_path: Path) -> None:
    """By the file and the name: one of the two would be learned, and nobody says which."""
    path = write(tmp_path / f"a.{ending}", ["n", "n"], pa.array(range(ROWS)), pa.array(range(ROWS)))
    done = run(*command, str(path))
    assert (done.returncode, f"a.{ending} has several columns named n." in error_of(done)) == (78, True)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("is_shuffled", [False, True], ids=["in order", "shuffled"])
def test_the_index_of_a_data_frame_is_left_out(is_shuffled: bool, name: str, ending: str, tmp_path: Path) -> None:
    """It counts rows, and is no id either: it begins anew with each file."""
    places = np.random.default_rng(1).permutation(ROWS) if is_shuffled else np.arange(ROWS)
    path = write(tmp_path / f"a.{ending}", [name], pa.array(places))
    assert proposed(path, name).endswith("pandas' index, or a column without a name: name it, if it is a feature")
    assert "\nid = " not in path.with_name("config.toml").read_text()


@pytest.mark.parametrize("kind", ["binary", "time of day", "duration", "nanoseconds", "year 10000"])
def test_a_label_of_such_a_column_is_refused(kind: str, tmp_path: Path) -> None:
    """By the file, the column and its type."""
    path = write(tmp_path / "a.parquet", ["f"], COLUMNS[kind][0])
    done = run("evaluate", str(path), "--label", "f")
    assert done.returncode == 78
    type_ = pq.read_schema(path).field("f").type  # Parquet has no seconds
    assert f"a.parquet: column f holds {type_}, neither whole numbers nor text" in error_of(done)
