"""The archive of sealed buckets: what any stretch of the past is made of again, long after the log has lost it."""
