"""Every page of the repository points at files, at sections of files and at commands that exist."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("streamsvm", "consumers", "tests", "deploy")
FOUND = [ROOT / "Makefile", *ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
PAGES = sorted(page for page in FOUND if "node_modules" not in page.parts)  # `make readers` fetches those
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
MODULE = re.compile(r"python -m ((?:tests|consumers|streamsvm)[\w.]*)([^`|#;\n]*)")
TOP = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "pyproject.toml"}
"""What people and hosts look for at the top; all else has a folder."""


def targets(page: Path) -> list[str]:
    """Return what a page links to in this repository."""
    prose = FENCED.sub("", page.read_text())
    return [target for target in LINK.findall(prose) if not re.match(r"[a-z]+:", target)]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, target: str) -> str:
    """Say why a link leads nowhere; empty if it does not."""
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    if not file.exists():
        return f"{target}: no such file"
    return f"{target}: no such section" if anchor and anchor not in anchors(file) else ""


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    """A file or a section that is not there is named; one that is there is not."""
    page = tmp_path / "a.md"
    page.write_text(
        "# The one\n[a](#the-one) [b](#the-other) [c](missing.md) [d](https://example.org) [e](a.md#the-one)\n"
    )
    found = [why for target in targets(page) if (why := broken(page, target))]
    assert found == ["#the-other: no such section", "missing.md: no such file"]


def missing(page: Path) -> list[str]:
    """Return what a page runs and does not exist: modules, and options that a module's source does not name."""
    found = []
    for module, rest in MODULE.findall(page.read_text()):
        folder = ROOT / module.replace(".", "/")
        files = [*folder.glob("*.py")] if folder.is_dir() else [folder.with_suffix(".py")]
        source = "".join(file.read_text() for file in files if file.exists())
        if not source:
            found.append(module)
        shared = folder.parent / "runner.py"  # options that all benchmarks have
        source += shared.read_text() if shared.exists() else ""
        found += [f"{module} {option}" for option in re.findall(r"--[a-z][\w-]*", rest) if f'"{option}"' not in source]
    return found


def test_a_command_that_does_not_exist_is_found(tmp_path: Path) -> None:
    """A module, or an option, that is not there is named; one that is there is not."""
    page = tmp_path / "a.md"
    page.write_text("`python -m tests.nothing` `python -m tests.benchmarks.scale --rounds 2 --ruonds 2 | tee a`\n")
    assert missing(page) == ["tests.nothing", "tests.benchmarks.scale --ruonds"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_leads_to_what_exists(page: Path) -> None:
    """What was moved, renamed or removed is missed here; every block ends with a bare fence and swallows no text."""
    assert [why for target in targets(page) if (why := broken(page, target))] == []
    assert missing(page) == []
    fences = re.findall(r"(?m)^```(.*)$", page.read_text())
    assert len(fences) % 2 == 0
    assert not any(fences[1::2])


def test_the_top_level_is_small() -> None:
    """A page that only some readers want lies in the folder that it is about."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip(f"not a clone, so what belongs to it is not known: {listed.stderr.strip()}")
    assert {name for name in listed.stdout.splitlines() if "/" not in name and not name.startswith(".")} == TOP
