"""Models of any stretch of the past: what is learned is archived, built from, and taken out again."""
