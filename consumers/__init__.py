"""The daemons and the command line: they join the layers of `streamsvm` and hold no mathematics."""
