"""Memories that forget: a window, weights that decay, and horizons that win their share (`coreset.memory`)."""
