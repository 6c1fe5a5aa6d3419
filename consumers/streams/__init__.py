"""What trainer and scorer do alike with topics: set up, reject records, settle transactions, look after readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.streams import input_watch as input_watch, score_settlement as score_settlement, settling as settling
    from consumers.streams.abandonable import heeding as heeding
    from consumers.streams.absent_fields import LEAST_EVENTS as LEAST_EVENTS, AbsentWatch as AbsentWatch
    from consumers.streams.dead_letters import HANDFUL as HANDFUL, DeadLetters as DeadLetters
    from consumers.streams.identity import TopicIdentity as TopicIdentity, identity_of as identity_of
    from consumers.streams.moves import moves_id as moves_id
    from consumers.streams.rounded_watch import RoundedWatch as RoundedWatch
    from consumers.streams.score_settlement import positions_of as positions_of
    from consumers.streams.scored_progress import ScoredProgress as ScoredProgress, ScoredTo as ScoredTo
    from consumers.streams.standstill import Standstill as Standstill
    from consumers.streams.topics import KnownPointers as KnownPointers, output_topics as output_topics
    from consumers.streams.unread_watch import UnreadWatch as UnreadWatch

__getattr__ = on_first_use(__name__, __file__)
