"""Challenges in a trainer: a gate behind the quality gate, and what is done about a challenge in every turn."""

from __future__ import annotations

from consumers.branches.challenges.challenges import Challenges
from consumers.branches.challenges.shadow_gate import ShadowGate
from consumers.trainer.attachment import Attachment, Making, Part
from consumers.trainer.gatekeeping import Gatekeeper
from consumers.trainer.session import Session
from streamsvm.delivery.machine import Delivery
from streamsvm.model.version import Version


class ShadowOfTrainer(Attachment):
    """Versions become current once they have won a challenge."""

    _gate: ShadowGate

    def gate(self, gate: Gatekeeper) -> Gatekeeper:
        """Let what passes the quality gate wait for a challenge."""
        self._gate = ShadowGate(gate, self.world.delivery.head, self.world.components.metrics)
        return self._gate

    def part(self, making: Making) -> Part:
        """Return what begins, follows and ends challenges."""
        parts = self.world.components
        challenges = Challenges(
            making.settings,
            parts.cluster,
            self.world.session,
            self._gate,
            making.quality,
            parts.metrics,
            now=parts.clock.now,
            monotonic=parts.clock.monotonic,
        )
        self.world.stack.callback(challenges.close)
        return _Turns(challenges, self.world.delivery, self.world.session)


class _Turns(Part):
    def __init__(self, challenges: Challenges, delivery: Delivery, session: Session) -> None:
        self._challenges, self._delivery, self._session = challenges, delivery, session

    def turn(self) -> Version | None:
        if self._session.sending:  # nothing is in doubt, and a turn comes between two versions
            return None
        return self._challenges.turn(ready=self._delivery.ready)
