"""Each mistake of configuration is answered by what happened and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.consumers.cli.mistakes import MISTAKES, Mistake, make


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_told_what_happened_and_what_to_do(mistake: Mistake, tmp_path: Path) -> None:
    """By one message, with the documented exit status, and in none of pydantic's words."""
    answer = make(mistake, tmp_path)
    assert answer.status == mistake.status, answer
    assert re.search(mistake.happened, answer.message), answer
    assert re.search(mistake.remedy, answer.message), answer
    assert not re.search("Input should|Traceback|validation", answer.message), answer


def test_there_are_fifty() -> None:
    """At least, and no two of one kind."""
    assert len({mistake.what for mistake in MISTAKES}) == len(MISTAKES) >= 50
