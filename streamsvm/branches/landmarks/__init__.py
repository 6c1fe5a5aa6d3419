"""Landmarks: RBF machines of a few terms, by which every row of a stream can be screened."""
