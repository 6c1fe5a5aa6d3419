"""How good versions are: the gate, prequential scores, drift, and what a model looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.quality.gate import (
        LEAST_OF_A_LABEL as LEAST_OF_A_LABEL,
        Evidence as Evidence,
        Verdict as Verdict,
        judge as judge,
    )
    from streamsvm.quality.prequential import Baseline as Baseline, Prequential as Prequential
    from streamsvm.quality.skill import Answered as Answered, skill_of as skill_of

__getattr__ = on_first_use(__name__, __file__)
