"""Each checker finds nothing in the deployment's files, and finds a mistake that is planted in a copy of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.checkers import MISTAKES, WORKFLOW, Mistake, said
from tests.deploy.files import ROOT, parsed


@pytest.mark.parametrize("check", dict.fromkeys(one.check for one in MISTAKES), ids=lambda check: check.__name__)
def test_files_pass(check: Callable[[Path], str]) -> None:
    """The checker has nothing to say, not even a warning."""
    assert check(ROOT) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: f"{one.check.__name__}-{one.wrong.strip()}")
def test_planted_mistake_is_found(mistake: Mistake, tmp_path: Path) -> None:
    """The checker names the mistake."""
    for folder in ("deploy", ".github"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    file = tmp_path / mistake.file
    text = file.read_text()
    assert mistake.right in text
    file.write_text(text.replace(mistake.right, mistake.wrong))
    assert mistake.names in mistake.check(tmp_path)


def test_the_workflow_tests_every_python_of_the_package_by_programs_of_this_tree() -> None:
    """Its matrix holds the versions of the classifiers; each step that is no action is a file that bash can parse."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    jobs = parsed(ROOT / WORKFLOW)["jobs"]
    assert jobs["installed"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"
    programs = [ROOT / step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert len(programs) == 4
    for program in programs:
        assert shutil.which(program) is not None, f"{program} cannot be executed"
        assert said("bash", "-n", program) == ""


def test_the_tree_is_refused_where_the_wheel_is_tested() -> None:
    """With the variable of .ci/installed set, pytest does not begin on packages of this tree."""
    command = [sys.executable, "-m", "pytest", "-n0", "--collect-only", "-q", "tests/test_documents.py"]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "STREAMSVM_TEST_INSTALLED": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 4
    assert "is to be tested as installed" in ended.stderr
