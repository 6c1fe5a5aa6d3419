"""What benchmarks share: turns, kept results, refused names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.runner import Kept, in_turns, known, load, parser_of


def test_what_a_file_holds_is_not_measured_again(tmp_path: Path) -> None:
    """Another run over the same file measures what is missing only; the file is whole after each result."""
    file = tmp_path / "kept.json"
    assert Kept(file).get("a", lambda: [1.5, None]) == [1.5, None]
    again = Kept(file)
    assert again.get("a", lambda: pytest.fail("it is held")) == [1.5, None]
    again.get("b", lambda: {"x": 2})
    assert json.loads(file.read_text()) == {"a": [1.5, None], "b": {"x": 2}}
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]
    assert Kept(None).get("a", lambda: 3) == 3


def test_each_round_begins_with_another_contender() -> None:
    """Everybody runs once a round."""
    ran: list[str] = []
    found = in_turns({name: lambda turn, name=name: ran.append(f"{name}{turn}") or turn for name in "abc"}, 3)
    assert ran == ["a0", "b0", "c0", "b1", "c1", "a1", "c2", "a2", "b2"]
    assert found == {name: [0, 1, 2] for name in "abc"}


def test_a_name_that_is_misspelled_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not an empty table."""
    parser = parser_of("solver", None, data=True)
    with pytest.raises(SystemExit):
        known(parser, "--sets", ["skin", "skyn"], ["skin"])
    assert "--sets skyn: unknown; there are skin" in capsys.readouterr().err


def test_one_set_is_at_hand_without_a_folder() -> None:
    """HTRU2 comes with the product; every other one needs a folder."""
    points = load("htru2", None)
    assert points.X.shape == (17_898, 8)
    with pytest.raises(AssertionError, match="skin needs --data"):
        load("skin", None)
