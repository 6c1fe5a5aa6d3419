"""Tests of workers: a crew over socket pairs, workers that run anywhere, and backfills."""
