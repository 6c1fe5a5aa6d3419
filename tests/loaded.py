"""Loads the compiled kernels of a common trainer, for the processes that `tests.forked` forks: importing it is enough.

Where they are not compiled yet it leaves that to whoever runs them: a command that runs none need not wait for it.
"""

from tests.compiled import is_compiled
from tests.kernels import linear

if is_compiled():
    linear()
