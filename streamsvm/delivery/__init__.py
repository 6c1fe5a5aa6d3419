"""Publish and recovery without I/O or clock: what a start decides, and what a publisher may do next.

The log decides: the transaction that publishes a version is the version's commit point, and the head record in the same
transaction says how far the topic has come. A checkpoint only caches a pure function of the log, so recovery never
trusts a checkpoint more than the topic.

`decide` is the table of a start. `Delivery` is the state machine of one process's publishing. `judge` says what is left
of a transaction that a broker did not finish. `survey` says what a check of the input topic means for a running
trainer. Their callers do the I/O.
"""

from streamsvm.delivery.decision import (
    Begin,
    Candidate,
    Present,
    Resume,
    SideLog,
    decide,
    places,
    reads_on,
    reset_token,
)
from streamsvm.delivery.machine import TRANSITIONS, Delivery, Event, State
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.delivery.settlement import NOT_STORED, AttemptRecord, AttemptVerdict, Judgement, judge, redirected
from streamsvm.delivery.survey import LogSurvey, Look, survey

__all__ = [
    "NOT_STORED",
    "TRANSITIONS",
    "AttemptRecord",
    "AttemptVerdict",
    "Begin",
    "Candidate",
    "Delivery",
    "Event",
    "Judgement",
    "LogSurvey",
    "Look",
    "Pipeline",
    "Present",
    "Resume",
    "SideLog",
    "State",
    "decide",
    "judge",
    "places",
    "reads_on",
    "redirected",
    "reset_token",
    "survey",
]
