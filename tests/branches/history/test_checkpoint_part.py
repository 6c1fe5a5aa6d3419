"""What a checkpoint says of erased rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamsvm.branches.history.erased_part import obeyed_of, obeying
from streamsvm.checkpoint import format as codec
from streamsvm.errors import CorruptCheckpoint
from tests.golden.every_checkpoint import HANDMADE


@pytest.mark.parametrize(
    "wrong",
    [
        {"sha256": "0e" * 31},
        {"sha256": "../" * 21 + "x"},
        {"continues": 2},
        {"rows": 0},
        {"rows": 10_001},
        {"rows_sha256": "1f" * 31},
    ],
)
def test_what_cannot_be_a_record_of_erased_rows_is_refused(wrong: dict[str, Any]) -> None:
    """The hash is one, and an incarnation continues an earlier one."""
    saved = HANDMADE["checkpoint-1-erased"]()
    obeyed = obeyed_of(saved)
    assert obeyed is not None
    with pytest.raises(CorruptCheckpoint, match="is described as made under the record of erased rows"):
        codec.decode(codec.encode(obeying(saved, replace(obeyed, **wrong))))
