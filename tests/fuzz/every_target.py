"""Every target: those of the trunk, and those of each branch from the module `fuzzed` of its tests."""

from __future__ import annotations

from typing import Final

from tests.fuzz.targets import OWN, Target
from tests.plugged import of_branches

TARGETS: Final[dict[str, Target]] = {
    **OWN,
    **{target.name: target for found in of_branches("fuzzed", "TARGETS") for target in found},
}
