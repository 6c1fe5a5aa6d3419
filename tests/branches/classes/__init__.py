"""Tests of what several labels share."""
