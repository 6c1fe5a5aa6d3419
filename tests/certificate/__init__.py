"""Tests of `streamsvm.certificate`."""
