"""Counts the calls and modules of four walks through the product, and prints them as JSON.

`python -m tests.consumers.host.walks`: `streamsvm train` runs on the embedded broker until two versions are out, in one
process, with `sys.setprofile` on in its main thread and in those that it starts. Counted are calls of the product's own
Python functions, and the files that they stand in: from the typed command to the first poll, in the quietest turn of
the loop, in the call of the learner that a leaf's seal adds to, and of a version both what the training thread makes
and what the loop publishes. Counts, not seconds: nearly the same on a busy machine. Of versions the shortest counts, of
leaves the longest walk but for the first, which loads what others find loaded. Of the learner's call also how many
functions stand above each other when the pilot's solver begins, the first and the last counted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

import consumers.cli.app
import consumers.host.runtime
from streamsvm.kafka import Cluster, EmbeddedBroker, TopicSpec
from tests.kafka.steps import send_values

ROOT: Final = str(Path(__file__).parents[3]) + "/"
OWN: Final = (ROOT + "streamsvm/", ROOT + "consumers/")
POINTS: Final = 24_000
DEADLINE_S: Final = 600.0  # a first run compiles for minutes
POLL: Final = ("streamsvm/kafka/consuming.py", "poll")
TURN: Final = ("consumers/trainer/trainer.py", "_turn")
LEARN: Final = ("streamsvm/learning/learner.py", "learn")
SEAL: Final = ("streamsvm/coreset/partition.py", "_seal")
MAKE: Final = ("streamsvm/learning/recipe.py", "make")
COLLECT: Final = ("consumers/trainer/trainer.py", "_collect")
PUBLISH: Final = ("streamsvm/delivery/publication.py", "publication")
ROOTS: Final = (TURN, LEARN, MAKE, COLLECT)
SOLVER: Final = ("streamsvm/svm/", "streamsvm/papers/")


@dataclass(slots=True)
class Walk:
    """One occurrence of a root: how many calls, how deep down to a solver, in which files, and of which functions."""

    calls: int = 0
    files: set[str] = field(default_factory=set)
    functions: Counter[tuple[str, str]] = field(default_factory=Counter)
    deep: int = 0


class Tracer:
    """Follows the calls of every thread from a typed command on."""

    def __init__(self) -> None:
        self.start, self.polled, self.found = Walk(), False, {root: [] for root in ROOTS}  # type: ignore[var-annotated]
        self._open = threading.local()
        self._main = threading.get_ident()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, or a return."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(OWN) or code.co_name == "<module>":
            return
        function = (code.co_filename[len(ROOT) :], code.co_name)
        walks: list[tuple[FrameType, Walk]] = self._open.__dict__.setdefault("walks", [])
        if event == "return":
            if walks and walks[-1][0] is frame:
                self.found[function].append(walks.pop()[1])
            return
        if not self.polled and threading.get_ident() == self._main:
            self.polled = function == POLL
            note(self.start, function)
        if function in self.found:
            walks.append((frame, Walk()))
        for root, walk in walks:
            note(walk, function)
            if function[0].startswith(SOLVER):
                walk.deep = max(walk.deep, depth(frame, root))


def note(walk: Walk, function: tuple[str, str]) -> None:
    walk.calls += 1
    walk.files.add(function[0])
    walk.functions[function] += 1


def depth(frame: FrameType, root: FrameType) -> int:
    """Return how many functions stand from a root down to a solver's first one, both counted."""
    found, above = 1, frame
    while above is not root and above.f_back is not None:
        above = above.f_back
        name = above.f_code.co_filename
        found += name.startswith(OWN) and not name[len(ROOT) :].startswith(SOLVER)
    return found


def least(walks: list[Walk]) -> Walk:
    """Return the occurrence of the fewest calls: on a busy machine some versions wait, and count what waits."""
    return min(walks, key=lambda walk: walk.calls)


def main() -> None:
    """Walk, and print."""
    tracer = Tracer()
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as directory:
        Cluster(broker.connection).create([TopicSpec("labeled", 1, config={})])
        points = np.random.default_rng(0).normal(size=(POINTS, 3)).tolist()
        values = [json.dumps({"x": x, "y": 1 if x[0] > 0.3 * x[1] else -1}).encode() for x in points]
        send_values(broker.connection, "labeled", values)
        consumers.host.runtime.connect = lambda *_: broker.connection  # type: ignore[assignment]
        threading.Thread(target=stop_in_time, args=(tracer,), daemon=True).start()
        sys.argv = ["streamsvm", "train", "--bootstrap-servers", broker.bootstrap_servers, "--points-dimension", "3"]
        sys.argv += ["--http-port", "0", "--checkpoint-directory", directory, "--log-level", "error"]
        threading.setprofile(tracer)
        sys.setprofile(tracer)
        try:
            consumers.cli.app.main()
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    leaves = [walk for walk in tracer.found[LEARN][1:] if walk.functions[SEAL] == 1]
    leaf = max(leaves, key=lambda walk: walk.calls)
    made, sent = least(tracer.found[MAKE]), least([one for one in tracer.found[COLLECT] if PUBLISH in one.functions])
    walks = {
        "typed to the first poll": tracer.start,
        "an idle turn": least(tracer.found[TURN]),
        "a full leaf": leaf,
        "a version made and published": Walk(made.calls + sent.calls, made.files | sent.files),
    }
    found = {f"{name}, calls": walk.calls for name, walk in walks.items()}
    found["a full leaf, calls deep to the solver"] = leaf.deep
    print(json.dumps(found | {f"{name}, modules": len(walk.files) for name, walk in walks.items()}))


def stop_in_time(tracer: Tracer) -> None:
    """End the trainer as a signal does, once two versions were published or too much time has passed."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if sum(PUBLISH in walk.functions for walk in tracer.found[COLLECT]) >= 2:
            break
        time.sleep(0.2)
    time.sleep(1.0)  # some idle turns
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
