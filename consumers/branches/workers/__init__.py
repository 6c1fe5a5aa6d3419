"""Workers: processes of `streamsvm scale worker`, which read, decode and learn some partitions each for one trainer.

The trainer decides where a start begins, adopts what workers learned, cuts, trains, publishes and saves. Workers own
partitions by a consumer group or by number, read them with clients of their own, write their dead letters, and leave
states in the coresets topic.

Invariant: only the trainer writes checkpoints and versions. What a worker has learned and not left is learned again by
the next one, with the same bytes; so no worker needs a checkpoint, and killing one loses nothing.
"""
