"""Only a missed deadline is run again."""

from __future__ import annotations

import pytest

from tests.deadline import Late, eventually, is_missed


def test_a_missed_deadline_is_told_from_a_wrong_value() -> None:
    """By the first line of what failed; words about time in a comparison make no deadline of it."""
    assert is_missed("    def test():\n>       eventually(...)\nE   tests.deadline.Late: never within 1 s: version 2\n")
    assert is_missed("E       Failed: Timeout (>300.0s) from pytest-timeout.\n")
    assert not is_missed("E       assert 'Failed: Timeout (>1' == 'tests.deadline.Late: '\n")
    assert not is_missed("E       AssertionError: scored twice\nE       tests.deadline.Late: never within 1 s\n")


def test_waiting_ends() -> None:
    """With what was waited for."""
    with pytest.raises(Late, match="never within 0 s: a version"):
        eventually(lambda: False, "a version", 0.05)
