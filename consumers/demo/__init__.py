"""The demo: a broker, a stream, a trainer and a scorer in one process."""
