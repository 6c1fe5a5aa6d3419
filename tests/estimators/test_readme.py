"""The README's example of the estimators runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def test_the_notebook_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The example prints an accuracy that is worth showing."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (example,) = (code for code in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "CoresetSVC" in code)
    exec(compile(example, "README.md", "exec"), {})
    assert float(capsys.readouterr().out.split()[0]) > 0.97
