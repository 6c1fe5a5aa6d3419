"""The past of a stream: refined models, and rows that are taken out of it."""
