"""Learning in several processes."""
