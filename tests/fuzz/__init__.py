"""Hostile bytes, without end: what the readers of bytes do with what nobody should have sent.

`mutation` makes cases from a small kept corpus, each a pure function of (corpus, seed, index); `targets` hands each to
a reader and to its reference; `python -m tests.fuzz NAME --count N --json FILE` counts and goes on where it ended;
`python -m tests.fuzz NAME --guided` lets atheris look for cases that reach code which no other reached.
"""
