"""The scorer: points in, scores out, each once."""
