"""Where the branch is missing, and rows were erased while it was there."""

from __future__ import annotations

from pathlib import Path

from tests.branches.removed import copy_without, stream_in


def test_a_trunk_that_cannot_read_the_record_refuses_to_start(tmp_path: Path) -> None:
    """It would learn the rows; a record under another key changes nothing."""
    tree = copy_without("history", tmp_path)
    refused = stream_in(tree, "--record", "m@erased")["refused"]
    assert "the aliases topic holds the record m@erased: rows of the input were erased" in refused
    assert "this one lacks the branch that reads it" in refused
    assert stream_in(tree, "--record", "other@erased")["status"] == 0
