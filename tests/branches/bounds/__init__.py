"""Tests of bounds over all rows, from totals that are kept beside the coreset."""
