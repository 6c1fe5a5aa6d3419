"""Labels that come later, in a log of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.branches.late_labels.joining import Joining as Joining, joining_of as joining_of

__getattr__ = on_first_use(__name__, __file__)
