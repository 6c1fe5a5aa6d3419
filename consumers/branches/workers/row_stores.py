"""What workers leave of rows."""

from __future__ import annotations

from typing import Final

from consumers.branches.workers.settings import coresets_topic
from consumers.streams.row_stores import RowStore

CORESETS: Final = RowStore(
    name="coresets topic",
    holds="states of workers: open leaves, outliers that wait, reduced points and audit samples",
    remains="states of workers until Kafka compacts them, if the topic was ever used for this model",
    topics=lambda settings: (coresets_topic(settings),),
)
