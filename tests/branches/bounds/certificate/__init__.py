"""Tests of `streamsvm.branches.bounds.certificate`."""
