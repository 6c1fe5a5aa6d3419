"""A scorer's seat in its group: the slot, the membership in it, and the publisher under the slot's id."""

from __future__ import annotations

import time
from dataclasses import dataclass

from consumers.scorer.life import ScorerLife, group_of
from consumers.settings import Settings
from consumers.streams.ports import Stop
from consumers.streams.score_settlement import ScoreSettlement
from streamsvm.kafka import Publisher, Slot, Subscription


@dataclass(slots=True, kw_only=True)
class Seat:
    """What a claimed slot gives a scorer, until the slot is lost or left.

    Attributes
    ----------
    slot : Slot
    subscription : Subscription
        The membership; the group may not have admitted it yet.
    settlement : ScoreSettlement
    publisher : Publisher or None
        None until the group has admitted the slot's member, and while the id has to be taken over again.
    """

    slot: Slot
    subscription: Subscription
    settlement: ScoreSettlement
    publisher: Publisher | None = None

    def renew(self, life: ScorerLife) -> None:
        """Take the slot's transactional id over, and settle what is left open under it.

        Raises
        ------
        TransientError
            If the broker does not answer, or readers have not passed what was settled.
        Fenced
            If another has taken the id.
        """
        publisher = life.cluster.publisher(self.slot.transactional_id)
        try:
            publisher.start()
            with life.cluster.keeping():
                self.settlement.settle(publisher)
        except BaseException:
            publisher.close()
            raise
        self.publisher = publisher


def take_seat(slot: Slot, life: ScorerLife, settings: Settings, stop: Stop) -> Seat:
    """Begin to join the group in a claimed slot."""
    topic, group = settings.scoring.topic, group_of(settings)
    subscription = life.cluster.subscription(
        topic,
        group=group,
        slot=slot,
        client_id=life.slots.client_id,
        topic_id=life.identity.topic_id,
        model=settings.name,
        place=life.placing.place,
    )
    settlement = ScoreSettlement(
        life.cluster,
        slot.transactional_id,
        life.places,
        family=f"{group}-",
        transaction_timeout_s=life.transaction_timeout_s,
        monotonic=time.monotonic,
        wait=stop.wait,
        input_topic=topic,
        progress=life.progress,
        now_ms=lambda: round(1000 * time.time()),
    )
    return Seat(slot=slot, subscription=subscription, settlement=settlement)
