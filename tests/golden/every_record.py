"""Every golden record: those of the trunk, and those of each branch from the module `golden_records` of its tests.

``python -m tests.golden.every_record`` writes the files that are missing. It never changes one: what was once released
stays as it is.
"""

from __future__ import annotations

import json
from typing import Final

from tests.golden import HERE
from tests.golden.checkpoint import as_json
from tests.golden.record import RECORDS as OWN
from tests.plugged import of_branches

RECORDS: Final = {
    name: kept for found in (OWN, *of_branches("golden_records", "RECORDS")) for name, kept in found.items()
}


if __name__ == "__main__":
    for name, kept in RECORDS.items():
        value = kept.make()
        means = json.dumps(as_json(kept.read(value)), indent=1).encode() + b"\n"
        for path, content in ((HERE / f"{name}.record", value), (HERE / f"{name}.record.json", means)):
            if not path.exists():
                path.write_bytes(content)
