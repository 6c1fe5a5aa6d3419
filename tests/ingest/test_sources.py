"""Points from files: what is read is what was written, in bounded memory, and a bad file is told in one line."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, strategies as st

from streamsvm.errors import ConfigurationError
from streamsvm.ingest.decoder import encode
from streamsvm.ingest.files import csv_files, reading
from streamsvm.ingest.files.array_files import from_arrays, shuffled
from streamsvm.ingest.files.opening import open_source
from streamsvm.ingest.files.source import PointSource

FINITE = st.floats(-1e100, 1e100)
"""Features as a record may have them; a larger one is refused by its row and column (`test_files`)."""
INTEGERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
CELLS = st.from_regex(r"[A-Za-z_,\";éß][A-Za-z _,\";0-9]*[A-Za-z]", fullmatch=True).filter(
    lambda cell: cell.lower() not in {"na", "nan", "null"}
)
"""Texts that a CSV can carry without types: not blank, no number, no space around them, no word for what is missing."""


def matrices(elements: st.SearchStrategy[float] = FINITE) -> st.SearchStrategy[list[list[float]]]:
    return st.integers(1, 4).flatmap(
        lambda d: st.lists(st.lists(elements, min_size=d, max_size=d), min_size=1, max_size=12)
    )


def labels_for(rows: int, kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(kinds, min_size=rows, max_size=rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def put(path: Path, content: str | bytes | dict[str, Any]) -> Path:
    """Write text, bytes, or the columns of a Parquet file."""
    if isinstance(content, dict):
        pa.parquet.write_table(pa.table(content), path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(source: PointSource) -> tuple[np.ndarray, list[Any] | None, np.ndarray | None, list[Any] | None]:
    """Read all batches, checking that they are consecutive."""
    batches = list(source.batches())
    starts = np.cumsum([0, *map(len, batches)])
    assert [batch.first_row for batch in batches] == starts[:-1].tolist()
    assert source.rows in (None, starts[-1])
    first = batches[0]
    return (
        np.concatenate([batch.X for batch in batches]),
        None if first.y is None else [label for batch in batches for label in batch.y or ()],
        None if first.weight is None else np.concatenate([batch.weight for batch in batches]),
        None if first.ids is None else [mark for batch in batches for mark in batch.ids or ()],
    )


def same(found: list[Any] | None, given: list[Any]) -> bool:
    """Compare values and their types."""
    return found is not None and [(type(v), v) for v in found] == [(type(v), v) for v in given]


def csv_text(rows: list[list[Any]], header: list[str] | None = None) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([*([header] if header else []), *rows])
    return text.getvalue()


# Round trips


KINDS = {
    "csv": (INTEGERS, CELLS),
    "points": (INTEGERS | WORDS | st.booleans(),),
    "objects": (INTEGERS | WORDS | st.booleans(),),
    "parquet": (INTEGERS, WORDS, st.booleans()),
}
"""The labels that a format can carry; one file has those of one of them."""


def file_of(kind: str, folder: Path, X: list[list[float]], y: list[Any], w: list[float], ids: list[Any]) -> Path:
    """Write points in a format; flat objects have their fields in another order in each line."""
    if kind == "csv":
        return put(folder / "a.csv", csv_text([[*x, label] for x, label in zip(X, y, strict=True)]))
    if kind == "points":
        return put(folder / "a.jsonl", b"\n".join(encode(*point) for point in zip(X, y, w, ids, strict=True)))
    if kind == "parquet":
        columns = {f"f.{i}": list(column) for i, column in enumerate(zip(*X, strict=True))}
        return put(folder / "a.parquet", {**columns, "y": y})
    rows = [{**{f"f{i}": value for i, value in enumerate(x)}, "Class": label} for x, label in zip(X, y, strict=True)]
    turned = [rows[0], *({name: row[name] for name in reversed(row)} for row in rows[1:])]
    return put(folder / "b.jsonl", b"\n".join(map(msgspec.json.encode, turned)))


@pytest.mark.parametrize("kind", KINDS)
@given(st.data(), matrices())
def test_a_file_gives_back_what_was_written(folder: Path, kind: str, data: st.DataObject, X: list[list[float]]) -> None:
    """Every float64 and every label that the format can carry comes back as it was, type included."""
    n = len(X)
    y = data.draw(st.one_of(*(labels_for(n, kinds) for kinds in KINDS[kind])))
    w = data.draw(st.lists(st.floats(1e-15, 1e15), min_size=n, max_size=n))
    ids = data.draw(labels_for(n, INTEGERS | WORDS))
    said = {"header": False, "delimiter": ","} if kind == "csv" else {}  # one row may be split at a label's semicolon
    source = open_source(file_of(kind, folder, X, y, w, ids), **said)
    found, labels, weight, marks = read(source)
    assert found.tobytes() == np.array(X).tobytes()
    assert same(labels, y)
    if kind == "points":
        assert weight is not None
        assert weight.tolist() == w
        assert same(marks, ids)
    else:
        assert (weight, marks) == (None, None)
    if kind in ("objects", "parquet"):
        assert source.feature_names == tuple(f"f{'.' * (kind == 'parquet')}{i}" for i in range(len(X[0])))
    assert source.rows == (n if kind == "parquet" else source.rows)


@given(matrices(st.floats(width=32, allow_nan=False, allow_infinity=False)), st.integers(0, 2**32))
def test_shuffling_keeps_every_point_and_depends_on_the_seed_only(X: list[list[float]], seed: int) -> None:
    """A shuffle is a permutation in which features, labels, weights and ids stay together."""
    rows = list(range(len(X)))
    source = from_arrays("here", np.array(X, np.float32), rows, weight=np.add(rows, 1.0), ids=rows)
    found, labels, weight, ids = read(shuffled(source, seed))
    assert labels is not None
    assert weight is not None
    assert sorted(labels) == rows
    assert labels == ids
    assert labels == (weight - 1).tolist()
    assert np.array_equal(found, np.array(X)[labels])
    assert read(shuffled(source, seed))[1] == labels


# Which column is what, and what is a label

NUMBERS = {"a": [1, 2], "target": [0.0, 1.0]}
HEADED = "key,a,w,b,t,unused\n007,1,2.5,3,yes,x\n,4,1,6,no,x\n"
CHOSEN = {"label_column": -2, "weight_column": "w", "id_column": "0", "columns": ["b", 1]}
READ: dict[str, tuple[str, Any, dict[str, Any], Any, Any]] = {
    **{
        f"a whole number is an integer written {text!r}": ("a.csv", f"0.5,{text}\n0.5,-1\n", {"header": False},
                                                           [[0.5], [0.5]], [1, -1])
        for text in ("1", "+1", "1.0", "1e0", " 1 ")
    },
    "classes that are floats are integers": ("a.parquet", NUMBERS, {}, [[1], [2]], [0, 1]),
    "text and categories of numbers": (
        "c.parquet", {"a": pa.array([" 1.5"]), "b": pa.array(["2"]).dictionary_encode(), "c": [True], "y": [1]}, {},
        [[1.5, 2, 1]], [1]),
    "a known name is the label": ("a.csv", "a,Class,b\n1,yes,2\n3,no,4\n", {}, [[1, 2], [3, 4]], ["yes", "no"]),
    "without one the last is": ("a.csv", "a,b,c\n1,2,3\n", {}, [[1, 2]], [3]),
    "of two known names the last is": ("a.csv", "y,b,class\n1,2,3\n", {}, [[1, 2]], [3]),
    "by name or index, in the order given": ("a.csv", HEADED, CHOSEN, [[3, 1], [6, 4]], ["yes", "no"]),
    "features only": ("a.csv", "a,y\n1,2\n", {"labeled": False}, [[1, 2]], None),
    "no header": ("a.csv", "1,2,yes\n3,4,no\n", {}, [[1, 2], [3, 4]], ["yes", "no"]),
    "no header over one row": ("a.csv", "1,2,yes\n", {}, [[1, 2]], ["yes"]),
    "a header": ("a.csv", "a,b,c\n1,2,yes\n", {}, [[1, 2]], ["yes"]),
    "a header behind a byte order mark": ("a.csv", "\ufeffa,b,label\n1,2,3\n", {}, [[1, 2]], [3]),
    "a header of numbers, by option": ("a.csv", "0,1,label\n5,6,7\n", {"header": True}, [[5, 6]], [7]),
    "an unnamed column as id": ("a.csv", ",a,y\n0,1.5,1\n1,2.5,0\n", {"id_column": 0}, [[1.5], [2.5]], [1, 0]),
    "tabs": ("a.tsv", "1\t2\t0\n", {}, [[1, 2]], [0]),
    "another delimiter": ("a.txt", "1;2;0\n", {"format": "csv", "delimiter": ";"}, [[1, 2]], [0]),
    **{
        f"{kind}{ending}": (f"a{kind}{ending}", compress(text), {}, [[1.5]], [1])
        for kind, text in ((".csv", b"a,y\n1.5,1\n"), (".jsonl", b'{"x":[1.5],"y":1}\n'))
        for ending, compress in ((".gz", gzip.compress), (".bz2", bz2.compress))
    },
}  # fmt: skip
NAMED = {"by name or index, in the order given": ("b", "a"), "a known name is the label": ("a", "b"),
         "a header": ("a", "b"), "a header behind a byte order mark": ("a", "b"), "no header": (),
         "a header of numbers, by option": ("0", "1"), "no header over one row": ()}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read_as_its_columns_say(tmp_path: Path, name: str) -> None:
    """Features and labels with their types, as often as it is read; weights and ids where columns hold them."""
    file, content, options, X, y = READ[name]
    source = open_source(put(tmp_path / file, content), **options)
    for _ in range(2):
        found, labels, weight, ids = read(source)
        assert found.tolist() == X
        assert labels is None if y is None else same(labels, y)
    assert source.labeled == (y is not None)
    assert source.feature_names == NAMED.get(name, source.feature_names)
    if options is CHOSEN:
        assert (weight.tolist(), ids) == ([2.5, 1], ["007", None])
    elif "id_column" in options:
        assert ids == ["0", "1"]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_files_are_read_in_batches(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch is larger than its bound, and the batches together are the file."""
    monkeypatch.setattr(reading, "BATCH_CELLS", 64)
    monkeypatch.setattr(csv_files, "CSV_BLOCK_BYTES", 256)
    X = np.arange(1.0, 1001).reshape(500, 2)
    path = tmp_path / f"a{ending}"
    if ending == ".parquet":
        pa.parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": [0] * 500}), path)
    else:
        form = {".csv": "{},{},0", ".jsonl": '{{"x":[{},{}],"y":0}}'}[ending]
        put(path, "\n".join(form.format(*x) for x in X.tolist()))
    source = open_source(path)
    assert max(map(len, source.batches())) <= 32
    assert np.array_equal(read(source)[0], X)


@pytest.mark.long(keep=(".csv",))  # the other format takes larger files
@pytest.mark.parametrize("kind", [".csv", ".jsonl"])
def test_reading_takes_memory_for_a_batch_and_not_for_the_file(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 20 MB is read within 5 MB, what the CSV reader reads ahead included."""
    monkeypatch.setattr(reading, "BATCH_CELLS", 1 << 13)
    monkeypatch.setattr(csv_files, "CSV_BLOCK_BYTES", 1 << 16)
    row = {".csv": "1.5," * 100 + "0\n", ".jsonl": '{"x":[' + ",".join(["1.5"] * 100) + '],"y":0}\n'}[kind]
    path = put(tmp_path / f"a{kind}", row * 50_000)
    source = open_source(path)
    pool, held = pa.default_memory_pool(), 0
    tracemalloc.start()
    try:
        for batch in source.batches():
            assert batch.X[0, 99] == 1.5
            held = max(held, pool.bytes_allocated())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 20e6
    assert peak + held < 5e6


@pytest.mark.long
def test_a_wide_row_of_a_csv_is_read(tmp_path: Path) -> None:
    """A row may be longer than the blocks that are read of a file of few columns."""
    d = 60_000
    path = put(tmp_path / "a.csv", "\n".join([",".join(["-1.2345678901234567e-300"] * d + ["1"])] * 2))
    found, labels, _, _ = read(open_source(path))
    assert found.shape == (2, d)
    assert labels == [1, 1]


# Bad files


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "", "holds no points"),
        ("a.csv", "a,b,c\n", "holds no points"),
        ("a.csv", "0,1,label\n5,6,7\n", "may be a header or a row"),
        ("a.csv", ",a,y\n0,1.5,1\n1,2.5,0\n", "has no name"),
        ("a.csv", "a,y\n1,1\n2,0.5\n", r"row 2, column (y|label): the label 0\.5 is neither"),
        ("a.jsonl", '{"a":1,"y":1}\n{"a":2,"y":0.5}\n', r"row 2, column (y|label): the label 0\.5 is neither"),
        ("a.parquet", {"a": [1.0, 2.0], "y": [1.0, 0.5]}, r"row 2, column (y|label): the label 0\.5 is neither"),
        ("a.parquet", {"a": [[1.0]], "y": [1]}, "column a holds list"),
        ("a.parquet", {"a": [1.0, None], "y": [1, 1]}, "row 2, column a: the value is missing"),
        ("a.jsonl", "\n", "holds no points"),
        ("a.svm", "1 1:1\n", "is a LIBSVM file, which is not supported"),
        ("a.libsvm.gz", "1 1:1\n", "is a LIBSVM file, which is not supported"),
        ("a.npz", "PK", "is an npz file, which is not supported"),
        ("a.xlsx", "x", "cannot be guessed from its file extension"),
        ("a.csv", "1,2,0\n1,2\n", "row 2: it has 2 cells, the first line has 3"),
        ("a.csv", "a,b,y\n1,2,0\n\n1,2,0,9\n", "row 2: it has 4 cells, the first line has 3"),
        ("a.csv", "a,b,y\n1,2,0\n1,,0\n", "row 2, column b: the value is missing"),
        ("a.csv", "a,b,y\n1,2,0\n1,two,0\n", "row 2, column b: 'two' is not a number"),
        ("a.csv", "a,b,y\n1,2,0\n1,nan,0\n", "row 2, column b: the value is missing"),
        ("a.csv", "a,b,y\n1,2,u\n1,2,NA\n", "row 2, column y: the label is missing"),
        ("a.csv", "a,b,y\n1,2,0\n1,1e999,0\n", "row 2, column b: inf is not a finite number"),
        ("a.csv", b"1,2,0\n1,\xff,0\n1,2,0\n", "cannot be read.*save it as UTF-8"),
        ("a.csv", "a,y\n1,2\n".encode("utf-16"), "cannot be read.*save it as UTF-8"),
        ("a.csv", 'a,y\n1,2\n"1,2\n', "cannot be read|cells"),
        ("a.csv.gz", "not gzip at all", "cannot be read"),
        ("a.csv.gz", gzip.compress(b"1,2,0\n" * 10_000)[:-9], "cannot be read"),
        ("a.parquet", "PAR1 is not all it takes", "cannot be read"),
        ("a.jsonl", '{"x":[1],"y":0}\n{"x":[1,2],"y":0}\n', "row 2: x has 2 entries, the first row's has 1"),
        ("a.jsonl", '{"x":[1],"y":0}\n{"x":["1"],"y":0}\n', "row 2: Expected `float`, got `str`"),
        ("a.jsonl", '{"x":[1],"y":0}\n{"x":[1]}\n', "row 2, column y: the label is missing"),
        ("a.jsonl", '{"x":[1],"y":0}\n{"x":[1],"y":0,"w":0}\n', "row 2, column w: the weight 0.0 is not in"),
        ("a.jsonl", '{"x":[1],"y":0}\n{"op":"delete","x":[1],"y":0}\n', "row 2: the row has the field op"),
        ("a.jsonl", '{"x":[],"y":0}\n', "row 1: x has no entries"),
        ("a.jsonl", '{"x":[1],"y":0}\n{"x":[1],\n', "row 2: Input data was truncated"),
        ("a.jsonl", "[1, 2]\n", "row 1: Expected `object`, got `array`"),
        (
            "a.jsonl",
            '{"a":1,"y":0}\n{"b":1,"y":0}\n',
            "row 2: the row's fields differ from those of the first row: a, b",
        ),
        ("a.jsonl", '{"a":1,"y":0}\n{"a":null,"y":0}\n', "row 2, column a: the value is missing"),
        ("a.jsonl", '{"a":1,"y":0}\n{"a":"1","y":0}\n', "row 2, column a: '1' is not a number"),
        ("a.jsonl", '{"a":1,"y":0}\n{"a":1' + "0" * 400 + ',"y":0}\n', "too large for float64"),
        ("a.jsonl", '{"a":1,"b":2}\n', "no column named y, label, class or target.*a, b"),
        ("a.jsonl", '{"a":1,"y":2,"label":2}\n', "several columns named y, label"),
        ("a.jsonl", '{"a":1,"y":[2]}\n', r"row 1, column y: the label \[2\] is neither"),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path: Path, name: str, content: Any, says: str) -> None:
    """The error names the file, the row and the column, and what to do."""
    path = put(tmp_path / name, content)
    with pytest.raises(ConfigurationError, match=says) as caught:
        read(open_source(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path: Path) -> None:
    """Both are named."""
    with pytest.raises(ConfigurationError, match="does not exist"):
        open_source(tmp_path / "none.csv")
    with pytest.raises(ConfigurationError, match="is a directory"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label_column": "grade"}, "no column grade.*The columns are a, b, y"),
        ({"label_column": 3}, "no column 3"),
        ({"columns": ["a", "a"]}, "column a is used twice"),
        ({"columns": ["a", "y"]}, "column y is used twice"),
        ({"columns": []}, "no feature column"),
        ({"weight_column": "b", "id_column": "b"}, "column b is used twice"),
        ({"weight_column": "b"}, "row 1, column b: the weight -2.0 is not in"),
        ({"labeled": False, "label_column": "y"}, "the options say that .* has no labels"),
        ({"format": "jsonl", "on_incomplete": int}, "on_incomplete does not apply"),
        ({"format": "jsonl", "header": True}, "header does not apply"),
        ({"format": "svm"}, "unknown file format 'svm'"),
        ({"format": "xml"}, "unknown file format 'xml'"),
        ({"delimiter": "::"}, "not one character"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    """A column that does not exist, or is asked to be two things, is refused with the columns there are."""
    path = put(tmp_path / "a.csv", "a,b,y\n1,-2,0\n")
    with pytest.raises(ConfigurationError, match=says):
        read(open_source(path, **options))


def test_incomplete_rows_of_a_csv_are_left_out_if_told_to(tmp_path: Path) -> None:
    """A missing feature, label or weight leaves the row out, however it is written; a missing id does not."""
    path = put(
        tmp_path / "a.csv",
        "id,a,b,w,y\n1,1,2,1,u\n2,,2,1,u\n3,1, NA ,1,v\n4,nan,null,1,v\n5,1,2,,v\n6,1,2,1,\n,3,4,2,v\n",
    )
    counted: list[int] = []
    source = open_source(path, id_column="id", weight_column="w", on_incomplete=counted.append)
    (batch,) = source.batches()
    assert (batch.X.tolist(), batch.y, batch.ids) == ([[1, 2], [3, 4]], ["u", "v"], ["1", None])
    assert batch.weight is not None
    assert (batch.weight.tolist(), counted) == ([1, 2], [5])


def test_incomplete_rows_of_parquet_are_left_out_if_told_to(tmp_path: Path) -> None:
    """Null and NaN are missing there, in columns of any type that can be a feature or a label."""
    columns = {
        "a": pa.array([1.0, None, float("nan"), 4.0, 5.0]),
        "b": pa.array(["1", "2", "3", "", "5"]).dictionary_encode(),
        "c": pa.array([True, True, True, True, False]),
        "y": pa.array(["u", "v", "u", "v", None]),
    }
    pa.parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    counted: list[int] = []
    source = open_source(tmp_path / "a.parquet", on_incomplete=counted.append)
    assert source.rows is None
    (batch,) = source.batches()
    assert (batch.X.tolist(), batch.y, counted) == ([[1, 1, 1]], ["u"], [4])


def test_a_wrong_cell_is_told_at_its_row_although_others_are_left_out(tmp_path: Path) -> None:
    """Leaving out is for what is missing, not for what is wrong; and a file of incomplete rows only is empty."""
    path = put(tmp_path / "a.csv", "a,b,y\n1,2,0\n,2,0\n,2,0\n1,two,0\n")
    with pytest.raises(ConfigurationError, match="row 4, column b: 'two' is not a number"):
        read(open_source(path, on_incomplete=int))
    incomplete = put(tmp_path / "b.csv", "a,y\nNA,0\n")
    assert list(open_source(incomplete, header=True, on_incomplete=int).batches()) == []


def test_the_first_bad_cell_of_a_long_column_is_found(tmp_path: Path) -> None:
    """Many rows and batches into a file, the row that is named is the first bad one."""
    rows = [f"{i}.5,0" for i in range(300_000)]
    rows[212_345] = rows[250_000] = "oops,0"
    with pytest.raises(ConfigurationError, match="row 212346, column 0: 'oops' is not a number"):
        read(open_source(put(tmp_path / "a.csv", "\n".join(rows))))


@pytest.mark.parametrize("kind", [".csv", ".jsonl"])
def test_a_line_without_end_is_refused_before_it_fills_memory(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A binary file under a wrong name has no line breaks."""
    monkeypatch.setattr(reading, "LONGEST_LINE_BYTES", 100)
    with pytest.raises(ConfigurationError, match="longer than 100 bytes"):
        open_source(put(tmp_path / f"a{kind}", b"x" * 1000))


# In memory


def test_arrays_are_a_source(tmp_path: Path) -> None:
    """Labels of numpy become plain values; float32 becomes float64 without change."""
    X = np.array([[0.1], [0.2]], np.float32)
    found, labels, weight, ids = read(from_arrays("here", X, np.array([-1, 1], np.int8)))
    assert found.dtype == np.float64
    assert np.array_equal(found, X)
    assert same(labels, [-1, 1])
    assert weight is None
    assert ids is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([[1.0], [np.nan]], [1, 1]), r"row 2, column x\[0\]: nan"),
        (([[1.0], [2.0]], [1]), "2 rows and 1 labels"),
        (([], []), "holds no points"),
        (([1.0], [1]), "holds no points"),
        (([[1.0]], [0.5]), "neither a whole number nor text"),
    ],
)
def test_arrays_that_are_no_points_are_refused(arguments: tuple[Any, Any], says: str) -> None:
    """The same rules hold as for files."""
    with pytest.raises(ConfigurationError, match=says):
        read(from_arrays("here", *arguments))
