"""The workflow is one that its host takes, runs scripts that exist, and covers the Pythons that the package is for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.deploy.checkers import YAMLLINT, said, tool
from tests.deploy.files import ROOT, parsed

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def faults(workflow: Path) -> str:
    """Say what its schema and yamllint have against a workflow; nothing if they have nothing."""
    schema = said(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", workflow)
    return schema + said(tool("yamllint"), "--strict", "-d", YAMLLINT, workflow)


def test_the_workflow_passes() -> None:
    """Nothing is wrong with it, not even a warning."""
    assert faults(WORKFLOW) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("runs-on:", "run-on:"), ("fail-fast: false", "fail-fast: [no]"), ("contents: read", "contents: reading")],
)
def test_a_planted_mistake_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    """A key or a value that the host does not know is named."""
    copy = tmp_path / "ci.yml"
    copy.write_text(WORKFLOW.read_text().replace(right, wrong, 1))
    assert faults(copy)


def test_every_python_of_the_package_is_tested() -> None:
    """The matrix holds the versions of the classifiers; the oldest is the one that the package needs at least."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert parsed(WORKFLOW)["jobs"]["installed"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


def test_it_runs_programs_of_this_tree() -> None:
    """Each step that is not an action is an executable file here, which bash can parse."""
    steps = [step for job in parsed(WORKFLOW)["jobs"].values() for step in job["steps"]]
    programs = [ROOT / step["run"] for step in steps if "run" in step]
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
