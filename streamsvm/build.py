"""What this build is: a model can be recomputed bit for bit by the same build on the same CPU target only."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from typing import Final

import llvmlite.binding
from threadpoolctl import threadpool_info

LIBRARIES: Final = ("streamsvm", "numpy", "scipy", "scikit-learn", "numba", "llvmlite")


@cache
def build() -> dict[str, str]:
    """Return the versions of what computes, and the CPU that it computes for."""
    described = {library: version(library) for library in LIBRARIES}
    described["python"] = platform.python_version()
    described["machine"] = platform.machine()
    described["cpu"] = llvmlite.binding.get_host_cpu_name()
    blas = sorted(
        f"{pool['prefix']} {pool['version']} {pool.get('architecture')}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )
    described["blas"] = ", ".join(dict.fromkeys(blas))
    return described
