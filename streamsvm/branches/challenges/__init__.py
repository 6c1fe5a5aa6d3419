"""Challenges: which of two versions is better, by the labels of scores that both gave to the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.branches.challenges.shadow import InShadow as InShadow

__getattr__ = on_first_use(__name__, __file__)
