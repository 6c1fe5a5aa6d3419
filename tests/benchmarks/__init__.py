"""Measurements, run by hand or by `make bench`; their tests check that they run and count right, never how fast."""
