"""Rows that are taken out of a stream's past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.branches.history.attached import History as History
    from consumers.branches.history.erasing import erase as erase
    from consumers.branches.history.forgetting import report_of as report_of

__getattr__ = on_first_use(__name__, __file__)
