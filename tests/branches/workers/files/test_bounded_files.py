"""Files that are small and would take much memory: refused before it is taken, or read in small pieces."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from consumers.branches.workers.files import bounds, parquet_pages, tables
from consumers.branches.workers.files.arrow_blocks import ArrowBlocks
from consumers.branches.workers.files.survey import found_in, opened, survey
from consumers.branches.workers.files.tables import TableFile
from streamsvm.branches.workers.files_part import Layout
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from tests.branches.workers.files.tables import FEATURES, plan_of, table, write
from tests.branches.workers.files.test_files import rejected, whole
from tests.streams import DIMENSION

ROOT = Path(__file__).parents[4]
PLAIN = Layout.of(label="y", features=FEATURES, key="user")
CODECS = ("lz4", "zstd")


def feather(path: Path, points: pa.Table, codec: str | None, rows: int = 300) -> Path:
    """Write a Feather file, each of whose record batches has so many rows."""
    pa.feather.write_feather(points, str(path), compression=codec or "uncompressed", chunksize=rows)
    return path


def rows_within(path: Path, memory: int) -> str:
    """Read a file in a process that may take so much more memory than it begins with; return its rows, or why not."""
    source = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from consumers.branches.workers.files.survey import found_in, survey\n"
        "from streamsvm.errors import ConfigurationError\n"
        "from tests.branches.workers.files.tables import LAYOUT\n"
        "from tests.branches.workers.files.test_bounded_files import PLAIN, read_all\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10\n"
        "before = peak()\n"
        "try: print(read_all(Path(sys.argv[1])))\n"
        "except ConfigurationError as error: print(error)\n"
        f"assert peak() - before < {memory}, peak() - before\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", source, str(path)], capture_output=True, text=True, cwd=ROOT, check=False, timeout=300
    )
    assert not run.returncode, run.stderr[-2_000:]
    return run.stdout.strip()


def read_all(path: Path) -> int:
    """Survey a file of one partition, and read its parts; return its rows."""
    (file,) = found_in([path])
    rows = sum(survey([file], PLAIN, 1).rows)
    own = opened(file)
    assert sum(len(batch) for part in range(own.parts) for batch in own.tables(part, PLAIN.columns)) == rows
    return rows


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_file_gives_the_same_rows(tmp_path: Path, codec: str) -> None:
    """Also where a buffer among compressed ones is not, because it would have grown."""
    points = table(1_000, user=pa.array([f"u{k % 7}" for k in range(1_000)]).dictionary_encode())
    plain = whole(plan_of([feather(tmp_path / "a.feather", points, None)]))
    packed = whole(plan_of([feather(tmp_path / "b.feather", points, codec)]))
    assert packed.keys() == plain.keys()
    assert all(rows.points.sha256() == plain[partition].points.sha256() for partition, rows in packed.items())


@pytest.mark.parametrize("ending", [".feather", ".parquet"])
def test_a_small_file_that_would_take_much_memory_is_refused(tmp_path: Path, ending: str) -> None:
    """Of zeros a gigabyte is kilobytes; the survey says so before it has the memory."""
    rows, path = 30_000_000, tmp_path / f"bomb{ending}"
    zeros, numbers = np.zeros(rows), np.zeros(rows, np.int64)
    points = pa.table(dict.fromkeys(FEATURES, zeros) | {"y": numbers, "user": numbers})
    if ending == ".feather":
        feather(path, points, "zstd", rows)
    else:
        whole_column = dict.fromkeys(("row_group_size", "write_batch_size", "max_rows_per_page"), rows)
        pa.parquet.write_table(
            points, path, compression="zstd", use_dictionary=False, data_page_size=1 << 31, **whole_column
        )
    assert path.stat().st_size < 1 << 18
    said = rows_within(path, 256 << 20)
    assert "would take 1,200,0" in said, said


def test_text_of_a_dictionary_is_read_in_small_pieces(tmp_path: Path) -> None:
    """A word of half a megabyte on each of 2,000 rows is a gigabyte of text in a file of kilobytes."""
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000, np.int8)), pa.array(["u" * (1 << 19)]))
    points = table(2_000, user=words)
    feather(tmp_path / "a.feather", points, "zstd", 2_000)
    pa.parquet.write_table(points, tmp_path / "a.parquet", compression="zstd", store_schema=False)
    assert pa.parquet.read_schema(tmp_path / "a.parquet").field("user").type == pa.string()
    for name in ("a.feather", "a.parquet"):
        assert (tmp_path / name).stat().st_size < 1 << 19
        assert rows_within(tmp_path / name, 512 << 20) == "2000"
        most = max(len(batch) for batch in opened(found_in([tmp_path / name])[0]).tables(0, ["user"]))
        assert most <= tables.BATCH_TEXT_BYTES >> 19


def test_text_by_its_differences_is_read_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte of a page may be as long a text as the one before it."""
    words = ["u" * (1 << 16)] * 2_000
    path = tmp_path / "a.parquet"
    encoding = dict.fromkeys((*FEATURES, "y"), "PLAIN") | {"user": "DELTA_BYTE_ARRAY"}
    pa.parquet.write_table(
        table(2_000, user=words).select([*FEATURES, "y", "user"]),
        path,
        compression="zstd",
        use_dictionary=False,
        column_encoding=encoding,
    )
    monkeypatch.setattr(parquet_pages, "PART_BYTES", 1 << 25)
    found = list(opened(found_in([path])[0]).tables(0, ["user"]))
    assert sum(map(len, found)) == 2_000
    assert 1 < max(map(len, found)) <= 1 << 9
    assert found[-1].column(0)[-1].as_py() == words[-1]


def test_vectors_longer_than_all_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row may announce millions of equal numbers in a few bytes."""
    values = pa.array(np.zeros(3_000_000, np.float32))
    x = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"x": x, "y": [1]}), path, compression="zstd")
    assert path.stat().st_size < 1 << 12
    monkeypatch.setattr(bounds, "PART_BYTES", 1 << 24)
    with pytest.raises(ConfigurationError, match=r"row group 0 has .* would take 24,"):
        TableFile(path, {}).require_bounded(0, ["x", "y"])


def test_what_a_file_says_of_its_places_is_checked(tmp_path: Path) -> None:
    """Each 8 bytes of an Arrow file's footer and of a batch's header as a huge, or a negative, number: no crash."""
    path = feather(tmp_path / "a.feather", table(5, user=list("abcde")), "lz4")
    content, expected = path.read_bytes(), read_all(path)
    footer = len(content) - 10 - struct.unpack("<i", content[-10:-6])[0]
    refused = 0
    for at in range(0, len(content) - 16, 8):
        for number in (1 << 40, -2, (1 << 62) + 5):
            path.write_bytes(content[:at] + struct.pack("<q", number) + content[at + 8 :])
            try:
                assert read_all(path) <= expected
            except ConfigurationError:
                refused += 1
            except UnicodeDecodeError:
                assert at >= 8
    assert refused > (len(content) - footer) // 16


def test_a_page_that_is_not_what_it_says_is_refused(tmp_path: Path) -> None:
    """Bytes of a Parquet file changed, one at a time: rows, or a refusal."""
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(table(50, user=["k"] * 50), path, compression="snappy")
    content, refused = path.read_bytes(), 0
    for at in range(4, len(content), 13):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x7F]) + content[at + 1 :])
        try:
            read_all(path)
        except ConfigurationError:
            refused += 1
    assert refused > 20


def test_a_line_or_a_header_of_a_csv_that_has_no_end_is_refused(tmp_path: Path) -> None:
    """Before its columns are made."""
    path = tmp_path / "a.csv"
    path.write_text("f0,f1,f2,y,user\n" + "1" * (2 * tables.CSV_BLOCK_BYTES + 1) + ",2,3,1,a\n")
    with pytest.raises(ConfigurationError, match="a line has more than 4,194,304 bytes"):
        read_all(path)
    path.write_text("f0" * tables.CSV_BLOCK_BYTES)
    with pytest.raises(ConfigurationError, match="the header has 4,194,304 bytes and 1 columns"):
        TableFile(path, {})
    path.write_text("," * tables.CSV_COLUMNS + "\n")
    with pytest.raises(ConfigurationError, match="and 20,001 columns"):
        TableFile(path, {})


def test_a_long_label_rejects_its_row_alone(tmp_path: Path) -> None:
    """Also where a record would have no room for it."""
    config = PointsConfig(dimension=DIMENSION, labels=("no", "yes"))
    text = ["yes", "x" * 2_000_000, "no", "yesno"]
    layout = Layout.of(label="y", features=FEATURES, partition="p")
    for ending in ("parquet", "arrow", "csv"):
        path = write(tmp_path / f"a.{ending}", table(4, y=text, p=[0] * 4))
        plan = plan_of([path], layout, 1)
        assert [(bad.row, bad.column, bad.reason) for bad in rejected(plan, config)] == [
            (2, "y", "unknown_label"),
            (4, "y", "unknown_label"),
        ]
        assert whole(plan, config=config)[0].accepted.tolist() == [True, False, True, False]


def test_a_label_that_is_not_utf_8_rejects_its_row_alone(tmp_path: Path) -> None:
    """Parquet's reader does not look at it."""
    config = PointsConfig(dimension=DIMENSION, labels=("no", "yes"))
    y = pa.array([b"yes", b"\xff", b"no"], pa.binary()).view(pa.string())
    path = write(tmp_path / "a.parquet", table(3, y=y, p=[0] * 3))
    plan = plan_of([path], Layout.of(label="y", features=FEATURES, partition="p"), 1)
    assert [(bad.row, bad.column) for bad in rejected(plan, config)] == [(2, "y")]
    assert whole(plan, config=config)[0].accepted.tolist() == [True, False, True]


def test_a_larger_file_may_take_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In proportion to its bytes: numbers that differ are no bomb."""
    monkeypatch.setattr(bounds, "PART_BYTES", 1)
    for name in ("a.feather", "a.parquet"):
        path = tmp_path / name
        random = {feature: np.random.default_rng(0).normal(size=1_000) for feature in FEATURES}
        points = table(1_000, user=list(map(str, range(1_000))), **random).select([*FEATURES, "y", "user"])
        feather(path, points, "zstd", 1_000) if name == "a.feather" else pa.parquet.write_table(points, path)
        assert read_all(path) == 1_000
    assert len(ArrowBlocks(tmp_path / "a.feather")) == 1
