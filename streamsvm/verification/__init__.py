"""Whether the versions of a topic are what its log and their configurations give."""
