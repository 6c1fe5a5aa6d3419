"""Tests of the past: archive, stretches, refining, erasure."""
