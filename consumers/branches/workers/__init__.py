"""Workers: processes of `streamsvm scale worker`, which read, decode and learn some partitions each for one trainer.

The trainer decides where a start begins, adopts what workers learned, cuts, trains, publishes and saves. Workers own
partitions by a consumer group or by number, read them with clients of their own, write their dead letters, and leave
states in the coresets topic.

Invariant: only the trainer writes checkpoints and versions. What a worker has learned and not left is learned again by
the next one, with the same bytes; so no worker needs a checkpoint, and killing one loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsvm.offered import on_first_use

if TYPE_CHECKING:
    from consumers.branches.workers import settings as settings
    from consumers.branches.workers.coresets_topic import topic_spec as topic_spec

__getattr__ = on_first_use(__name__, __file__)
