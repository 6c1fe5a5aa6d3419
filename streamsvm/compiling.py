"""`njit` for every compiled function, under the settings that change its code and in a cache that belongs to them.

numba compiles other code, and so other bits, under other settings (`NUMBA_OPT`, `NUMBA_LOOP_VECTORIZE`, a vector math
library that happens to be installed, ...), but its file cache asks for the CPU only: whoever fills a cache would decide
what others compute from it. So the settings are part of the build's identity (`streamsvm.build`), and of the name of
the folder that the code is cached in.

Invariant: a folder holds code of one set of settings. Only `__pycache__` beside the sources, and numba's own folder of
the user, have no name of that kind: they hold code of the default settings.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numba
from numba.core import config

logger = logging.getLogger("streamsvm.compiling")
_config: Any = config

DEFAULTS: Final = {
    "OPT": "3",
    "LOOP_VECTORIZE": "1",
    "SLP_VECTORIZE": "0",
    "USING_SVML": "False",
    "BOUNDSCHECK": "None",
    "DISABLE_JIT": "0",
    "ENABLE_AVX": "True",
    "DEBUGINFO_DEFAULT": "0",
    "EXTEND_VARIABLE_LIFETIMES": "0",
    "LLVM_REFPRUNE_PASS": "1",
    "LLVM_REFPRUNE_FLAGS": "all",
}
"""The settings of `numba.config` that change code, CPU aside, with the values that they have where nobody sets them."""


def code_generation() -> dict[str, str]:
    """Return the value in force of each setting of `DEFAULTS`."""
    return {name: _shown(getattr(config, name)) for name in DEFAULTS}


def _shown(value: object) -> str:
    """Return a value as text; of an optimisation level its number, or `max`."""
    if getattr(value, "is_opt_max", False):
        return "max"
    return str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _place() -> tuple[str, str]:
    """Return the folder for compiled code, and why nothing can be kept; empty: numba's own choice, and no reason."""
    settings, given = code_generation(), str(_config.CACHE_DIR)
    if settings == DEFAULTS and not given:
        return "", ""
    name = "code-" + hashlib.sha256(repr(sorted(settings.items())).encode()).hexdigest()[:12]
    own = Path(os.path.expanduser("~/.cache/streamsvm"))  # noqa: PTH111 - the other one raises where there is no home
    places = [Path(given)] if given else [Path(__file__).parent / "__pycache__", own]
    faults = []
    for place in places:
        try:
            (place / name).mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place / name).close()
        except OSError as error:
            faults.append(f"{place}: {error.strerror or error}")
        else:
            return os.fspath(place / name), ""
    return "", "; ".join(faults)


CACHE, CACHE_FAULT = _place()
"""The folder for compiled code, empty where numba chooses it; and why code cannot be kept, empty where it can. Without
a folder every process compiles anew."""
if CACHE:
    _config.CACHE_DIR = CACHE


def _njit(**options: Any) -> Any:
    """Return `numba.njit` with these options, which caches only where that is safe."""
    if CACHE_FAULT:
        options.pop("cache", None)
    compiling = numba.njit(**options)

    def compiled(function: Any) -> Any:
        dispatcher = compiling(function)
        if options.get("cache") and hasattr(dispatcher, "_cache"):
            kept = dispatcher._cache  # numba has no other way to go on where a disk is full
            kept.save_overload = partial(_keep, kept.save_overload)
        return dispatcher

    return compiled


def _keep(save: Callable[[Any, Any], None], signature: Any, code: Any) -> None:
    try:
        save(signature, code)
    except OSError as error:
        _warn(str(error))


@cache
def _warn(why: str) -> None:
    """Say once why code is not kept."""
    logger.warning("compiled code is not kept (%s): every start compiles anew until the disk takes it", why)


njit: Any = _njit
"""`_njit`; what it decorates has no type, as with numba's own."""
