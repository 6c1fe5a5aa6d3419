"""Files that a command reads: faults in the command line's words, and a next step that can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from consumers.cli.app import app
from consumers.cli.file_options import Labels, LeftOut, in_flags, next_step
from consumers.options import settings_from
from streamsvm.config import Label, PointsConfig
from streamsvm.errors import TopicMissing
from streamsvm.ingest.files.array_files import from_arrays
from streamsvm.ingest.files.opening import open_source


def test_faults_name_flags() -> None:
    """A parameter of the library is no use to who types; the kind of error stays, for the exit status hangs on it."""
    with pytest.raises(TopicMissing) as caught, in_flags():
        raise TopicMissing("no topic", "Create it (create_partitions), or choose the label_column.")
    assert caught.value.remedy == "Create it (--create), or choose the --label."


@pytest.mark.parametrize(
    "labels",
    [[-1, 1], [0, 1], ["late", "on-time"], ["0", "1"], ["false", "true"], [False, True], ["a,b", "it's"]],
)
def test_the_next_step_is_a_command_of_the_same_points(labels: list[Label], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says, split by a shell and read as options, means the file's labels, names and dimension."""
    monkeypatch.delenv("STREAMSVM_CONFIG", raising=False)
    seen = Labels()
    source = seen.noting(from_arrays("f", [[1.0, 2.0]] * 2, labels[::-1], feature_names=["km, driven", "2"]))
    list(source.batches())
    said = next_step("in", source, seen.seen())
    program, command, *options = shlex.split(said.removeprefix("to train on them: "))
    assert (program, command) == ("streamsvm", "train")
    values = {name.removeprefix("--").replace("-", "__", 1).replace("-", "_"): value
              for name, value in zip(options[::2], options[1::2], strict=True)}  # fmt: skip
    settings = settings_from(values, ["", "input", "points"])
    assert settings.input.topic == "in"
    assert settings.points == PointsConfig(dimension=2, labels=tuple(labels), feature_names=("km, driven", "2"))


@pytest.mark.parametrize(
    ("labels", "told"), [(list(range(9)), "0, 1, 2, 3, 4, ..."), ([2, 1, 3], "1, 2, 3"), (["a", "a"], "only 'a'")]
)
def test_other_than_two_labels_are_said_to_be_in_the_way(labels: list[Label], told: str) -> None:
    """Before a trainer rejects what it was sent; of many labels only some are told."""
    seen = Labels()
    source = seen.noting(from_arrays("f", [[1.0]] * len(labels), labels))
    list(source.batches())
    said = next_step("in", source, seen.seen())
    assert f"a trainer needs exactly two labels, but f has {told}: check --label" in said


@pytest.mark.parametrize("count", [0, 1234])
def test_rows_left_out_are_said(count: int) -> None:
    """Where there were any, and of one reading only."""
    left_out = LeftOut()
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


def test_the_options_stay_those_of_the_library(tmp_path: Path) -> None:
    """Every parameter that is renamed in messages is one that the library has."""
    from inspect import signature

    from consumers.cli.file_options import FLAGS
    from consumers.replay.replay import prepare_topic

    assert FLAGS.keys() <= signature(open_source).parameters.keys() | signature(prepare_topic).parameters.keys()
