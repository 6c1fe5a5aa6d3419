"""Challenges: which of two versions is better, by the labels of scores that both gave to the same rows."""
