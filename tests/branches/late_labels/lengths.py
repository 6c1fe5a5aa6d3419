"""Which cases of the trunk's tests are long that this branch adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LONG_CASES: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/simulation/test_simulation.py::test_the_promise_holds_in_every_schedule_of_the_smallest_worlds": (
        "late labels",
    ),
}
