"""How often models are trained while the input has more to read than the trainer has read.

Under `latest` a model is always due where the input never ends, and training without a pause would take half of a
processor from reading, for a dozen versions a second. So training takes a share of the time, `TRAINING_SHARE`: after a
model that took t seconds the next one begins t / share - t seconds later, or as soon as the loop has waited for
records: in vain, or for t seconds in all. Then there is little that training could keep from being read.

Invariant: it delays what is trained, never what is learned; under `every` nothing is delayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

LEARN_S: Final = 0.03
"""How long a loop learns before it looks at everything else; the step that is under way then is finished. It decides
when rows are learned, and nothing of what. A shorter time would spend more on looking, a longer one lets a stop, a
probe or a finished training wait."""


class Pace:
    """Says whether a model may be trained now.

    Parameters
    ----------
    share : float
        Of the time, in (0, 1].
    monotonic : callable
        Returns seconds.
    """

    def __init__(self, share: float, monotonic: Callable[[], float]) -> None:
        self._share, self._monotonic = share, monotonic
        self._begun = self._ended = monotonic()
        self._took = self._waited = 0.0

    def begin(self) -> None:
        """Note that a training begins."""
        self._begun = self._monotonic()

    def end(self) -> None:
        """Note that its result came."""
        self._ended = self._monotonic()
        self._took, self._waited = self._ended - self._begun, 0.0

    def waited(self, seconds: float, *, came: int) -> None:
        """Note how long the loop waited for records, of which fewer came than it would have taken, or none."""
        self._waited += seconds if came else math.inf

    @property
    def ready(self) -> bool:
        """Whether the next training may begin."""
        rest = self._took * (1.0 / self._share - 1.0)
        return self._waited >= self._took or self._monotonic() - self._ended >= rest
