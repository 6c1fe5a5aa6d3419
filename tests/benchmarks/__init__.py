"""Measurements, run by hand; their tests check that they run and count right, never how fast."""
