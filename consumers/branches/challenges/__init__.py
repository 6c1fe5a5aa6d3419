"""Challenges: a version becomes current once it was better than the current one in its shadow."""
