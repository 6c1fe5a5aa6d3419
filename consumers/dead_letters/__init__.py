"""What people do with dead letters: list them, and send mended ones again."""
