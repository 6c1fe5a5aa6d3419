"""Bounds of versions among the daemons: what a trainer compiles for them (`streamsvm.branches.bounds`)."""
