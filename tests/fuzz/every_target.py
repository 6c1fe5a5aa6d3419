"""Every target: those of the trunk, and those of each branch from the module `fuzzed` of its tests."""

from __future__ import annotations

from typing import Final

from tests.consumers.host.fuzzed import TARGET as HTTP
from tests.fuzz.compared import COMPARED
from tests.fuzz.messages import MESSAGES
from tests.fuzz.records import RECORDS
from tests.fuzz.targets import Target
from tests.plugged import of_branches

OF_BRANCHES: Final = [target for found in of_branches("fuzzed", "TARGETS") for target in found]
TARGETS: Final[dict[str, Target]] = {
    target.name: target for target in (*RECORDS, *COMPARED, *MESSAGES, HTTP, *OF_BRANCHES)
}
