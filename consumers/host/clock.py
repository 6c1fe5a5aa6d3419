"""The clocks that a daemon reads, as an argument: no model depends on either."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """The two clocks that the trainer reads; tests give their own.

    Attributes
    ----------
    monotonic : callable
        Seconds that never go back, for intervals.
    now : callable
        The time of day, for headers and metrics only: no model depends on it.
    """

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
