"""Files as rows: every format alike, from any part on, each row in its place; what is wrong is named."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from consumers.branches.workers.files import tables
from consumers.branches.workers.files.intake import LetterFiles
from consumers.branches.workers.files.plan import FilesPlan
from consumers.branches.workers.files.rows import RejectedRow, rows_in
from consumers.branches.workers.files.survey import found_in, opened, survey
from consumers.branches.workers.metrics import WORKER
from consumers.metrics import Metrics
from streamsvm.branches.workers.files_part import (
    FORMAT,
    FilesCut,
    FilesOfPartition,
    Layout,
    NamedFile,
    changed_file,
    decode_cut,
    with_files,
)
from streamsvm.branches.workers.key_partitions import partitions_of
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError, InvalidMessage, StateError, TransientError
from streamsvm.points import Position, Rows
from tests.branches.workers.files.tables import FEATURES, FIRST_MS, LAYOUT, partition_of, plan_of, table, write
from tests.streams import DIMENSION, gaussian

CONFIG = PointsConfig(dimension=DIMENSION)
FORMATS = ("parquet", "arrow", "csv")


def whole(plan: FilesPlan, learned: dict[int, int] | None = None, config: PointsConfig = CONFIG) -> dict[int, Rows]:
    """Return all rows of each partition."""
    found: dict[int, list[Rows]] = {}
    for stretch in rows_in(plan, config, learned or dict.fromkeys(plan.origin.rows, 0)):
        found.setdefault(stretch.rows.partition, []).append(stretch.rows)
    return {partition: Rows.union(parts) for partition, parts in sorted(found.items())}


def rejected(plan: FilesPlan, config: PointsConfig = CONFIG) -> list[RejectedRow]:
    """Return what is rejected."""
    stretches = rows_in(plan, config, dict.fromkeys(plan.origin.rows, 0))
    return [bad for stretch in stretches for bad in stretch.rejected]


def test_keys_go_where_kafka_sends_them() -> None:
    """The answers of Kafka's own test of murmur2."""
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    text = np.frombuffer(b"".join(known), np.uint8)
    borders = np.cumsum([0, *map(len, known)])
    most = (1 << 31) - 1
    assert partitions_of(text, borders, most).tolist() == [(one & most) % most for one in known.values()]
    assert partitions_of(text, borders, most, "crc32").tolist() == [zlib.crc32(one) % most for one in known]
    assert partitions_of(text[:0], np.zeros(1, np.int64), 7).tolist() == []


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_gives_the_same_rows(tmp_path: Path, ending: str) -> None:
    """The points of the stream, each in the partition of its key and in the order of the files."""
    paths = [write(tmp_path / f"{seed}.{ending}", table(1_000, seed)) for seed in range(2)]
    found = whole(plan_of(paths))
    points = [gaussian(1_000, seed) for seed in range(2)]
    for partition, rows in found.items():
        parts = [partition_of([f"user-{seed}-{k}" for k in range(1_000)], 3) == partition for seed in range(2)]
        X = np.concatenate([own.X[part] for own, part in zip(points, parts, strict=True)])
        assert np.array_equal(rows.points.X, X)
        assert rows.points.y.tolist() == [y for own, part in zip(points, parts, strict=True) for y in own.y[part]]
        weight = np.concatenate([own.weight[part] for own, part in zip(points, parts, strict=True)])
        assert np.array_equal(rows.points.weight, weight)
        times = np.concatenate([FIRST_MS + np.flatnonzero(part) for part in parts])
        assert np.array_equal(rows.time_ms, times)
        assert rows.accepted.all()
        assert rows.offset.tolist() == list(range(100, 100 + len(rows)))
        assert rows.last.all()
        assert not rows.row.any()


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("in_topic", [True, False])
def test_reading_goes_on_from_any_row(tmp_path: Path, ending: str, in_topic: bool) -> None:
    """Whatever was learned before, the rest is the same rows in the same places."""
    paths = [write(tmp_path / f"{seed}.{ending}", table(700, seed), 90) for seed in range(2)]
    plan = plan_of(paths, in_topic=in_topic)
    every = whole(plan)
    for learned in ({0: 1, 1: 200, 2: 0}, {0: plan.origin.rows[0], 1: plan.origin.rows[1] - 1}):
        rest = whole(plan, learned)
        assert rest.keys() == {p for p, done in learned.items() if done < plan.origin.rows[p]}
        for partition, rows in rest.items():
            expected = every[partition].slice(learned[partition], len(every[partition]))
            for name in ("offset", "row", "last", "time_ms", "accepted"):
                assert np.array_equal(getattr(rows, name), getattr(expected, name)), name
            assert rows.points.sha256() == expected.points.sha256()


def test_rows_before_the_topic_have_the_places_of_one_record(tmp_path: Path) -> None:
    """The last one ends it, and the next row to learn is the topic's first."""
    plan = plan_of([write(tmp_path / "a.parquet", table(500))], in_topic=False)
    for partition, rows in whole(plan).items():
        assert plan.origin.base[partition] == Position(99)
        assert set(rows.offset) == {99}
        assert rows.row.tolist() == list(range(len(rows)))
        assert rows.last.tolist() == [False] * (len(rows) - 1) + [True]
        assert rows.position_after(len(rows) - 1) == Position(100)
        assert plan.origin.row_at(partition, Position(99, 7)) == 7
        assert plan.origin.row_at(partition, Position(100)) == len(rows)


def test_a_folder_is_partitioned_by_a_column(tmp_path: Path) -> None:
    """The names of its folders are a column; hidden files and marks of other programs are passed over."""
    for day in (0, 1):
        write(tmp_path / "all" / f"p={day}" / "a.parquet", table(50, day))
    write(tmp_path / "all" / "_temporary" / "b.parquet", table(50))
    (tmp_path / "all" / "_SUCCESS").touch()
    layout = Layout.of(label="y", features=FEATURES, partition="p")
    plan = plan_of([tmp_path / "all"], layout, 2)
    assert [file.name for file in plan.origin.files] == ["p=0/a.parquet", "p=1/a.parquet"]
    assert plan.origin.rows == {0: 50, 1: 50}
    assert np.array_equal(whole(plan)[1].points.X, gaussian(50, 1).X)


def test_an_empty_partition_begins_where_the_stream_goes_on(tmp_path: Path) -> None:
    """And an empty file has no rows."""
    layout = Layout.of(label="y", features=FEATURES, partition="p")
    paths = [
        write(tmp_path / "a.parquet", table(20, p=[2] * 20)),
        write(tmp_path / "b.parquet", table(0, p=pa.array([], pa.int64()))),
    ]
    plan = plan_of(paths, layout, in_topic=False)
    assert plan.origin.rows == {0: 0, 1: 0, 2: 20}
    assert plan.origin.base == {0: Position(100), 1: Position(100), 2: Position(99)}
    assert whole(plan).keys() == {2}
    assert with_files(plan.origin, {0: (100, 120), 2: (110, 130)}) == {0: (100, 120), 2: (99, 130)}


@pytest.mark.parametrize("ending", FORMATS)
def test_bad_rows_are_named(tmp_path: Path, ending: str) -> None:
    """By file, row, column and reason; they keep their places."""
    f1, y, w = [float(k) for k in range(10)], [1] * 10, [1.0] * 10
    points = table(10, f1=[None, *f1[1:]], y=[*y[:3], 7, *y[4:]], w=[*w[:5], -1.0, *w[6:]], user=["k"] * 10)
    plan = plan_of([write(tmp_path / f"a.{ending}", points, 4)])
    found = {(bad.file, bad.row, bad.column, bad.reason) for bad in rejected(plan)}
    file = f"a.{ending}"
    assert {(bad[1], bad[2]) for bad in found} == {(1, "f1"), (4, "y"), (6, "w")}
    assert {bad[0] for bad in found} == {file}
    assert {bad[3] for bad in found} >= {"unknown_label", "invalid_weight"}
    (rows,) = whole(plan).values()
    assert np.flatnonzero(~rows.accepted).tolist() == [0, 3, 5]


def test_a_cell_of_a_csv_that_is_no_number_rejects_its_row(tmp_path: Path) -> None:
    """The rest of the file is read."""
    path = tmp_path / "a.csv"
    path.write_text("f0,f1,f2,y,user\n1,2,3,1,a\n1,two,3,-1,a\n1,2,3,yes,a\n1,nan,3,1,a\n4,5,6,-1,a\n")
    plan = plan_of([path], Layout.of(label="y", features=FEATURES, key="user"))
    assert [(bad.row, bad.column) for bad in rejected(plan)] == [(2, "f1"), (3, "y"), (4, "f1")]
    (rows,) = whole(plan).values()
    assert rows.accepted.tolist() == [True, False, False, False, True]


def test_vectors_and_other_types_are_read(tmp_path: Path) -> None:
    """A column of vectors, labels in words, dictionaries, times as timestamps."""
    X = gaussian(30).X.astype(np.float64)
    at = pa.array(FIRST_MS + np.arange(30), pa.timestamp("ms")).cast(pa.timestamp("us"))
    label = pa.array(["no", "yes"] * 15).dictionary_encode()
    points = pa.table({"x": X.tolist(), "label": label, "id": range(30), "at": at})
    plan = plan_of(
        [write(tmp_path / "a.arrow", points)], Layout.of(label="label", features=("x",), key="id", time="at")
    )
    found = whole(plan, config=PointsConfig(dimension=DIMENSION, labels=("no", "yes")))
    partition = partition_of([str(k) for k in range(30)], 3)
    for own, rows in found.items():
        assert np.array_equal(rows.points.X, X[partition == own])
        assert rows.points.y.tolist() == [1 if k % 2 else -1 for k in np.flatnonzero(partition == own)]
        assert rows.time_ms.tolist() == (FIRST_MS + np.flatnonzero(partition == own)).tolist()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"user": ["a", None, "b"]}, r"a.parquet: row 2, column user: it is empty"),
        ({"y": [{"a": 1}] * 3}, "column y is of type struct<a: int64>, which cannot be the label"),
        ({"f1": ["1", "2", "3"]}, "column f1 is of type string, which cannot be a feature"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    """Before anything is learned."""
    with pytest.raises(ConfigurationError, match=said):
        plan_of([write(tmp_path / "a.parquet", table(3, **changed))])


def test_a_schema_that_changes_is_refused(tmp_path: Path) -> None:
    """By the file's name, the column and both types."""
    write(tmp_path / "a.parquet", table(5))
    write(tmp_path / "b.parquet", table(5, f1=[1, 2, 3, 4, 5]))
    with pytest.raises(ConfigurationError, match=r"changes at b.parquet: the column f1 is int64 there, and double"):
        plan_of([tmp_path])
    write(tmp_path / "b.parquet", table(5).drop_columns(["w"]))
    with pytest.raises(ConfigurationError, match=r"b.parquet has no column w"):
        plan_of([tmp_path])


def test_a_csv_whose_lines_change_is_refused(tmp_path: Path) -> None:
    """Nobody knows which cell is which."""
    path = tmp_path / "a.csv"
    path.write_text("f0,f1,f2,y,user\n1,2,3,1,a\n1,2,3,4,1,a\n")
    with pytest.raises(ConfigurationError, match=r"a.csv cannot be read: .*Expected 5 columns, got 6"):
        plan_of([path], Layout.of(label="y", features=FEATURES, key="user"))


@pytest.mark.parametrize("number", [-1, 3])
def test_a_partition_that_is_none_is_refused(tmp_path: Path, number: int) -> None:
    """By file and row."""
    layout = Layout.of(label="y", features=FEATURES, partition="p")
    with pytest.raises(ConfigurationError, match=f"row 2, column p: it is {number}, but the topic has 3 partitions"):
        plan_of([write(tmp_path / "a.parquet", table(2, p=[0, number]))], layout)


@pytest.mark.parametrize(("kind", "number"), [(".csv", "9" * 20), (".parquet", 1 << 63)])
def test_a_partition_beyond_all_numbers_is_refused(tmp_path: Path, kind: str, number: object) -> None:
    """With its row, as one that the topic does not have."""
    numbers = pa.array([0, number], pa.uint64()) if kind == ".parquet" else ["0", number]
    path = write(tmp_path / f"p{kind}", table(2, part=numbers))
    layout = msgspec.structs.replace(LAYOUT, key="", partition="part")
    with pytest.raises(ConfigurationError, match="row 2, column part"):
        survey(found_in([path]), layout, 3)


def test_an_empty_key_has_no_partition_under_crc32(tmp_path: Path) -> None:
    """librdkafka draws lots for it; Java hashes it."""
    path = write(tmp_path / "k.parquet", table(2, user=["a", ""]))
    assert survey(found_in([path]), LAYOUT, 3).rows
    with pytest.raises(ConfigurationError, match="row 2, column user: it has no bytes"):
        survey(found_in([path]), msgspec.structs.replace(LAYOUT, partitioner="crc32"), 3)


def test_offsets_past_the_end_of_a_buffer_are_refused(tmp_path: Path) -> None:
    """An Arrow file may say anything of its buffers: it is refused before one is followed."""
    keys = pa.array(["aa", "bb", "cc"], pa.large_string())
    path = write(tmp_path / "k.arrow", table(3, user=keys))
    sound, damaged = (np.array([0, one, 4, 6], np.int64).tobytes() for one in (2, 1 << 40))
    content = path.read_bytes()
    assert content.count(sound) == 1
    path.write_bytes(content.replace(sound, damaged))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        survey(found_in([path]), LAYOUT, 3)


def test_wide_rows_are_read_in_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by cells; the rows are the same."""
    path = write(tmp_path / "w.parquet", table(300))
    expected = whole(plan_of([path]))
    monkeypatch.setattr(tables, "BATCH_CELLS", 10 * DIMENSION)
    found = whole(plan_of([path]))
    assert all(np.array_equal(found[partition].points.X, rows.points.X) for partition, rows in expected.items())
    most = max(len(batch) for batch in opened(found_in([path])[0]).tables(0, FEATURES))
    assert most == 10


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A pipe cannot be read twice."""
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(ConfigurationError, match="cannot be read twice"):
        found_in([tmp_path / "pipe.csv"])


def test_a_name_that_no_version_can_say_is_refused(tmp_path: Path) -> None:
    """A name may be any bytes; one that is not UTF-8 cannot stand in a record."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))
    path.write_text("a\n1\n")
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        found_in([tmp_path])


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    """Folders without any, unknown endings, and names that are the same."""
    with pytest.raises(ConfigurationError, match="no points were found in"):
        found_in([tmp_path])
    (tmp_path / "a.txt").touch()
    with pytest.raises(ConfigurationError, match=r"a.txt is of an unknown format"):
        found_in([tmp_path / "a.txt"])
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ConfigurationError, match=r"a.parquet cannot be read"):
        plan_of([tmp_path / "a.parquet"])
    for folder in ("one", "two"):
        write(tmp_path / folder / "a.csv", table(1))
    with pytest.raises(ConfigurationError, match=r"two of the files would be called a.csv"):
        found_in([tmp_path / "one" / "a.csv", tmp_path / "two" / "a.csv"])


def test_a_file_that_is_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    """Also where it is as long as before: rows that were read are not learned further."""
    path = write(tmp_path / "a.parquet", table(300), 100)
    plan = plan_of([path])
    path.write_bytes(path.read_bytes())
    with pytest.raises(StateError, match=r"a.parquet was changed while it was read"):
        whole(plan)
    path.unlink()
    with pytest.raises(StateError, match="cannot be read any more"):
        whole(plan)


def test_a_changed_file_is_named_with_both_digests() -> None:
    """So is one that is missing, or new."""
    before = (NamedFile("a", "1" * 64, 5), NamedFile("b", "2" * 64, 5))
    assert changed_file(before, before) == ""
    assert changed_file(before, (before[0], NamedFile("b", "3" * 64, 5))) == (
        f"b has the SHA-256 {'3' * 64} now, and had {'2' * 64}"
    )
    assert changed_file(before, before[:1]) == f"b (SHA-256 {'2' * 64}) is not among these"
    assert changed_file(before[:1], before) == f"b (SHA-256 {'2' * 64}) was not among them"
    assert changed_file(before, before[::-1]) == "they are in another order"


def cut_of(plan: FilesPlan) -> FilesCut:
    """Return the record of a cut."""
    origin = {name: getattr(plan.origin, name) for name in plan.origin.__struct_fields__}
    return FilesCut(format=FORMAT, name="m", topic="t", topic_id="i", **origin)


def test_a_damaged_record_of_files_is_refused(tmp_path: Path) -> None:
    """Whoever may write to the topic may write any bytes."""
    cut = cut_of(plan_of([write(tmp_path / "a.parquet", table(40))]))
    assert decode_cut(cut.encode(), "m") == cut
    assert decode_cut(None, "m") is None
    plain = msgspec.json.decode(cut.encode())
    for changed in (
        {"format": 2},
        {"name": "other"},
        {"files": []},
        {"files": [["a", "ab", 40]]},
        {"partitions": []},
        {"partitions": [msgspec.to_builtins(FilesOfPartition(0, 40, 3))]},
        {"surprise": 1},
    ):
        with pytest.raises(InvalidMessage):
            decode_cut(msgspec.json.encode(plain | changed), "m")
    with pytest.raises(InvalidMessage):
        decode_cut(cut.encode()[:-1], "m")


def test_letters_are_lines_of_json(tmp_path: Path) -> None:
    """One file for each partition; each line says where the row stands."""
    letters = LetterFiles(tmp_path / "letters", Metrics(WORKER))
    bad = RejectedRow(partition=1, file="a.csv", row=7, column="f1", reason="wrong_type", message="x[1] is null")
    letters.write((bad, bad))
    letters.flush()
    letters.close()
    lines = (tmp_path / "letters" / "partition-00001.jsonl").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=dict[str, Any])["row"] for line in lines] == [7, 7]


def test_a_letter_that_the_disk_takes_half_of_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backfill stops before a manifest passes it."""
    letters = LetterFiles(tmp_path / "letters", Metrics(WORKER))
    bad = RejectedRow(partition=1, file="a.csv", row=7, column="f1", reason="wrong_type", message="x[1] is null")
    writes = os.write
    monkeypatch.setattr(os, "write", lambda file, line: writes(file, line[: len(line) // 2]))
    with pytest.raises(TransientError, match="No space left"):
        letters.write((bad,))
    letters.close()


def test_the_survey_counts_what_is_read(tmp_path: Path) -> None:
    """Bytes that are done, and rows of each part."""
    files = found_in([write(tmp_path / "a.parquet", table(250), 100)])
    done: list[int] = []
    found = survey(files, LAYOUT, 3, done.append)
    assert done == [files[0].size]
    assert [sum(part.rows) for part in found.parts] == [100, 100, 50]
    assert [part.first_row for part in found.parts] == [0, 100, 200]
    assert found.named[0].rows == sum(found.rows) == 250
