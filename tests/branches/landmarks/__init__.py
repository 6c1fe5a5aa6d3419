"""Tests of memories that forget."""
