"""What the tree is made of: its size, how far each branch is spread, how far a reader of two functions has to walk.

`python -m tests.structure` measures this tree, `--tree DIR` another checkout, which may be older than the branches:
nothing is imported from it, it is only parsed. `--against DIR` prints both. It reports; `tests.budget` sets limits.
"""
