"""The process of another interpreter, `worth_peers.py`, in which other people's learners run, and how it is asked."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from streamsvm.points import Points
from tests.benchmarks.runner import Child, all_cores

HERE: Final = Path(__file__).parent
PACKAGES: Final = HERE / "worth_peers.txt"
"""Pins with their hashes."""
LEARNERS: Final = ("lightgbm", "hist_gb", "ebm", "moa_forest", "moa_sgbt")


@dataclass(frozen=True, slots=True)
class Told:
    """What a learner of the other environment made: scores above 0 for +1, probabilities of +1, CPU time, and the bytes
    that it holds at the end, as far as it can count them."""

    decision: NDArray[np.float64]
    positive: NDArray[np.float64]
    seconds: float
    bytes: int | None


class Others:
    """That process. Each method raises `ModuleNotFoundError` if the interpreter has no such library."""

    def __init__(self, python: str) -> None:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._child = Child.start(self._stack, [python, str(HERE / "worth_peers.py")], all_cores(), self._folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fit(self, name: str, train: Points, test: Points, seed: int) -> Told:
        """Let a learner learn rows, and answer others."""
        np.savez(self._folder / "train.npz", X=train.X, y=train.y)
        np.savez(self._folder / "test.npz", X=test.X)
        return self._told("fit", name, "train.npz", "test.npz", "answer.npy", seed)

    def follow(self, name: str, X: NDArray[Any], y: NDArray[np.int8], lag: int, leaf: int, seed: int) -> Told:
        """Let a learner answer each row of a stream before its label comes."""
        np.savez(self._folder / "stream.npz", X=X, y=y)
        return self._told("follow", name, "stream.npz", "answer.npy", lag, leaf, seed)

    def make(self, name: str, rows: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int8], list[int]]:
        """Return a generator's stream: features, signs, and the rows at which its rule changes."""
        self._child.ask("make", name, "made.npz", rows, seed, between="\t")
        with np.load(self._folder / "made.npz") as found:
            return found["X"], found["y"], found["changes"].tolist()

    def _told(self, *asked: object) -> Told:
        found = self._child.ask(*asked, between="\t")
        decision, positive = np.load(self._folder / "answer.npy").astype(np.float64).T
        return Told(decision, positive, float(found["seconds"]), found.get("bytes"))
