"""What this build is: a model can be recomputed bit for bit by the same build on the same CPU target only."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from typing import Final

import llvmlite.binding
import numba
from threadpoolctl import threadpool_info

LIBRARIES: Final = ("streamsvm", "numpy", "scipy", "scikit-learn", "numba", "llvmlite")


@cache
def build() -> dict[str, str]:
    """Return the versions of what computes, and the CPU that it computes for."""
    described = {library: version(library) for library in LIBRARIES}
    described["python"] = platform.python_version()
    described["machine"] = platform.machine()
    described["cpu"] = " ".join(
        part for part in (_setting("CPU_NAME") or _host_cpu(), _setting("CPU_FEATURES")) if part
    )
    blas = sorted(
        f"{pool['prefix']} {pool['version']} {pool.get('architecture')}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )
    described["blas"] = ", ".join(dict.fromkeys(blas))
    return described


def _setting(name: str) -> str:
    """Return what the environment tells numba to compile for (NUMBA_CPU_NAME, NUMBA_CPU_FEATURES); empty: the host."""
    return getattr(numba.config, name) or ""


def _host_cpu() -> str:
    return str(llvmlite.binding.get_host_cpu_name())
