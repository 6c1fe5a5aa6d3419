"""The tests. numpy is imported below this line only: BLAS runs one thread in them, as in every command."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
