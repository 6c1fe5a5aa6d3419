"""Bounds of a version over all rows, by totals that are kept beside the coreset (`coreset.totals`)."""
