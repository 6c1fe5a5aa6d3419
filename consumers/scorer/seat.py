"""A scorer's seat in its group: the slot, the membership in it, and the publisher under the slot's id."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from consumers.scorer.life import ScorerLife, group_of
from consumers.settings import Settings
from consumers.streams.ports import Stop
from consumers.streams.score_settlement import ScoreSettlement, writer_of
from streamsvm.kafka import GroupStanding, MemberProgress, Publisher, Slot, Subscription

VACANT_SLOTS: Final = 6
"""How many slots without a member are looked into where the group's positions stay in doubt."""


@dataclass(slots=True, kw_only=True)
class Seat:
    """What a claimed slot gives a scorer, until the slot is lost or left.

    Attributes
    ----------
    slot : Slot
    subscription : Subscription
        The membership; the group may not have admitted it yet.
    members : Members
    settlement : ScoreSettlement
    publisher : Publisher or None
        None until the group has admitted the slot's member, and while the id has to be taken over again.
    """

    slot: Slot
    subscription: Subscription
    members: Members
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
        publisher = life.cluster.publisher(self.slot.transactional_id, writer_of(life.identity.topic_id))
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
        begins_anew=settings.scoring.on_gap == "beginning",
    )
    members = Members(group, topic, subscription, life)
    settlement = ScoreSettlement(
        life.cluster,
        slot.transactional_id,
        life.places,
        family=f"{group}-",
        transaction_timeout_s=life.transaction_timeout_s,
        monotonic=time.monotonic,
        wait=stop.wait,
        input_topic=topic,
        group=members,
        topic_id=lambda: life.identity.topic_id,
    )
    return Seat(slot=slot, subscription=subscription, members=members, settlement=settlement)


class Members:
    """The positions of the group, as a settlement needs them."""

    def __init__(
        self,
        group: str,
        topic: str,
        subscription: Subscription,
        life: ScorerLife,
    ) -> None:
        self._standings = life.cluster.standings(group, topic)
        self._subscription = subscription
        self._life = life

    def standings(self) -> dict[int, GroupStanding]:
        """See `consumers.streams.score_settlement.Group`."""
        return {partition: self._known(one) for partition, one in self._standings.of(self._life.partitions).items()}

    def _known(self, one: GroupStanding) -> GroupStanding:
        """Return a position, without the offset if that is one of a topic that was deleted."""
        known = self._life.identity.topic_id
        return replace(one, offset=None) if one.topic_id and known and one.topic_id != known else one

    def progress(self, positions: Mapping[int, int]) -> MemberProgress:
        """See `consumers.streams.score_settlement.Group`."""
        return self._subscription.progress(positions)

    def confirm(self, positions: Mapping[int, int]) -> None:
        """See `consumers.streams.score_settlement.Group`."""
        self._standings.confirm(positions, self._life.transaction_timeout_s)

    def vacant(self) -> list[str]:
        """See `consumers.streams.score_settlement.Group`."""
        return [slot.transactional_id for slot in self._life.slots.vacant(VACANT_SLOTS)]
