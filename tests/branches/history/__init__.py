"""Tests of erasures."""
