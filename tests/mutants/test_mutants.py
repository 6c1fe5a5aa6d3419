"""Mutants are drawn by a seed, judged by tests, and leave the tree as it was."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.drawing import Mutant, draw, found_again, sites_of
from tests.mutants.playing import importers

ROOT = Path(__file__).parents[2]
TOY = '''"""A toy."""

import logging

log = logging.getLogger(__name__)
MOST: "int | 3" = 7


def is_seven(number: int) -> bool:
    """Return whether a number is 7."""
    log.info("asked", 7)
    return number == MOST


def next_of(number: int) -> int:
    return number + 1


def nobody(number: int) -> int:
    return number or 5
'''
TESTS = """from streamsvm.toy import is_seven, next_of

def test_is_seven():
    assert is_seven(7) and not is_seven(8)

def test_next_of():
    next_of(1)

def test_wrong():
    assert next_of(1) == 3
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Return a repository with one module, whose tests see one of its functions."""
    tree = tmp_path / "tree"
    for name, content in {"streamsvm/toy.py": TOY, "streamsvm/__init__.py": "", "tests/toy/test_toy.py": TESTS}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(content)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "toy"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return tree


def judging(toy: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the command, with a folder of its own for what is temporary."""
    (toy.parent / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.mutants", "streamsvm.toy", "--seed", "1", "--tree", str(toy), *arguments]
    environment = {**os.environ, "TMPDIR": str(toy.parent / "tmp")}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_tests_see_is_killed_and_what_they_do_not_see_survives(toy: Path) -> None:
    """Also after a run that was ended by a signal: what it judged counts, and nothing is left of it."""
    with judging(toy) as ended:
        assert ended.stdout is not None
        assert any(line.startswith(("killed", "survived", "unreached")) for line in ended.stdout)
        ended.send_signal(signal.SIGTERM)
    results = toy / ".mutants" / "streamsvm.toy-1.jsonl"
    first = rows_of(results)
    assert [*(toy.parent / "tmp").iterdir()] == []

    printed, _ = judging(toy).communicate(timeout=200)
    rows = rows_of(results)
    assert rows[: len(first)] == first
    assert "2 of 5 killed, 0.400 +- 0.219" in printed
    assert "left out, they fail without a mutant: tests/toy/test_toy.py::test_wrong" in printed
    assert {row["code"]: (row["verdict"], row["by"]) for row in rows} == {
        'MOST: "int | 3" = 7': ("killed", "tests/toy/test_toy.py::test_is_seven"),
        "return number == MOST": ("killed", "tests/toy/test_toy.py::test_is_seven"),
        "return number + 1": ("survived", ""),
        "return number or 5": ("unreached", ""),
    }
    assert (toy / "streamsvm/toy.py").read_text() == TOY
    assert [*(toy.parent / "tmp").iterdir()] == []


def test_the_same_mutants_are_judged_by_other_tests(toy: Path) -> None:
    """As they stand now: the file has a line more, and tests that see more."""
    before = toy.parent / "before.jsonl"
    row = {**_toy_mutant(toy, "+", "1").__dict__, "verdict": "survived", "by": "", "package": "streamsvm.toy"}
    before.write_text(json.dumps(row) + "\n")
    (toy / "streamsvm/toy.py").write_text(f"# more\n{TOY}")
    (toy / "tests/toy/test_toy.py").write_text(TESTS.replace("== 3", "== 2"))
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, "commit", "-q", "-a", "-m", "more"], cwd=toy, check=True)
    after = toy.parent / "after.jsonl"
    judging(toy, "--these", str(before), "--results", str(after)).communicate(timeout=200)
    assert [(one["line"], one["verdict"]) for one in rows_of(after)] == [(row["line"] + 1, "killed")]


def _toy_mutant(toy: Path, code: str, old: str) -> Mutant:
    every = [mutant for site in sites_of(toy / "streamsvm/toy.py", toy) for mutant in site]
    return next(mutant for mutant in every if code in mutant.code and mutant.old == old)


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("a = b < c", ["a = b >= c", "a = b <= c"]),
        ("a = b is not c", ["a = b is c"]),
        ("a = b not in c", ["a = b in c"]),
        ("a = b and (c)", ["a = b or (c)"]),
        ("a = not (b)", ["a = (b)"]),
        ("if a.b: ...", ["if not (a.b): ..."]),
        ("a = [b for b in c if b()]", ["a = [b for b in c if not (b())]"]),
        ("if a: raise B(1)", ["if not (a): raise B(1)", "if a: pass"]),
        ("a = 1", ["a = 0", "a = 2"]),
        ("a = 1.5", ["a = 0.5", "a = 2.5", "a = 3.0"]),
        ("a = True", ["a = False"]),
        ("a.b(\n  c)", ["pass"]),
        ("a: Literal[3] = b", []),
        ("if TYPE_CHECKING: a = 1", []),
        ("self._log.info('a', b=1)", []),
        ("crash_point('a')", []),
        ("assert a == 1", []),
        ("a = f'{b == 1}'", []),
        ("@b(c=True)\ndef a(): ...", []),
        ("class A(B, c=True): ...", []),
        ("zip(a, b, strict=True)", ["pass"]),
    ],
)
def test_the_mutants_of_a_line(tmp_path: Path, source: str, mutants: list[str]) -> None:
    """All that there are: other bytes stay."""
    path = tmp_path / "a.py"
    path.write_text(source)
    found = [one.apply(source.encode()).decode() for site in sites_of(path, tmp_path) for one in site]
    assert sorted(found) == sorted(mutants)


def test_a_draw_is_made_by_its_seed_and_each_mutant_can_be_compiled() -> None:
    """A smaller draw is the beginning of a larger one, so that results can be added to."""
    drawn = draw(ROOT, "streamsvm.quality", 40, "1")
    assert drawn[:7] == draw(ROOT, "streamsvm.quality", 7, "1") != draw(ROOT, "streamsvm.quality", 7, "2")
    for mutant in drawn:
        ast.parse(mutant.apply((ROOT / mutant.file).read_bytes()))
        assert found_again(mutant, ROOT) == mutant


def test_compiled_code_of_whoever_imports_a_value_is_compiled_again() -> None:
    """A value of a module may be a constant in compiled code of another."""
    assert "streamsvm/coreset/audit.py" in importers(ROOT, "streamsvm/points.py")
    assert importers(ROOT, "consumers/__main__.py") == {"consumers/__main__.py"}
