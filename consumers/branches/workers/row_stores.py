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
BACKFILLED: Final = RowStore(
    name="backfilled files",
    holds="the rows themselves; of rejected ones, places and messages in the folder of --dead-letters",
    remains="files that were learned from, and those of rejected rows, as they are",
    given=True,
)
