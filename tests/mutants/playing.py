"""Runs tests on a private copy of a tree, with a mutant in it or without.

The tree itself is only read. The copy lies in a temporary folder, which goes with the process, signals included. A
mutant keeps the time of its file, so that only those of numba's caches are taken away for its runs which may hold what
it changed: its own file's, and where compiled code may have taken a value over, those of all that import it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.mutants.drawing import Mutant
from tests.mutants.touched import OUT

HERE: Final = Path(__file__).parent
MARK: Final = "STREAMSVM_TEST_MUTANTS_RUN"
"""Variable of all processes of a run; the product refuses other names that begin with STREAMSVM."""

PRODUCT: Final = ("streamsvm", "consumers")
STAMP: Final = "__pycache__/compiled-for-tests.json"
"""By what `tests.compiled` knows that nothing is to be compiled."""

MOST_WALL_S: Final = 900.0
SURVIVED: Final = (0, 5)
"""How pytest ends when all tests pass, and when none is left."""


@dataclass(frozen=True)
class Run:
    """How a run of tests ended: `by` is the test that failed, empty if none did."""

    by: str
    seconds: float


class Copy:
    """A copy of the commit of a tree, where tests run.

    `tree`: The root of a repository. `base`: An empty folder.
    """

    def __init__(self, tree: Path, base: Path) -> None:
        self.root, self._tmp, self._mark = base / "tree", base / "tmp", uuid.uuid4().hex
        subprocess.run(
            ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--shared", tree, self.root], check=True
        )
        subprocess.run(["git", "checkout", "--quiet", "--detach", commit_of(tree)], cwd=self.root, check=True)
        self._take_caches(tree)
        plugins = base / "plugins"
        plugins.mkdir()
        shutil.copy(HERE / "touched.py", plugins / "mutants_touched.py")
        self._tmp.mkdir()
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": f"{self.root}{os.pathsep}{plugins}",
            "TMPDIR": str(self._tmp),
            MARK: self._mark,
        }
        self._server = subprocess.Popen(
            [sys.executable, HERE / "warm.py", self.root],
            cwd=self.root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._output = base / "output"

    def close(self) -> None:
        """End everything that runs in the copy."""
        self._server.kill()
        self._server.wait()
        self._end_all()

    def clean(self, tests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Run tests without a mutant; return for each its seconds, what it touches, and whether it failed."""
        out = self._tmp.parent / "touched.json"
        run = self._run([*tests, "-p", "mutants_touched"], 3_000, {OUT: str(out)}, 3_000.0)
        found: dict[str, dict[str, Any]] = json.loads(out.read_text()) if out.exists() else {}
        if not found:
            raise SystemExit(f"The tests do not run without a mutant ({run.by}):\n{self._output.read_text()[-3000:]}")
        return found

    def run(self, tests: Sequence[str], seconds: float) -> Run:
        """Run tests until one fails, with so much time that five such runs would end."""
        return self._run([*tests, "-x", "--timeout=200"], int(5 * seconds + 30), {}, MOST_WALL_S)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Have a mutant in the copy for a while."""
        path = self.root / mutant.file
        source, stat = path.read_bytes(), path.stat()
        aside = self._tmp.parent / "caches"
        moved = self._move(mutant, aside)
        path.write_bytes(mutant.apply(source))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        try:
            yield
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            for made in self._caches(mutant):
                made.unlink()
            for name in moved:
                (aside / name).rename(self.root / name.replace("@", "/"))

    def _caches(self, mutant: Mutant) -> list[Path]:
        """Return the bytecode of a mutant's file, and numba's caches of all that may hold what it changes."""
        found = [*(self.root / mutant.file).parent.glob(f"__pycache__/{Path(mutant.file).stem}.*.pyc")]
        for name in importers(self.root, mutant.file) if mutant.compiled else {mutant.file}:
            path = self.root / name
            found += path.parent.glob(f"__pycache__/{path.stem}.*.nb[ic]")
        return found

    def _move(self, mutant: Mutant, aside: Path) -> list[str]:
        aside.mkdir(exist_ok=True)
        names = []
        for cache in self._caches(mutant):
            names.append(str(cache.relative_to(self.root)).replace("/", "@"))
            cache.rename(aside / names[-1])
        return names

    def _run(self, arguments: list[str], cpu_s: int, environment: dict[str, str], wall_s: float) -> Run:
        begun = time.monotonic()
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        order = {
            "arguments": ["-q", "--hypothesis-seed=0", *arguments],
            "cpu_s": cpu_s,
            "environment": environment,
            "output": str(self._output),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        if not select.select([self._server.stdout], [], [], wall_s)[0]:
            self._end_all()
        code = int(self._server.stdout.readline())
        self._end_all()
        for left in self._tmp.iterdir():
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
        return Run("" if code in SURVIVED else self._who(code), round(time.monotonic() - begun, 1))

    def _who(self, code: int) -> str:
        """Return the test that failed; where a run ended without naming one, how it ended."""
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", self._output.read_text(errors="replace"), re.MULTILINE)
        if failed:
            return str(failed[0])
        return "no test: it takes too long" if code in (-signal.SIGXCPU, -signal.SIGKILL) else f"no test: exit {code}"

    def _end_all(self) -> None:
        """End every process of a run that is still there, whatever session it is in."""
        mark = f"{MARK}={self._mark}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self._server.pid:
                with suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)

    def _take_caches(self, tree: Path) -> None:
        """Let numba find in the copy what it compiled in the tree."""
        for path in (path for package in PRODUCT for path in (self.root / package).rglob("*.py")):
            other = tree / path.relative_to(self.root)
            if other.exists() and other.read_bytes() == path.read_bytes():
                os.utime(path, ns=(other.stat().st_atime_ns, other.stat().st_mtime_ns))
                for cache in (*other.parent.glob(f"__pycache__/{path.stem}.*.nb[ic]"), *other.parent.glob(STAMP)):
                    place = path.parent / "__pycache__"
                    place.mkdir(exist_ok=True)
                    shutil.copy2(cache, place)


@contextmanager
def private_copy(tree: Path) -> Iterator[Copy]:
    """Lend a copy that is gone afterwards, whatever ends the process, but for SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="mutants-") as base:
        copy = Copy(tree, Path(base))
        try:
            yield copy
        finally:
            copy.close()


def commit_of(tree: Path) -> str:
    """Return the commit that is checked out in a tree."""
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout.strip()


def importers(root: Path, file: str) -> set[str]:
    """Return the files of the product that import a file, directly or not, and that file."""
    paths = {str(path.relative_to(root)) for package in PRODUCT for path in (root / package).rglob("*.py")}
    names = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in paths}
    imports: dict[str, set[str]] = {}
    for path in paths:
        for node in ast.walk(ast.parse((root / path).read_bytes())):
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                found = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in found:
                imports.setdefault(names.get(name, ""), set()).add(path)
    closed, new = set[str](), {file}
    while new:
        closed |= new
        new = {path for one in new for path in imports.get(one, ())} - closed
    return closed
