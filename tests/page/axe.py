"""axe-core, the checker of accessibility: fetched by npm once into a cache, and run inside of the page under test."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.interop.programs import INSTALL

MANIFEST = Path(__file__).parent / "package.json"
INSTALL_TIMEOUT_S = 60.0


class NoChecker(Exception):
    """npm is missing, or could not fetch the package."""


def checker() -> str:
    """Return the text of axe-core's script.

    Raises
    ------
    NoChecker
        If it cannot be had here.
    """
    manifest = MANIFEST.read_bytes()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cached = home / "streamsvm" / f"axe-{hashlib.sha256(manifest).hexdigest()[:12]}"
    if not cached.is_dir():
        _fetch(manifest, cached)
    return (cached / "node_modules" / "axe-core" / "axe.min.js").read_text()


def _fetch(manifest: bytes, cached: Path) -> None:
    if shutil.which("npm") is None:
        raise NoChecker("npm is not installed")
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent) as work:
        fresh = Path(work) / "fresh"
        fresh.mkdir()
        (fresh / "package.json").write_bytes(manifest)
        try:
            done = subprocess.run(
                INSTALL, cwd=fresh, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise NoChecker(f"npm did not fetch axe-core within {INSTALL_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            raise NoChecker(f"npm could not fetch axe-core: {' | '.join(done.stderr.strip().splitlines()[-2:])}")
        with contextlib.suppress(OSError):  # another test run was faster: its package is as good
            fresh.rename(cached)
