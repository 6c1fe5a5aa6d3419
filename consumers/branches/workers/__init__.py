"""Workers: processes that read, decode and learn some partitions each for one trainer (`training.workers`).

The trainer decides where a start begins, adopts what workers learned, cuts, trains, publishes and saves. A worker owns
the partitions whose number leaves its own number as the remainder of a division by the number of workers; it reads them
with a client of its own, writes their dead letters, and hands over their states when it is asked.

Invariant: only the trainer writes checkpoints and versions. What a worker has learned and not handed over is learned
again by the next one, with the same bytes; so no worker needs a checkpoint, and killing one loses nothing.
"""
