"""The promise as one list of invariants: pure functions over what the topics hold, in the standard library only.

Three adapters feed them: simulated logs (`tests.simulation.invariants`), topics that were read
(`tests.promise.topics`), and recorded histories (the checker of the live tests).
"""
