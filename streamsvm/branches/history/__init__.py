"""Rows that are taken out of a stream's past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.branches.history.erased import (
        Erased as Erased,
        decode_erased as decode_erased,
        encode_erased as encode_erased,
    )
    from streamsvm.branches.history.erased_part import Obeyed as Obeyed, obeying as obeying

__getattr__ = on_first_use(__name__, __file__)
