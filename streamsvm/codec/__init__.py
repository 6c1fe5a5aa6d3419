"""Between bytes and meaning: points, dead letters, model versions and checkpoints; no I/O."""
