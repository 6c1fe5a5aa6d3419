"""Figures on pages are stale once their sources change, and every file that a page links to is known."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.benchmarks.figures import COMMANDS, RESULTS, ROOT, SOURCES, Figures, figures, git, linked


def test_every_file_of_figures_has_sources_and_a_command() -> None:
    """No page links to figures of which nobody knows what makes them, and no folder of sources is gone."""
    assert linked(ROOT).keys() <= SOURCES.keys()
    assert COMMANDS.keys() <= SOURCES.keys()
    assert all((ROOT / folder).is_dir() for folders in SOURCES.values() for folder in folders)
    for name in SOURCES:
        assert importlib.util.find_spec(Figures(name, (), "", 0).command.split()[2]), name


def test_a_change_of_its_sources_makes_a_file_stale(tmp_path: Path) -> None:
    """And writing it again makes it as the code is."""
    (tmp_path / RESULTS).mkdir(parents=True)
    (tmp_path / "src").mkdir()
    kept, code = tmp_path / RESULTS / "one.txt", tmp_path / "src/code.py"
    git(tmp_path, "init", "--quiet")

    def commit() -> None:
        git(tmp_path, "add", "--all")
        git(tmp_path, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message", "m")

    def state() -> list[int]:
        return [one.commits for one in figures(tmp_path, {"one": ["src"]})]

    (tmp_path / "README.md").write_text(f"As [measured]({RESULTS}/one.txt).\n")
    kept.write_text("1\n")
    code.write_text("1\n")
    commit()
    assert state() == [0]
    code.write_text("2\n")
    commit()
    assert state() == [1]
    kept.write_text("2\n")
    commit()
    assert state() == [0]
