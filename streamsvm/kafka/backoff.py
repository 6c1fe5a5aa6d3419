"""How long to wait before trying again: twice as long each time, up to a ceiling, with a little jitter.

Without jitter, all who lost one broker would come back to it in the same instant. No clock and no random
numbers here: the caller draws the number and does the waiting, so that a test can say what comes out.
"""

from __future__ import annotations

import math

from streamsvm.errors import ConfigurationError


class Backoff:
    """The waits between attempts at one thing. Not thread-safe.

    Parameters
    ----------
    first_s : float
        The wait after the first failure, in seconds, before jitter.
    ceiling_s : float
        No wait is longer, jitter included, in seconds.
    jitter : float
        A wait is spread evenly over this share of it in both directions; in [0, 1).

    Raises
    ------
    ConfigurationError
        If not 0 < `first_s` <= `ceiling_s`, or `jitter` lies outside [0, 1).
    """

    __slots__ = ("_ceiling_s", "_failures", "_first_s", "_jitter", "_most_doublings")

    def __init__(self, first_s: float = 0.1, ceiling_s: float = 10.0, jitter: float = 0.2) -> None:
        if not (0 < first_s <= ceiling_s < math.inf and 0 <= jitter < 1):
            raise ConfigurationError(
                f"a backoff from {first_s} s to {ceiling_s} s with jitter {jitter}",
                "The first wait is positive and no longer than the ceiling, and jitter lies in [0, 1).",
            )
        self._first_s, self._ceiling_s, self._jitter = first_s, ceiling_s, jitter
        self._most_doublings = math.ceil(math.log2(ceiling_s / first_s))
        self._failures = 0

    def next_s(self, random_unit: float) -> float:
        """Return the wait after one more failure, in seconds.

        Parameters
        ----------
        random_unit : float
            A random number in [0, 1), by the caller.
        """
        doublings = min(self._failures, self._most_doublings)
        self._failures += 1
        wait_s = min(self._ceiling_s, self._first_s * 2.0**doublings)
        return min(self._ceiling_s, wait_s * (1 + self._jitter * (2 * random_unit - 1)))

    def reset(self) -> None:
        """Note a success: the next failure is a first one."""
        self._failures = 0
