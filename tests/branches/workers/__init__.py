"""Tests of workers that run anywhere."""
