"""What raw events are to a person: the commands that propose features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.branches.events import sampling as sampling

__getattr__ = on_first_use(__name__, __file__)
