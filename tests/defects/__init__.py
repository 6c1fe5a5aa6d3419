"""Planted defects: one list of behaviours that the tests must find, each with a small patch of the product.

    python -m tests.defects                              # each defect, what it does, and who finds it
    python -m tests.defects.process NAME[+NAME] train ...  # a daemon with defects or disturbances in it

A test finds a defect with `with planted("resends"):` in its own process, or starts a process with it. Only this package
patches the product; a rewrite ports its patches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.defects import disturbances, joining, learning, publishing, reading, scoring, workers
from tests.defects.planting import TABLE, Defect, Live, Simulated, planted

__all__ = ["DEFECTS", "LIVE", "SIMULATED", "TABLE", "Defect", "Live", "Simulated", "planted"]

MODULES: Final = (publishing, reading, learning, scoring, joining, workers, disturbances)
DEFECTS: Final[Mapping[str, Defect]] = TABLE.defects
SIMULATED: Final[Mapping[str, Simulated]] = {
    f"scorer-that-{name}" if place.scorer else name: place
    for name, defect in DEFECTS.items()
    for place in defect.simulated
}
"""Simulated worlds, by the name of the defect that shows there."""

LIVE: Final[Mapping[str, Live]] = {name: defect.live for name, defect in DEFECTS.items() if defect.live is not None}
