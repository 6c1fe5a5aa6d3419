"""Mutants: the product with one small fault, drawn anew from a package, and whether its tests find the fault.

Planted defects (`tests.defects`) are chosen, and so are the tests that find them. Mutants are drawn by a seed: the
share that is killed says how much of a package its tests hold, and a rewrite of the package must not lower it.
"""
