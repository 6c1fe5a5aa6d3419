"""Runs pytest again and again, each time in a fork of a process that has imported what takes long: `warm.py ROOT`.

Reads a line of JSON for each run, and writes the exit status. Nothing of the product is imported before the fork.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

IMPORTED: Final = (
    "pytest",
    "numpy",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.special",
    "scipy.stats",
    "numba.core.typed_passes",
    "sklearn.svm",
    "sklearn.linear_model",
    "sklearn.utils.estimator_checks",
    "pyarrow.parquet",
    "confluent_kafka.admin",
    "structlog",
    "rich.console",
    "prometheus_client",
)


def main() -> None:
    """Run what standard input asks for, until it ends."""
    sys.path[0] = sys.argv[1]
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        run = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(run)
            import pytest

            sys.exit(pytest.main(run["arguments"]))
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        answers.flush()


def _become(run: dict[str, Any]) -> None:
    """Be a process of its own, with an output and an end of its own."""
    os.setsid()
    output = os.open(run["output"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((null, 0), (output, 1), (output, 2)):
        os.dup2(here, there)
    os.environ.update(run["environment"])
    most_s = run["cpu_s"]
    resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s + 5))
    sys.argv = ["pytest"]


if __name__ == "__main__":
    main()
