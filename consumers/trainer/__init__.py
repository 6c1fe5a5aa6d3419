"""The trainer: labeled points in, versions out, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.trainer import kernels as kernels, observer as observer, startup as startup
    from consumers.trainer.components import Components as Components
    from consumers.trainer.gatekeeping import (
        CurrentVersion as CurrentVersion,
        MarginGate as MarginGate,
        Open as Open,
        present_of as present_of,
    )
    from consumers.trainer.owner_watch import OwnerWatch as OwnerWatch
    from consumers.trainer.publishing import nevertheless as nevertheless
    from consumers.trainer.session import STUCK_S as STUCK_S
    from consumers.trainer.startup import check_dimension as check_dimension
    from consumers.trainer.topic_watch import look as look
    from consumers.trainer.trainer import Trainer as Trainer
    from consumers.trainer.warming import WarmUp as WarmUp

__getattr__ = on_first_use(__name__, __file__)
