"""Files of raw events: the rows of a CSV, of Parquet and of JSON lines are the same events, and the same points."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from consumers.replay import replay_events
from streamsvm.branches.events.decoding import EVENTS as EVENTS_OF_RECORDS
from streamsvm.branches.events.event_files import event_source, events_in
from streamsvm.branches.events.event_points import EventReader
from streamsvm.branches.events.features.frames import events_of
from streamsvm.branches.events.features.inference import proposal
from streamsvm.branches.events.options import points_of, recipe_from
from streamsvm.config import PointsConfig
from streamsvm.errors import ConfigurationError
from streamsvm.field_paths import Unreachable
from streamsvm.ingest import Format, Markers, PointDecoder
from tests.branches.events.payments import stream
from tests.branches.events.recipes import EVENTS, payment
from tests.consumers.replay.test_replay import FakeOutbox
from tests.ingest.rows import ARROW, Raw

FORMATS: tuple[Format, ...] = ("csv", "jsonl", "parquet")
COLUMNS = ("id", "ts", "amount", "risk", "channel", "merchant", "vip", "is_fraud")


def flat(count: int) -> list[dict[str, Any]]:
    """Return events without nested fields."""
    return [{name: payment(index).get(name) for name in COLUMNS} for index in range(count)]


def test_a_column_that_a_feature_takes_for_text_stays_text(tmp_path: Path) -> None:
    """An identifier with zeros in front, a version number; without a recipe what looks like a number is one."""
    path = tmp_path / "a.csv"
    path.write_text("zip,release,n,flag,none\n01234,1.10,1.50,TRUE,\n")
    recipe = recipe_from({name: {"as": "hash", "bits": 1} for name in ("zip", "release")}, {})
    assert list(events_in(path, "csv", recipe)) == [{"zip": "01234", "release": "1.10", "n": 1.5, "flag": True}]
    assert list(events_in(path, "csv", None)) == [{"zip": "01234", "release": 1.1, "n": 1.5, "flag": True}]


def test_a_number_with_a_notation_is_read_by_it_in_a_csv(tmp_path: Path) -> None:
    """A cell that looks like a number of JSON is not taken for one before; infer proposes the separators."""
    path = tmp_path / "a.csv"
    cells = ["1.234,50", "1.234", "12", "", "-0,5", *(f"{index + 1}.{index + 100},25" for index in range(20))]
    rows = [f"{cell};{index % 2}" for index, cell in enumerate(cells)]
    path.write_text("\n".join(["amount;y", *rows]) + "\n")
    options = {"as": "number", "parse": "text", "decimal": ",", "thousands": "."}
    features = {"amount": {**options, "missing": {"constant": 7}}}
    recipe = recipe_from(features, {"label": {"field": "y", "negative": [0], "positive": [1]}})
    (batch,) = event_source(path, "csv", recipe, delimiter=";").batches()
    assert batch.X[:5].tolist() == [[1234.5], [1234.0], [12.0], [7.0], [-0.5]]
    proposed = proposal(list(events_in(path, "csv", None, ";"))).fields[0]
    assert proposed.options is not None
    assert {**proposed.options, "missing": None} == {**options, "missing": None}
    assert recipe_from({"amount": dict(proposed.options)}, {})


def test_values_of_parquet_become_those_of_json(tmp_path: Path) -> None:
    """Times as text, decimals as numbers, NaN as missing, nested columns as objects."""
    row = {"t": datetime(2026, 1, 31, 12, tzinfo=UTC), "d": Decimal("1.5"), "n": float("nan"), "o": {"a": [1, None]}}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    (event,) = events_in(tmp_path / "a.parquet", "parquet", None)
    assert event == {"t": "2026-01-31T12:00:00+00:00", "d": 1.5, "o": {"a": [1, None]}}


EARLY_NS = -1  # of the year 1969, where cutting off is not rounding towards zero
YEAR_10000_S, DAY_10000 = 253_402_300_800, 2_932_897
BYTES, DURATION, CLOCK, RANGE = "bytes that are not text", "a duration", "a time of day", "not in the years 1 to 9999"
STRANGE: dict[str, tuple[pa.DataType, Any, Any]] = {
    "binary": (pa.binary(), [b"DE", "Zürich".encode(), b"", None], ["DE", "Zürich", "", None]),
    "large binary": (pa.large_binary(), [b"DE"], ["DE"]),
    "filled up": (pa.binary(4), [b"DE\0\0", None], ["DE", None]),
    "coded": (pa.dictionary(pa.int8(), pa.binary()), [b"DE", None], ["DE", None]),
    "in a struct": (
        pa.struct([("a", pa.binary())]),
        [{"a": b"DE"}, {"a": None}, None],
        [{"a": "DE"}, {"a": None}, None],
    ),
    "in a list": (pa.list_(pa.binary()), [[b"DE", None], [], None], [["DE", None], [], None]),
    "in a map": (pa.map_(pa.string(), pa.binary()), [[("a", b"DE")], [], None], [{"a": "DE"}, {}, None]),
    "latin": (pa.binary(), [b"DE", "Zürich".encode("latin-1"), None], ["DE", BYTES, None]),
    "integers": (pa.binary(4), [b"\0\0\0\5"], [BYTES]),
    "uuid": (pa.uuid(), [UUID(int=7).bytes], [str(UUID(int=7))]),
    "seconds of a day": (pa.time32("s"), [43_500, None], [CLOCK, None]),
    "nanoseconds of a day": (pa.time64("ns"), [1], [CLOCK]),
    "duration": (pa.duration("ns"), [1, None], [DURATION, None]),
    "durations": (pa.list_(pa.duration("s")), [[1]], [[DURATION]]),
    "nanoseconds": (
        pa.timestamp("ns"),
        [1_999, EARLY_NS],
        ["1970-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999"],
    ),
    "of a zone": (pa.timestamp("ns", "Europe/Berlin"), [1_000, None], ["1970-01-01T01:00:00.000001+01:00", None]),
    "late": (pa.timestamp("s"), [YEAR_10000_S - 1, YEAR_10000_S], ["9999-12-31T23:59:59", RANGE]),
    "late by its zone": (pa.timestamp("s", "Asia/Tokyo"), [YEAR_10000_S - 1], ["9999-12-31T23:59:59+00:00"]),
    "early": (pa.timestamp("ms"), [-62_135_596_800_001, None], [RANGE, None]),
    "days": (pa.date32(), [DAY_10000 - 1, DAY_10000, None], ["9999-12-31", RANGE, None]),
}
"""Types of columns, values, and what an event has of them."""


def strange(kind: str) -> tuple[pa.Table, list[Any]]:
    """Return a table of one column f, and what its events have."""
    type_, values, expected = STRANGE[kind]
    storage = {pa.uuid(): pa.binary(16), pa.timestamp("ns"): pa.int64(), pa.date32(): pa.int32()}.get(type_, type_)
    storage = pa.int64() if pa.types.is_timestamp(type_) else storage
    column = pa.array(values, storage)
    column = pa.ExtensionArray.from_storage(type_, column) if type_ == pa.uuid() else column.cast(type_)
    return pa.table({"f": column}), expected


def readable(value: Any) -> Any:
    """Return a value, or if it cannot be read the reason without the remedy."""
    if isinstance(value, list):
        return [readable(one) for one in value]
    said = [one for one in (BYTES, DURATION, CLOCK, RANGE) if isinstance(value, Unreachable) and one in value.why]
    return said[0] if said else value


@pytest.mark.parametrize("kind", STRANGE)
def test_a_type_that_json_has_not_is_its_text_or_says_what_it_is(kind: str, tmp_path: Path) -> None:
    """In a Parquet file, and in a table of pyarrow, which needs no pandas for it."""
    table, expected = strange(kind)
    pq.write_table(table, tmp_path / "a.parquet")
    read = [event.get("f") for event in events_in(tmp_path / "a.parquet", "parquet", None)]
    assert [readable(value) for value in read] == expected
    assert [readable(event["f"]) for event in events_of(table)] == expected


@pytest.mark.parametrize("kind", [kind for kind in STRANGE if not kind.startswith(("in a", "durations"))])
def test_an_event_of_arrow_and_one_of_json_are_read_as_the_row_of_the_file(kind: str, tmp_path: Path) -> None:
    """The same column of a category, or a rejection of each; only the file's is named by its row."""
    table, expected = strange(kind)
    pq.write_table(table, tmp_path / "a.parquet")
    events = list(events_in(tmp_path / "a.parquet", "parquet", None))
    texts = [value for value in expected if value not in (BYTES, DURATION, CLOCK, RANGE)]
    form: Any = {"as": "category", "values": [one for one in texts if one] or ["x"], "missing": "indicator"}
    if "T" in str(texts[:1]) or kind == "days":
        form = {"as": "time", "parts": ["month"], "missing": "indicator"}
    recipe = recipe_from({"f": form}, {})
    decoder = PointDecoder(PointsConfig(**points_of(recipe)), recipe=recipe, labeled=False)
    (arrow,) = decoder.decode([Raw(stream(*table.to_batches()), headers=ARROW)]).rows
    columns = EventReader(recipe, PointsConfig(**points_of(recipe)), 1e30, labeled=False).read(events)
    assert sorted(columns.faults) == [row for row, one in enumerate(expected) if one not in texts]
    good = [row for row, one in enumerate(expected) if one in texts]
    assert arrow.accepted.tolist() == [one in texts for one in expected]
    assert arrow.points.X[good].tolist() == columns.points.X[good].tolist()
    if good:
        said = json.dumps([events[row] for row in good]).encode()
        (sent,) = decoder.decode([Raw(said)]).rows
        assert sent.points.X.tolist() == columns.points.X[good].tolist()


@pytest.mark.parametrize("kind", ["latin", "duration", "durations", "late"])
def test_what_json_cannot_say_is_not_sent(kind: str, tmp_path: Path) -> None:
    """The file and the column are named."""
    path = tmp_path / "a.parquet"
    pq.write_table(strange(kind)[0], path)
    with pytest.raises(ConfigurationError, match=r"a.parquet: row [12], column f.*: it is .* leave it out of the file"):
        list(EVENTS_OF_RECORDS.rows_in(path, "parquet", None, None, {}, unlabeled=False))


NASTY: dict[str, list[tuple[str, Any]]] = json.loads(Path(__file__).with_name("cells.json").read_text())
"""Cells of a CSV, and what JSON has of the same events."""
NASTY_RECIPE = recipe_from(
    {
        "country": {"as": "category", "values": ["NA", "DE", " x", "nan", "true"], "missing": "indicator"},
        "code": {"as": "category", "values": [2, True, "1.10"], "missing": "indicator"},
        "amount": {"as": "number", "missing": {"constant": -1}},
        "merchant": {"as": "hash", "bits": 6, "missing": "indicator"},
        "vip": {"as": "flag", "missing": "indicator"},
        "ts": {"as": "time", "parts": ["hour", "weekday"], "zone": "Europe/Berlin", "missing": "indicator"},
    },
    {"label": {"field": "y", "negative": ["NA"], "positive": ["null"]}},
)
IN_TABLES: dict[str, Any] = {"amount": float, "vip": bool}
"""Types of the columns of Parquet that are not text."""


def nasty(folder: Path) -> dict[Format, Path]:
    """Write the same events as a file of each format."""
    rows = max(map(len, NASTY.values()))
    columns = {name: [cells[row % len(cells)] for row in range(rows)] for name, cells in NASTY.items()}
    paths: dict[Format, Path] = {format_: folder / f"nasty.{format_}" for format_ in FORMATS}
    with paths["csv"].open("w", newline="") as file:
        csv.writer(file).writerows(
            [list(columns), *zip(*([cell for cell, _ in one] for one in columns.values()), strict=True)]
        )
    events = [{name: one[row][1] for name, one in columns.items()} for row in range(rows)]
    paths["jsonl"].write_text("".join(json.dumps(event) + "\n" for event in events))
    table = {
        name: [None if value is None else IN_TABLES.get(name, str)(value) for _, value in one]
        for name, one in columns.items()
    }
    pq.write_table(pa.table(table), paths["parquet"])
    return paths


def test_nasty_cells_are_the_same_columns_in_every_format_and_on_a_topic(tmp_path: Path) -> None:
    """To the last bit, the sign of zero included: as files of each format, and sent as events and decoded."""
    assert sum(map(len, NASTY.values())) >= 40
    config = PointsConfig(**points_of(NASTY_RECIPE), dtype="float64")
    found: dict[str, tuple[bytes, Any]] = {}
    for format_, path in nasty(tmp_path).items():
        source = event_source(path, format_, NASTY_RECIPE)
        for time in ("", ", read again"):
            (batch,) = source.batches()
            found[f"{format_}{time}"] = (batch.X.tobytes(), batch.y)
        sink = FakeOutbox()
        replay_events(events_in(path, format_, NASTY_RECIPE), sink, "t")
        records = [Raw(one.value, at) for at, one in enumerate(sink.messages)]
        decoded = PointDecoder(config, recipe=NASTY_RECIPE).decode(records)
        assert not decoded.rejected
        points = decoded.rows[0].points
        found[f"{format_}, sent"] = (points.X.tobytes(), [config.labels[int(sign > 0)] for sign in points.y])
    assert {columns for columns, _ in found.values()} == {found["jsonl"][0]}
    assert all(labels == ["NA", "null"] * 6 for _, labels in found.values())


def test_each_cell_means_what_the_rule_says(tmp_path: Path) -> None:
    """Cell by cell, so that equal columns are not equally wrong."""
    events = list(events_in(nasty(tmp_path)["csv"], "csv", NASTY_RECIPE))
    for name in NASTY:
        for row, (cell, value) in enumerate(NASTY[name]):
            got = events[row].get(name)
            assert (type(got), repr(got)) == (type(value), repr(value)), (name, cell)


def test_what_was_taken_as_missing_is_counted(tmp_path: Path) -> None:
    """By column and by what stood there; empty cells and values of a vocabulary are no such cells."""
    path = tmp_path / "a.csv"
    path.write_text("country,n\nNA,1\nNA,null\nna,\nDE,2\n")
    bare: Markers = {}
    list(events_in(path, "csv", None, markers=bare))
    assert bare == {"country": {"NA": 2, "na": 1}, "n": {"null": 1}}
    recipe = recipe_from({"country": {"as": "category", "values": ["NA", "DE"], "missing": "indicator"}}, {})
    declared: Markers = {}
    list(events_in(path, "csv", recipe, markers=declared))
    assert declared == {"country": {"na": 1}, "n": {"null": 1}}


def test_a_text_where_a_number_may_be_missing_is_missing(tmp_path: Path) -> None:
    """Of a CSV, and counted; a label is none, nor is a number that must be there."""
    path, markers = tmp_path / "a.csv", Markers()
    path.write_text("n,t,b,y\n1.5,2026-01-31,2,x\nerror,-,true,0\n<3,2026-02-31,4,1\n")
    named = {"n": {"as": "number", "missing": {"constant": 7}}, "t": {"as": "time", "missing": "indicator"}}
    recipe = recipe_from({**named, "b": "number"}, {"label": {"field": "y", "negative": ["0"], "positive": ["1"]}})
    assert list(events_in(path, "csv", recipe, markers=markers)) == [
        {"n": 1.5, "t": "2026-01-31", "b": 2, "y": "x"},
        {"b": True, "y": "0"},
        {"b": 4, "y": "1"},
    ]
    assert markers == {"n": {"error": 1, "<3": 1}, "t": {"-": 1, "2026-02-31": 1}}
    with pytest.raises(ConfigurationError, match="row 1: y is 'x'"):
        list(event_source(path, "csv", recipe).batches())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("amount,amount\n1,2\n", "a.csv has several columns named amount. Rename"),
        ("amount,\n1,2\n", "the first line must name every column"),
        ("amount,is_fraud\n1,true\n1e400,true\n", "row 2, column amount: '1e400' is too large for a number"),
        ("amount,is_fraud\n1\n", "row 1: it has 1 cells, the first line has 2"),
        ("amount,is_fraud\nx,true\n", "row 1: amount is 'x', not a number. Correct the row, or declare the field"),
        ("amount,is_fraud\n1,\n", "is_fraud is missing. Fill in the label, or skip such rows with on_incomplete"),
        ("amount,is_fraud\n1,maybe\n", "row 1: is_fraud is 'maybe'; events.label means false as negative"),
        ("amount,is_fraud\n1,true\n,false\n", "row 2: amount is missing. Fill in the value, set the feature's option"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, what: str) -> None:
    """With the field and what to do."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    source = event_source(path, "csv", recipe_from({"amount": "number"}, EVENTS))
    with pytest.raises(ConfigurationError) as refused:
        list(source.batches())
    assert what in str(refused.value)


def test_incomplete_rows_can_be_skipped(tmp_path: Path) -> None:
    """Counted, and the others keep their place."""
    path, skipped = tmp_path / "a.csv", list[int]()
    path.write_text("amount,is_fraud\n1,true\n,false\n3,\n4,false\n")
    source = event_source(path, "csv", recipe_from({"amount": "number"}, EVENTS), on_incomplete=skipped.append)
    (batch,) = source.batches()
    assert skipped == [2]
    assert batch.rows is not None
    assert (batch.X[:, 0].tolist(), batch.y, batch.rows.tolist()) == ([1.0, 4.0], [True, False], [0, 3])


def test_events_are_sent_as_they_are() -> None:
    """One object a record, or arrays; a limit and a seed as for points."""
    events, sink = flat(10), FakeOutbox()
    result = replay_events(iter(events), sink, "t")
    assert sink.values == events
    assert (result.points, result.records) == (10, 10)
    arrays = FakeOutbox()
    replay_events(iter(events), arrays, "t", rows_per_record=4, limit=9)
    assert [len(value) for value in arrays.values] == [4, 4, 1]
    shuffled, again = FakeOutbox(), FakeOutbox()
    for one in (shuffled, again):
        replay_events(iter(events), one, "t", shuffle_seed=3)
    assert shuffled.messages == again.messages != sink.messages
    assert sorted(one.value or b"" for one in shuffled.messages) == sorted(one.value or b"" for one in sink.messages)
