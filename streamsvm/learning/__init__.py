"""From the rows of a log to a version: what `version = f(log, configuration, seed, cut)` is made of."""
