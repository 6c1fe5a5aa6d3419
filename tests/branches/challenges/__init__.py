"""Tests of challenges, and of the quality as served."""
