"""Replay: the rows of a file onto a topic."""
