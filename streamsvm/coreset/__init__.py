"""Weighted coresets: moments, reducers, and the merge-and-reduce structure of a partition."""
