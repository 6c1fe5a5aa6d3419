"""The budget counts names, and its limits only go down."""

from __future__ import annotations

from pathlib import Path

from tests.budget import LIMITS, lower, names_of


def test_names_are_counted(tmp_path: Path) -> None:
    """Nested functions and lambdas count; a class without behaviour is a carrier."""
    module = tmp_path / "module.py"
    module.write_text(
        '"""Text."""\nfrom typing import Protocol\n'
        "class Carrier:\n    x: int\n    def twice(self):\n        return 2 * self.x\n"
        "class Worker:\n    def work(self):\n        a = 1\n        b = 2\n"
        "        return sorted([a, b], key=lambda x: -x)\n"
        "class Face(Protocol):\n    def work(self): ...\n"
        "def outer():\n    def inner():\n        return 1\n    return inner\n"
    )
    found = names_of(module)
    assert (found["functions"], found["classes"], found["carriers"], found["Protocols"]) == (6, 3, 2, 1)


def test_limits_are_lowered_and_never_raised() -> None:
    """Today's figure becomes the limit where it is lower; a row keeps its reason."""
    text = f'    "files": {LIMITS["files"]:_},  # a reason\n    "options": {LIMITS["options"]:_},\n'
    found = {"files": LIMITS["files"] - 1, "options": LIMITS["options"] + 1}
    lowered = lower(text, found)
    assert lowered == text.replace(f"{LIMITS['files']:_}", f"{LIMITS['files'] - 1:_}", 1)
