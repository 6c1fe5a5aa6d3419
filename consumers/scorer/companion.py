"""The socket at which a branch says something of its own in every score, beside the version that serves.

A branch plugs a `ScorerPlug` in at the socket `scorer`. Of what the configuration wants the first one counts, in the
order of the branches' names; nothing else of a branch that is not wanted is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from streamsvm.sockets import DAEMONS, import_name, plugged

if TYPE_CHECKING:
    from consumers.metrics import Metrics
    from consumers.settings import Settings
    from streamsvm.ingest.scored import ExtraFields
    from streamsvm.kafka import Connection
    from streamsvm.registry.loading import Loaded

SOCKET: Final = "scorer"


class Companion:
    """Knows what is said beside the version that serves; this one says nothing. Entered while scores are made."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def beside(self, serving: Loaded) -> ExtraFields | None:  # noqa: ARG002 - a branch may look at it
        """Return what speaks beside a version, the same object while it stays the same; None: nothing does."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerPlug:
    """What a branch plugs in at the socket `scorer`.

    Attributes
    ----------
    wanted : callable
        Tells whether a configuration turns it on.
    companion : str
        Module and name, ``module:name``, of what takes settings, a connection and metrics, and returns a `Companion`.
    """

    wanted: Callable[[Settings], bool]
    companion: str


def companion_of(settings: Settings, connection: Connection, metrics: Metrics) -> Companion:
    """Return what the configuration wants, not entered yet."""
    plug = next((one for one in plugged(SOCKET, ScorerPlug, DAEMONS) if one.wanted(settings)), None)
    if plug is None:
        return Companion()
    make = import_name(plug.companion)
    assert callable(make)
    made = make(settings, connection, metrics)
    assert isinstance(made, Companion)
    return made
