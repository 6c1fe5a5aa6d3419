"""Which metrics a daemon has: its own, and those of the branches that are on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from consumers.metrics import scorer_metrics, trainer_metrics
from consumers.metrics.definition import Definition
from streamsvm.sockets import DAEMONS, plugged

if TYPE_CHECKING:
    from consumers.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMetrics:
    """Metrics that a branch adds to those of a daemon.

    Attributes
    ----------
    definitions : tuple of Definition
    after : str
        The metric of the daemon behind which they are listed; empty: before all.
    wanted : callable
        Tells whether a daemon of these settings has them.
    """

    definitions: tuple[Definition, ...]
    after: str
    wanted: Callable[[Settings], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonMetrics:
    """Metrics of a daemon that a branch brings, and its title in the list of all metrics."""

    title: str
    definitions: tuple[Definition, ...]


class Table:
    """The metrics of a daemon. Those of branches are added when the table is read, and may be loaded until then.

    Parameters
    ----------
    socket : str
    own : sequence of Definition
        Without those of the branches.
    """

    def __init__(self, socket: str, own: Sequence[Definition]) -> None:
        self._socket, self._own = socket, own

    def __iter__(self) -> Iterator[Definition]:
        """Iterate over the metrics of a daemon in which every branch is on."""
        return self._with(plugged(self._socket, BranchMetrics, DAEMONS))

    def of(self, settings: Settings) -> tuple[Definition, ...]:
        """Return the metrics of a daemon of these settings."""
        return tuple(self._with([one for one in plugged(self._socket, BranchMetrics, DAEMONS) if one.wanted(settings)]))

    def _with(self, branches: Sequence[BranchMetrics]) -> Iterator[Definition]:
        for name in ("", *(one.name for one in self._own)):
            yield from (one for one in self._own if one.name == name)
            yield from (one for branch in branches if branch.after == name for one in branch.definitions)


TRAINER: Final = Table("trainer_metrics", trainer_metrics.OWN)
"""Metrics of the trainer."""
SCORER: Final = Table("scorer_metrics", scorer_metrics.OWN)
"""Metrics of the scorer."""


def other_daemons() -> tuple[DaemonMetrics, ...]:
    """Return the metrics of the daemons that branches bring."""
    return plugged("daemon_metrics", DaemonMetrics, DAEMONS)
