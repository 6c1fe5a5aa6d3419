"""Tests of raw events."""
