"""Files that a command reads: faults in the command line's words, and a next step that can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from consumers.cli.app import app
from consumers.cli.file_options import Labels, SkippedRowCounter, first_look, in_flags
from consumers.options import settings_from
from streamsvm.config import Label, PointsConfig
from streamsvm.errors import ConfigurationError, TopicMissing
from streamsvm.ingest import from_arrays, open_source


def test_faults_name_flags() -> None:
    """A parameter of the library is no use to who types; the kind of error stays, for the exit status hangs on it."""
    with pytest.raises(TopicMissing) as caught, in_flags():
        raise TopicMissing("no topic", "Create it (create_partitions), or choose the label_column.")
    assert caught.value.remedy == "Create it (--create), or choose the --label."


@pytest.mark.parametrize(
    "labels",
    [
        [-1, 1],
        [0, 1],
        ["on-time", "late"],
        ["0", "1"],
        ["false", "true"],
        [False, True],
        ["a,b", "it's"],
        [1, 2, 3],
        [*range(128)],
    ],
)
def test_the_next_step_is_a_command_of_the_same_points(labels: list[Label], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says, split by a shell and read as options, means the file's labels, names and dimension."""
    monkeypatch.delenv("STREAMSVM_CONFIG", raising=False)
    seen = Labels()
    source = seen.noting(from_arrays("f", [[1.0, 2.0]] * len(labels), labels[::-1], feature_names=["km, driven", "2"]))
    list(source.batches())
    *of_two, said = seen.next_step("in", source, None)
    assert len(of_two) == (len(labels) == 2)
    program, command, *options = shlex.split(said.removeprefix("to train on them: "))
    assert (program, command) == ("streamsvm", "train")
    values = {name.removeprefix("--").replace("-", "__", 1).replace("-", "_"): value
              for name, value in zip(options[::2], options[1::2], strict=True)}  # fmt: skip
    settings = settings_from(values, ["", "input", "points"])
    assert settings.input.topic == "in"
    assert settings.points == PointsConfig(dimension=2, labels=tuple(labels), feature_names=("km, driven", "2"))


@pytest.mark.parametrize(("labels", "told"), [(list(range(129)), "0, 1, 2, 3, 4, ..."), (["a", "a"], "only 'a'")])
def test_too_many_labels_or_one_are_said_to_be_in_the_way(labels: list[Label], told: str) -> None:
    """Before a trainer rejects what it was sent; of many labels only some are told."""
    seen = Labels()
    source = seen.noting(from_arrays("f", [[1.0]] * len(labels), labels))
    list(source.batches())
    (said,) = seen.next_step("in", source, None)
    assert f"a trainer needs 2 to 128 labels, but f has {told}: check --label" in said


@pytest.mark.parametrize("count", [0, 1234])
def test_rows_left_out_are_said(count: int) -> None:
    """Where there were any, and of one reading only."""
    left_out = SkippedRowCounter()
    left_out(count)
    assert str(left_out) == (", 1,234 incomplete rows skipped" if count else "")
    left_out.forget()
    assert str(left_out) == ""


def test_evaluate_leaves_out_incomplete_rows_if_told_to(tmp_path: Path) -> None:
    """Else it says how; with the flag the table is of the complete rows, and says how many were not."""
    path = tmp_path / "a.csv"
    rows = [f"D{i},{i % 7},{(i * i) % 5},{'late' if i % 7 > 3 else 'on-time'}\n" for i in range(60)]
    path.write_text("id,km,stops,status\n" + "".join(rows).replace("D3,3,", "D3,,") + "D60,1,NA,late\n")
    arguments = ["evaluate", str(path), "--id", "id", "--no-optimum"]
    assert "skip such rows with --skip-incomplete" in str(CliRunner().invoke(app, arguments).exception)
    shown = CliRunner().invoke(app, [*arguments, "--skip-incomplete"], catch_exceptions=False)
    assert "2 incomplete rows skipped" in shown.output


EVENTS = "flight,carrier,km,minutes,due,late\n"


def events(path: Path, rows: int = 60) -> Path:
    """A table as people have it: a number of the row, text, a time, a gap."""
    lines = [
        f"{i + 1},{'AA' if i % 2 else 'UA'},{100 + i * 7 % 91},{'' if i % 9 == 4 else i * 3 % 17},2024-01-01,"
        f"{'true' if i % 5 == 0 else 'false'}\n"
        for i in range(rows)
    ]
    path.write_text(EVENTS + "".join(lines))
    return path


def test_all_unusable_columns_are_named_with_the_command_that_fits(tmp_path: Path) -> None:
    """Text and times are named at once, so are gaps and what counts rows; the command can be typed as it stands."""
    path = events(tmp_path / "a.csv")
    typed = ["evaluate", str(path), "--no-optimum", "--columns", "flight,carrier,km,minutes,due"]
    with pytest.raises(ConfigurationError) as refused, in_flags(typed):
        first_look(open_source(path))
    told = str(refused.value)
    for part in ("carrier holds 'UA'", "due holds '2024-01-01'", "flight counts the rows", "missing in minutes"):
        assert part in told
    command = shlex.split(told.split("With the other columns: ")[1].removesuffix("."))
    assert command == [
        *("streamsvm", "evaluate", str(path), "--no-optimum"),
        *("--columns", "km,minutes", "--id", "flight", "--skip-incomplete"),
    ]
    done = CliRunner().invoke(app, command[1:], catch_exceptions=False)
    assert "2 features" in done.output


def test_a_column_with_a_bad_cell_is_one_of_numbers(tmp_path: Path) -> None:
    """Where most cells are numbers the bad one is named, with its row."""
    path = tmp_path / "a.csv"
    path.write_text("a,b,y\n" + "".join(f"{i}.5,{'x' if i == 7 else i % 3},{i % 2}\n" for i in range(20)))
    with pytest.raises(ConfigurationError, match="row 8, column b: 'x' is not a number"):
        first_look(open_source(path))


def test_a_column_that_counts_rows_is_told_of(tmp_path: Path) -> None:
    """It would be a feature without a word; with the flag named it is none, and nothing is said."""
    path = tmp_path / "a.csv"
    path.write_text("n,a,y\n" + "".join(f"{i},{i * i % 7},{i % 2}\n" for i in range(30)))
    (note,) = first_look(open_source(path))
    assert "the column n counts the rows" in note
    assert note.endswith("--id n")
    assert first_look(open_source(path, id_column="n")) == []


@pytest.mark.parametrize("limit", [1, 3, 4, 5, 26, 52, 60, None])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_behind_the_limit_are_not_counted(tmp_path: Path, limit: int | None, ending: str) -> None:
    """Skipped rows are those before the last point that was sent, of all blocks."""
    path = events(tmp_path / "a.csv")
    lacking = [i % 9 == 4 for i in range(60)]
    if ending == "parquet":
        table = pa.csv.read_csv(path)
        path = tmp_path / "a.parquet"
        pa.parquet.write_table(table, path)
    left_out = SkippedRowCounter(limit)
    source = left_out.noting(open_source(path, columns=["km", "minutes"], label_column="late", on_incomplete=left_out))
    sent = 0
    for batch in source.batches():
        sent += len(batch)
        if limit is not None and sent >= limit:
            break
    kept = [row for row, lacks in enumerate(lacking) if not lacks]
    through = 60 if limit is None or limit > len(kept) else kept[limit - 1] + 1
    skipped = sum(lacking[:through])
    assert str(left_out) == (f", {skipped} incomplete rows skipped" if skipped else "")
