"""What a checkpoint says of erased rows."""

from __future__ import annotations

import pytest

from streamsvm.checkpoint import format as codec
from streamsvm.errors import CorruptCheckpoint
from tests.golden.rewritten import with_parts


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
def test_what_cannot_be_a_record_of_erased_rows_is_refused(wrong: dict[str, object]) -> None:
    """The hash is one, and an incarnation continues an earlier one."""
    with pytest.raises(CorruptCheckpoint, match="is described as made under the record of erased rows"):
        codec.decode(with_parts("checkpoint-1-erased", "snapshot", lambda own: own[0].update(wrong)))
