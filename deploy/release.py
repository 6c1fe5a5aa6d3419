"""A release: every artefact of a commit, built twice to the same bytes, and each installed alone and tried.

``python deploy/release.py OUT TOOLS PYTHON [PYTHON ...]`` clones the commit that is checked out into two folders and
builds it in both. Where a byte differs, the file is named and nothing is released. Then OUT has the artefacts and their
`SHA256SUMS`. Each PYTHON makes an empty environment for each wheel, runs README's first commands there, and reads the
golden vectors. TOOLS is the Python that has cyclonedx-py; this one has hatchling; Maven, npm and git are on the path.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SUMS: Final = "SHA256SUMS"
SBOMS: Final = ("extras", "runtime")
VECTORS: Final = ("python", "-P", "-m", "tests.golden.vectors")
FIRST: Final = (("streamsvm", "--version"), ("streamsvm", "demo"), ("streamsvm", "config"))
"""README's commands that need no Kafka; `make demo` is `streamsvm demo`."""


class Failed(Exception):
    """A command that ended with another status than 0, and what it said."""


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """Run a command without what this process has of Python's variables; return what it printed."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    try:
        done = subprocess.run(command, cwd=cwd, env={**own, **variables}, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Failed(f"{' '.join(map(str, command))}: {error}") from error
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def context(tree: Path) -> list[str]:
    """Return what the image is built of: its Dockerfile and the sources of its COPY lines."""
    file = "deploy/Dockerfile"
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", (tree / file).read_text(encoding="utf-8"), re.MULTILINE)
    return sorted({file, *(source for line in lines for source in line.split())})


def build(tree: Path, out: Path, tools: Path) -> None:
    """Build every artefact of a clone."""
    epoch = run("git", "log", "-1", "--format=%ct", cwd=tree).strip()
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", out)
    run(*hatchling, "--target", "sdist", "--target", "wheel", cwd=tree, SOURCE_DATE_EPOCH=epoch)
    run(*hatchling, "--target", "wheel", cwd=tree / "deploy" / "reader", SOURCE_DATE_EPOCH=epoch)
    run("mvn", "-B", "-q", "-f", "deploy/java/pom.xml", "verify", cwd=tree)  # its tests read the golden messages
    for jar in (tree / "deploy" / "java" / "target").glob("*.jar"):
        shutil.copy2(jar, out)
    run("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", out, cwd=tree / "deploy" / "node")
    image = the(out, "streamsvm-*.tar.gz").name.replace(".tar.gz", "-image.tar.gz")
    run("git", "archive", "--format=tar.gz", f"--output={out / image}", "HEAD", *context(tree), cwd=tree)
    for name in SBOMS:
        run(tools, "deploy/sbom.py", f"requirements/{name}.txt", out / f"sbom-{name}.cdx.json", cwd=tree)
    (out / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in digests(out).items()), encoding="utf-8")


def the(folder: Path, pattern: str) -> Path:
    """Return the one file of a name in a folder."""
    (found,) = (path for path in folder.glob(pattern) if "-image" not in path.name)
    return found


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each artefact by its name."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def built_twice(work: Path, tools: Path) -> Path:
    """Return the folder of artefacts that two clones agree on.

    Raises
    ------
    Failed
        If they do not, or a wheel made of the sdist is another one.
    """
    outs, commit = [], run("git", "rev-parse", "HEAD").strip()
    for name in ("one", "another"):
        tree, out = work / name / "tree", work / name / "out"
        out.mkdir(parents=True)
        run("git", "clone", "--quiet", "--no-checkout", ROOT, tree)
        run("git", "checkout", "--quiet", "--detach", commit, cwd=tree)
        build(tree, out, tools)
        outs.append(out)
    first, second = map(digests, outs)
    if differ := [name for name in first if first[name] != second.get(name)]:
        raise Failed(f"two builds of one commit differ in {', '.join(differ)}")
    again, out = work / "again", outs[0]
    with tarfile.open(the(out, "streamsvm-*.tar.gz")) as sdist:
        sdist.extractall(again, filter="data")
    (unpacked,) = again.iterdir()
    epoch = run("git", "log", "-1", "--format=%ct", commit).strip()
    command = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", again)
    run(*command, cwd=unpacked, SOURCE_DATE_EPOCH=epoch)
    wheel = the(again, "*.whl")
    if digests(out)[wheel.name] != hashlib.sha256(wheel.read_bytes()).hexdigest():
        raise Failed("the wheel that the sdist makes is not the released one")
    return out


def tried(python: str, out: Path, sdist: Path, work: Path) -> Iterator[tuple[str, str]]:
    """Install each wheel into an empty environment of a Python; yield the wheel and each command that it passed."""
    (notebook,) = re.findall(r"```python\n(import numpy.*?)```", (sdist / "README.md").read_text("utf-8"), re.DOTALL)
    alone = work / "vectors"
    shutil.copytree(sdist / "tests", alone / "tests")
    pinned = ("--require-hashes", "--requirement", str(sdist / "requirements" / "runtime.txt"))
    for wheel, installs, commands in (
        (the(out, "streamsvm-*.whl"), (pinned, ("--no-deps", "--no-index")), (*FIRST, ("python", "-c", notebook))),
        (the(out, "streamsvm_reader-*.whl"), ((),), ()),
    ):
        folder = work / wheel.name.split("-")[0]
        run(python, "-m", "venv", folder)
        programs, pip = folder / "bin", (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q")
        for how in installs:
            run(*pip, "install", *how, *(() if "--requirement" in how else (wheel,)), cwd=work)
        run(*pip, "check", cwd=work)
        for command in (*commands, VECTORS):
            begun = monotonic()
            run(programs / command[0], *command[1:], cwd=work, PYTHONPATH=str(alone) if command is VECTORS else "")
            shown = "README's estimator" if notebook in command else " ".join(command)
            yield wheel.name, f"{shown} ({monotonic() - begun:.0f} s)"


def tried_in_node(out: Path, sdist: Path, work: Path) -> None:
    """Run the package's tests on the package as it was packed."""
    package = work / "node" / "deploy" / "node"
    with tarfile.open(the(out, "streamsvm-reader-*.tgz")) as packed:
        packed.extractall(work / "node", filter="data")
    package.parent.mkdir(parents=True)
    (work / "node" / "package").rename(package)
    shutil.copytree(sdist / "deploy" / "node" / "test", package / "test")
    shutil.copytree(sdist / "tests" / "golden", work / "node" / "tests" / "golden")
    run("node", "--test", *sorted((package / "test").glob("*.test.mjs")), cwd=package)


def main(out: Path, tools: Path, pythons: Sequence[str]) -> int:
    """Build, try and release; return the exit status."""
    if dirty := run("git", "status", "--porcelain", "--untracked-files=no").splitlines():
        print(f"not in the release, because it is not committed: {len(dirty)} changed files")
    with tempfile.TemporaryDirectory(prefix="streamsvm-release-") as made:
        work = Path(made)
        try:
            versions = [run(python, "--version").strip() for python in pythons]  # before the minutes of a build
            found = built_twice(work, tools)
            print((found / SUMS).read_text(encoding="utf-8"), end="")
            (sdist,) = (path for path in (work / "again").iterdir() if path.is_dir())
            tried_in_node(found, sdist, work)
            for number, (python, version) in enumerate(zip(pythons, versions, strict=True)):
                alone = work / f"python-{number}"  # by number: all of them may be called python3
                alone.mkdir()
                for wheel, command in tried(python, found, sdist, alone):
                    print(f"{version}: {wheel}: {command}", flush=True)
        except Failed as failed:
            print(f"NOT RELEASED: {failed}", file=sys.stderr)
            return 1
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(found, out)
    print(f"{out}: {len(digests(out))} artefacts, twice the same bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]).absolute(), sys.argv[3:]))
