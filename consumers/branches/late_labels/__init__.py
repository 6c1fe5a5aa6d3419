"""Labels that come later, in a topic of their own, and are joined with the features that wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.branches.late_labels import joined_source as joined_source
    from consumers.branches.late_labels.joined_source import rules_of as rules_of
    from consumers.branches.late_labels.settings import LabelsConfig as LabelsConfig

__getattr__ = on_first_use(__name__, __file__)
