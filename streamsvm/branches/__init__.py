"""Branches of the library: what the one sentence of the design does not need, each in a folder of its own.

A branch imports what it likes of the trunk; nothing outside of its two folders imports a branch. `streamsvm.sockets`
says how it is plugged in.
"""
