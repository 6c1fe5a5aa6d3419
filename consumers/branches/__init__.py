"""Branches among the daemons; each belongs to the one of the same name in `streamsvm.branches`, or stands alone."""
