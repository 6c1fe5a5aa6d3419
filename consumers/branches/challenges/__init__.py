"""Challenges: a version becomes current once it was better than the current one in its shadow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.branches.challenges.reading import logs_of as logs_of

__getattr__ = on_first_use(__name__, __file__)
