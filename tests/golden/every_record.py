"""Every golden record: those of the trunk, and those of each branch from the module `golden_records` of its tests."""

from __future__ import annotations

from typing import Final

from tests.golden.record import RECORDS as OWN
from tests.plugged import of_branches

RECORDS: Final = {
    name: kept for found in (OWN, *of_branches("golden_records", "RECORDS")) for name, kept in found.items()
}
