"""Where defects show on a live system, by their names in `tests.defects`."""

from __future__ import annotations

from typing import Final

from tests.defects import LIVE as DEFECTS
from tests.defects import Live as Defect
from tests.defects.process import main

__all__ = ["AFTER_SETTLING", "DEFECTS", "Defect", "main"]

AFTER_SETTLING: Final[tuple[str, ...]] = ()

if __name__ == "__main__":
    main()
