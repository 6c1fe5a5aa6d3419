"""Labels that come later: features of one log and labels of another, joined by key; without I/O, clock or threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.joining.joiner import Joiner as Joiner
    from streamsvm.joining.log_time import CONFIRM as CONFIRM, ENOUGH as ENOUGH, OF as OF
    from streamsvm.joining.rows import FeatureRows as FeatureRows, JoinRules as JoinRules, LabelRows as LabelRows

__getattr__ = on_first_use(__name__, __file__)
