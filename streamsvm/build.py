"""What this build is: a model can be recomputed bit for bit by the same build on the same CPU target only."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from typing import Final

import llvmlite.binding
import numba
import numpy as np
from threadpoolctl import threadpool_info

from streamsvm.compiling import code_generation

LIBRARIES: Final = ("streamsvm", "numpy", "scipy", "scikit-learn", "numba", "llvmlite")


@cache
def build() -> dict[str, str]:
    """Return the versions of what computes, the CPU that it computes for, and how numba makes code for it.

    Of each BLAS library: its name, version and kernels. numpy and scipy may each bring one.
    """
    import scipy.linalg  # noqa: F401 - loads scipy's BLAS, so that every process of a build names the same

    described = {library: version(library) for library in LIBRARIES}
    described["python"] = platform.python_version()
    described["machine"] = platform.machine()
    described["cpu"] = " ".join(
        filter(None, (_setting("CPU_NAME") or str(llvmlite.binding.get_host_cpu_name()), _setting("CPU_FEATURES")))
    )
    described["code"] = " ".join(f"{name}={value}" for name, value in code_generation().items())
    blas = {
        " ".join(str(pool[part]) for part in ("internal_api", "version", "architecture") if pool.get(part))
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    described["blas"] = ", ".join(sorted(blas))
    described["simd"] = " ".join(_simd())
    described["libc"] = " ".join(platform.libc_ver())
    return described


def _simd() -> list[str]:
    """Return the CPU features that numpy chose its loops by: exp and log differ in bits between them.

    A machine of the same CPU may lack some, by its hypervisor or by NPY_DISABLE_CPU_FEATURES.
    """
    shown = np.show_config(mode="dicts").get("SIMD Extensions", {})  # what is empty is left out
    return [str(feature) for feature in shown.get("found", ())]


def _setting(name: str) -> str:
    """Return what numba compiles for by the environment (NUMBA_CPU_NAME, NUMBA_CPU_FEATURES); empty: the host."""
    return getattr(numba.config, name) or ""
