"""The socket of what `verify` judges beside versions, of records that a branch has in the topics of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from consumers.settings import Settings
from streamsvm.kafka import Cluster
from streamsvm.sockets import DAEMONS, plugged

SOCKET: Final = "judges"


@dataclass(frozen=True, slots=True)
class Judge:
    """What stands at the socket.

    Attributes
    ----------
    judge : callable
        Takes the cluster, the settings and the seconds to wait without progress; returns what is wrong, and what could
        not be judged, as lists of texts.
    """

    judge: Callable[[Cluster, Settings, float], tuple[list[str], list[str]]]


def judged(cluster: Cluster, settings: Settings, timeout_s: float) -> tuple[list[str], list[str]]:
    """Return what all branches found wrong, and what they could not judge."""
    faults, notes = list[str](), list[str]()
    for one in plugged(SOCKET, Judge, DAEMONS):
        wrong, unjudged = one.judge(cluster, settings, timeout_s)
        faults += wrong
        notes += unjudged
    return faults, notes
