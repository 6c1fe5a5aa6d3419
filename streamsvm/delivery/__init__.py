"""Publish and recovery without I/O or clock: what a start decides, and what a publisher may do next.

The log decides: the transaction that publishes a version is the version's commit point, and the head record in the same
transaction says how far the topic has come. A checkpoint only caches a pure function of the log, so recovery never
trusts a checkpoint more than the topic.

`decide` is the table of a start. `Delivery` is the state machine of one process's publishing. `judge` says what is left
of a transaction that a broker did not finish. `survey` says what a check of the input topic means for a running
trainer. Their callers do the I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from streamsvm.delivery.decision import (
        Begin as Begin,
        Candidate as Candidate,
        Present as Present,
        Resume as Resume,
        decide as decide,
        reads_on as reads_on,
        with_recipe as with_recipe,
    )
    from streamsvm.delivery.input_survey import Look as Look
    from streamsvm.delivery.settlement import AttemptRecord as AttemptRecord

__getattr__ = on_first_use(__name__, __file__)
