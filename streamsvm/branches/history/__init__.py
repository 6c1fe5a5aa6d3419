"""Rows that are taken out of a stream's past."""
