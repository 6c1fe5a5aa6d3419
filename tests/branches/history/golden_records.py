"""The golden record of erased rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streamsvm.branches.history.erased import Erased, decode_erased, encode_erased
from tests.golden.record import Kept

ERASED: Final = Erased(
    topic="points", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", incarnation=2, continues=1, rows=((0, 5, 0, 3), (3, 9, 2, 4))
)
RECORDS: Final[Mapping[str, Kept]] = {"erased": Kept(lambda: encode_erased(ERASED), decode_erased)}
