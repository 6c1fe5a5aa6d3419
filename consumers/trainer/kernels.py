"""Everything compiled that a trainer runs: made, or loaded from numba's file cache, before it reads its first record.

One list for the daemon, for `streamsvm compile`, for the image's build and for the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from numba.core import event

from streamsvm.config import ModelConfig
from streamsvm.ingest import decoder
from streamsvm.learning import learner
from streamsvm.quality import prequential
from streamsvm.sockets import DAEMONS, import_name, plugged

SOCKET: Final = "kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What a branch plugs in at the socket `kernels`.

    Attributes
    ----------
    wanted : callable
        Tells whether a trainer of a configuration runs them.
    warm_up : str
        Module and name, ``module:name``, of what takes the configuration and compiles them, or loads them.
    """

    wanted: Callable[[ModelConfig], bool]
    warm_up: str


def prepare(config: ModelConfig, say: Callable[[str], None] = lambda _: None, *, registry: bool) -> None:
    """Compile, or load from numba's file cache, what a trainer of a configuration runs.

    Parameters
    ----------
    config : ModelConfig
    say : callable
        Told before each part what is prepared; what it raises ends the preparation.
    registry : bool
        Whether there is a source of Avro's schemas.
    """
    learner.warm_up(config, say)
    say("preparing the baseline")
    prequential.warm_up(config.points.numpy_dtype)
    for kernels in plugged(SOCKET, Kernels, DAEMONS):
        if kernels.wanted(config):
            warm_up = import_name(kernels.warm_up)
            assert callable(warm_up)
            warm_up(config)
    say("preparing the parsers of records")
    decoder.warm_up(config.points, labeled=config.label_rule is None, registry=registry, recipe=config.recipe)


@dataclass(slots=True)
class CompilationCount:
    """How many functions were compiled; those loaded from the file cache are not among them."""

    functions: int = 0


class _Counter(event.Listener):
    """Counts what numba compiles: it sends no event of what it loads."""

    def __init__(self, counted: CompilationCount) -> None:
        self._counted = counted

    def on_start(self, event: Any) -> None:
        """Pass over the beginning."""

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Count."""
        self._counted.functions += 1


@contextmanager
def counting() -> Iterator[CompilationCount]:
    """Count the functions that are compiled meanwhile, by any thread of this process."""
    counted = CompilationCount()
    with event.install_listener("numba:compile", _Counter(counted)):
        yield counted
