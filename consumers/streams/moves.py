"""The transactional id that all who move aliases of a model, or retire versions of it, share; and its settlement."""

from __future__ import annotations

import time
from typing import Final

from consumers.settings import Settings
from consumers.streams.topics import written_places
from consumers.streams.version_settlement import VersionSettlement
from streamsvm.kafka import Cluster

TRANSACTION_TIMEOUT_S: Final = 20.0


def moves_id(settings: Settings) -> str:
    """Return the transactional id under which aliases of a model are moved and its versions retired."""
    return f"streamsvm/{settings.name}/{settings.output.models_topic}/moves"


def settlement_of_moves(settings: Settings, cluster: Cluster) -> VersionSettlement:
    """Return what settles the moves' id before a move is decided: a mover may have died, and the broker with it."""
    return VersionSettlement(
        cluster,
        moves_id(settings),
        written_places(settings),
        transaction_timeout_s=TRANSACTION_TIMEOUT_S,
        monotonic=time.monotonic,
        wait=time.sleep,
        models_topic=settings.output.models_topic,
    )
