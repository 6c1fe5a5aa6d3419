"""The golden checkpoint under a record of erased rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streamsvm.branches.history.erased_part import Obeyed, obeying
from streamsvm.checkpoint import Snapshot
from tests.golden.checkpoint import handmade


def handmade_erased() -> Snapshot:
    """Return the same, made under a record of erased rows."""
    return obeying(handmade(), Obeyed(sha256="0e" * 32, continues=1, rows=2, rows_sha256="1f" * 32))


CHECKPOINTS: Final[Mapping[str, Callable[[], Snapshot]]] = {"checkpoint-1-erased": handmade_erased}
PARTS: Final = (("snapshot", "checkpoint-1-erased", "erased"),)
WRONG: Final = (("parts.info_without", "sha256", "ab"),)
"""Values that no version has: where they stand, the field, the value."""
