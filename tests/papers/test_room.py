"""The room of the papers' algorithms: what it says is so; and how choices are plugged in."""

from __future__ import annotations

import doctest

import pytest

from streamsvm import papers
from streamsvm.sockets import Choices


def test_the_examples_of_the_docstring() -> None:
    """The room's example says what it prints."""
    found = doctest.testmod(papers)
    assert found.attempted > 0
    assert found.failed == 0


def test_a_table_knows_no_other_name() -> None:
    """And finds its own without any room."""
    table = Choices("no such socket", {"a": 1})
    assert dict(table) == {"a": 1}
    with pytest.raises(KeyError):
        table["b"]
