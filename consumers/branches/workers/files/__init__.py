"""History from files: `streamsvm scale backfill PATH...` learns files before the stream, as workers learn a topic.

Files are looked at first (`survey`): their digests, and how many rows of each partition each part of them holds. The
record of that, a cut of files, goes into the coresets topic; then workers that read files (`worker`, `intake`) learn
the partitions, as processes of this machine (`backfill`) or scheduled by Spark (`spark`).

Invariant: a row's partition, place and bytes follow from the files and the layout alone, whoever reads them, and from
whichever part on. So what is published is what a worker publishes that reads the same rows from the topic.
"""
