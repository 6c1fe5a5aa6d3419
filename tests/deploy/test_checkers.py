"""Each checker finds nothing in the deployment's files, and finds a mistake that is planted in a copy of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.checkers import CHECKERS
from tests.deploy.files import DEPLOY


@pytest.mark.parametrize(
    "check", dict.fromkeys(one.check for one in CHECKERS.values()), ids=lambda check: check.__name__
)
def test_files_pass(check: Callable[[Path], str]) -> None:
    """The checker has nothing to say, not even a warning."""
    assert check(DEPLOY) == ""


@pytest.mark.parametrize("name", CHECKERS)
def test_planted_mistake_is_found(name: str, tmp_path: Path) -> None:
    """The checker names the mistake."""
    checker = CHECKERS[name]
    copy = tmp_path / "deploy"
    shutil.copytree(DEPLOY, copy)
    file = copy / checker.file
    text = file.read_text()
    assert checker.right in text
    file.write_text(text.replace(checker.right, checker.wrong))
    assert checker.names in checker.check(copy)
