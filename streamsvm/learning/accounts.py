"""Whether accounts of all rows are kept, and by whom (`streamsvm.coreset.accounting`)."""

from __future__ import annotations

from functools import cache
from typing import Final

from streamsvm.config import ModelConfig
from streamsvm.coreset.accounting import Accounting
from streamsvm.learning.tasks import Task
from streamsvm.sockets import plugged

SOCKET: Final = "accounting"


@cache
def accounting() -> Accounting | None:
    """Return what is plugged in; None if nothing is.

    Raises
    ------
    ValueError
        If there are two.
    """
    found = plugged(SOCKET, Accounting)  # type: ignore[type-abstract]
    if len(found) > 1:
        raise ValueError(f"{len(found)} branches keep accounts of all rows; at most one can")
    return found[0] if found else None


def accounting_of(config: ModelConfig, task: Task) -> Accounting | None:
    """Return what keeps accounts; None where nobody does, or an estimator of more classes shares one structure."""
    return accounting() if config.totals and task.classes == 2 else None
