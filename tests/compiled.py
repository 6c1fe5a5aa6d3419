"""Compiles what many tests run, before the first of them starts: `python -m tests.compiled`.

In a bare clone that is a minute or two of work. Left to the tests, each process of them would do it for itself at the
same time as the others, and each daemon would take longer over it than a daemon is waited for.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
STAMP: Final = "compiled-for-tests.json"
PARTS: Final = ("linear", "rbf")
"""Of `tests.kernels`, each for a process of its own: numba compiles on one processor only."""


def compile_kernels() -> None:
    """Fill numba's cache, unless nothing was edited since it was filled and nothing of it is gone."""
    package = package_directory()
    (package / "__pycache__").mkdir(exist_ok=True)
    with (package / "__pycache__" / STAMP).open("a+") as stamp:
        fcntl.flock(stamp, fcntl.LOCK_EX)  # another run may be at it: wait for it
        stamp.seek(0)
        before = stamp.read()
        if before and is_filled(package, json.loads(before)):
            return
        running = [subprocess.Popen([sys.executable, "-m", "tests.kernels", part], cwd=ROOT) for part in PARTS]
        statuses = [process.wait() for process in running]
        if any(statuses):
            raise RuntimeError("The kernels cannot be compiled. The reason stands above.")
        stamp.truncate(0)
        stamp.write(json.dumps(state(package)))


def is_compiled() -> bool:
    """Tell whether the cache was filled for today's sources, without waiting for a run that is at it."""
    package = package_directory()
    stamp = package / "__pycache__" / STAMP
    before = stamp.read_text() if stamp.exists() else ""
    return bool(before) and is_filled(package, json.loads(before))


def package_directory() -> Path:
    """Return where `streamsvm` is imported from, beside whose files numba keeps its own."""
    spec = importlib.util.find_spec("streamsvm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def state(package: Path) -> tuple[str, int]:
    """Return a hash of what there is to compile, and how many functions are compiled."""
    sources = sorted((str(path.relative_to(package)), path.stat().st_mtime_ns) for path in package.rglob("*.py"))
    return hashlib.sha256(repr((sys.version, sources)).encode()).hexdigest(), len(list(package.rglob("*.nbi")))


def is_filled(package: Path, before: tuple[str, int]) -> bool:
    """Tell whether the cache holds what it held in a state before, for the same sources."""
    (hash_before, count_before), (hash_now, count) = before, state(package)
    return hash_before == hash_now and count_before <= count


if __name__ == "__main__":
    compile_kernels()
