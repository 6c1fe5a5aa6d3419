"""The promise holds in simulated worlds whose labels come later."""

from __future__ import annotations

from typing import Final

import pytest

from tests.branches.late_labels.worlds import LATE, OTHER_LOG
from tests.simulation.ports import quiet
from tests.simulation.running import BENIGN, small_worlds
from tests.simulation.world import Profile

WORLDS: Final = 300
AT_ONCE: Final = 10


def late_labels(number: int) -> Profile:
    """Return the n-th world in which two logs are joined, of one or two pairs of partitions."""
    faults = {"kill": 3, "power loss": 1, "newest lost": 1, "markers lost": 1, "unanswered": 1, "late": 1, "deliver": 2}
    faults |= dict.fromkeys((*BENIGN, OTHER_LOG), 5) | {"trim": 1 if number % 4 == 3 else 0}
    policy, partitions = ("every", "latest")[number % 2], 1 + (number % 3 == 2)
    return Profile(policy, partitions, 10 + number % 4, 200, faults, variants=(LATE.name,))


@pytest.mark.long(keep=("0",))
@pytest.mark.parametrize("first_seed", range(0, WORLDS, AT_ONCE))
def test_the_promise_holds_where_labels_come_later(first_seed: int) -> None:
    """Two logs that are joined: kills, lost markers, and either log ahead of the other break nothing."""
    with quiet():
        tally = small_worlds(late_labels, range(first_seed, first_seed + AT_ONCE))
    assert [violation.what for violation in tally.violations] == []
    assert tally.schedules == AT_ONCE
