"""Verify: every version computed anew from the log, and compared."""
