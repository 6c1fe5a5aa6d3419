"""The environment in which others' learners run: how it is made, and how its process is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import Points

HERE: Final = Path(__file__).parent
PACKAGES: Final = HERE / "worth_peers.txt"
"""Pins with their hashes."""
SERVER: Final = HERE / "worth_peers.py"


def make_peers(folder: Path) -> None:
    """Make the environment, of pinned packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
    subprocess.run([str(python), "-m", "pip", "install", *options, "--requirement", str(PACKAGES)], check=True)
    print(f"--peers {python}")


@dataclass(frozen=True, slots=True)
class Told:
    """What a learner of the other environment made.

    Attributes
    ----------
    decision : ndarray of shape (n,)
        Scores, above 0 for +1.
    positive : ndarray of shape (n,)
        Probabilities of +1.
    seconds : float
        CPU time.
    bytes : int or None
        That it holds at the end, as far as it can tell.
    """

    decision: NDArray[np.float64]
    positive: NDArray[np.float64]
    seconds: float
    bytes: int | None


class Others:
    """The process of another interpreter, `worth_peers.py`.

    Parameters
    ----------
    python : str
        The interpreter.
    """

    def __init__(self, python: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [python, str(SERVER)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ""},
            cwd=self._folder.name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._folder.cleanup()

    def fit(self, name: str, train: Points, test: Points, seed: int) -> Told:
        """Let a learner learn rows, and answer others.

        Raises
        ------
        ModuleNotFoundError
            If the interpreter has no such library.
        """
        files = self._file("train.npz"), self._file("test.npz"), self._file("answer.npy")
        np.savez(files[0], X=train.X, y=train.y)
        np.savez(files[1], X=test.X)
        return self._told(self._ask("fit", name, *files, seed))

    def follow(self, name: str, X: NDArray[Any], y: NDArray[np.int8], lag: int, leaf: int, seed: int) -> Told:
        """Let a learner answer each row of a stream before its label comes.

        Raises
        ------
        ModuleNotFoundError
            If the interpreter has no such library.
        """
        stream, answer = self._file("stream.npz"), self._file("answer.npy")
        np.savez(stream, X=X, y=y)
        return self._told(self._ask("follow", name, stream, answer, lag, leaf, seed))

    def make(self, name: str, rows: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int8], list[int]]:
        """Return a generator's stream: features, signs, and the rows at which its rule changes.

        Raises
        ------
        ModuleNotFoundError
            If the interpreter has no such library.
        """
        file = self._file("made.npz")
        self._ask("make", name, file, rows, seed)
        with np.load(file) as found:
            return found["X"], found["y"], found["changes"].tolist()

    def _file(self, name: str) -> Path:
        return Path(self._folder.name) / name

    def _told(self, found: dict[str, Any]) -> Told:
        decision, positive = np.load(self._file("answer.npy")).astype(np.float64).T
        return Told(decision, positive, float(found["seconds"]), found.get("bytes"))

    def _ask(self, *words: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answered = self._process.stdout.readline()
        if not answered:
            raise SystemExit(f"{words[1]}: the process of --peers ended with {self._process.wait()}")
        found: dict[str, Any] = json.loads(answered)
        if "missing" in found:
            raise ModuleNotFoundError(found["missing"])
        return found
