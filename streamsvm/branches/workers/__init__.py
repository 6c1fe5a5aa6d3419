"""What workers learn: how it is handed over, combined, and kept in the coresets topic.

A partition's structure is a pure function of its log, the configuration and the seed; so it does not matter who builds
it, and whoever is behind harms nothing.
"""
