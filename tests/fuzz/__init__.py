"""Hostile bytes, without end: what the readers of bytes do with what nobody should have sent.

`mutation` changes the cases of `tests/contract`, each a pure function of (cases, seed, index). `compared` asks the
general reader what the compiled ones should make of them, `records` a foreign library, `messages` whether the record
can be written again. ``python -m tests.fuzz NAME --more N --json FILE`` counts and goes on where it ended.
"""
