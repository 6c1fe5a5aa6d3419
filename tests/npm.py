"""Packages of npm for the tests: fetched once into a cache, at a manifest's versions; no script of theirs is run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.brokers.jvm import CannotRun

INSTALL = ("npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")


def cache() -> Path:
    """Return where tests keep what they fetched or built for programs in other languages."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "streamsvm"


def packages(manifest: Path, name: str, timeout_s: float) -> Path:
    """Return the directory `node_modules` of a package.json; the first call on a machine downloads it.

    `name`: What the cache calls it. `timeout_s`: Seconds that the download may take. Raises `CannotRun` if npm is
    missing, or a package cannot be fetched.
    """
    if shutil.which("npm") is None:
        raise CannotRun("npm is not installed")
    text = manifest.read_bytes()
    cached = cache() / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}"
    if not cached.is_dir():
        _fetch(text, cached, timeout_s)
    return cached / "node_modules"


def _fetch(manifest: bytes, cached: Path, timeout_s: float) -> None:
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as work:
        fresh = Path(work) / "fresh"
        fresh.mkdir()
        (fresh / "package.json").write_bytes(manifest)
        try:
            done = subprocess.run(INSTALL, cwd=fresh, capture_output=True, text=True, check=False, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise CannotRun(f"npm did not fetch the packages within {timeout_s:.0f} s") from None
        if done.returncode != 0:
            raise CannotRun(f"npm could not fetch the packages: {' | '.join(done.stderr.strip().splitlines()[-3:])}")
        with contextlib.suppress(OSError):  # another test run was faster: its packages are as good
            fresh.rename(cached)
