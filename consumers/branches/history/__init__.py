"""The past of a stream: its archive, models of any stretch of it, and rows that are taken out of it."""
