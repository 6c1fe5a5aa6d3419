"""The trainer: labeled points in, versions out, each once."""
