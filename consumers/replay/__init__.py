"""Replay: the rows of a file onto a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.replay import replay as replay
    from consumers.replay.replay import RecordFormat as RecordFormat, replay_events as replay_events

__getattr__ = on_first_use(__name__, __file__)
