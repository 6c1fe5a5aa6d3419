"""Bytes that earlier builds wrote, with what they mean: every later build reads them the same."""
