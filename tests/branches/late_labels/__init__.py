"""Tests of late labels."""
