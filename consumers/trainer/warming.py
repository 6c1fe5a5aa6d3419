"""Compiles all that a trainer or a worker calls, before it takes anything over."""

from __future__ import annotations

import threading
from typing import Final

import structlog

from consumers.host.clock import Clock
from consumers.host.runtime import Health
from consumers.settings import Settings
from consumers.streams.abandonable import Stopped
from consumers.streams.ports import Stop
from consumers.trainer import kernels
from consumers.trainer.components import Components
from streamsvm.config import ModelConfig

log = structlog.get_logger("streamsvm.trainer")

LONG_COMPILE_S: Final = 1.0
"""Loading what an earlier start compiled is over by then; compiling it takes a minute."""
PROGRESS_EVERY_S: Final = 10.0
"""Between two lines of progress while it compiles."""
COMPILING: Final = "compiling kernels: about a minute, once"


def warm_up(settings: Settings, components: Components) -> None:
    """Compile all that a life calls; raises `Stopped` if the daemon stops meanwhile."""
    registry = components.schemas is not None or bool(settings.registry.url)
    WarmUp(settings.models(), components.health, components.stop, components.clock, registry=registry).run()


class WarmUp:
    """Compiles before the transactional id or partitions are taken over, so that the predecessor goes on meanwhile.

    Parameters
    ----------
    config : ModelConfig
    health : Health
    stop : Stop
    clock : Clock
    registry : bool
        Whether there is a source of Avro's schemas.
    """

    def __init__(
        self, config: ModelConfig, health: Health, stop: Stop, clock: Clock, *, registry: bool = False
    ) -> None:
        self._config = config
        self._registry = registry
        self._health = health
        self._stop = stop
        self._clock = clock
        self._since = clock.monotonic()
        self._what, self._done = "modules", threading.Event()
        self._compiled = kernels.CompilationCount()

    @property
    def _seconds(self) -> float:
        return self._clock.monotonic() - self._since

    def run(self) -> None:
        """Compile all that a life calls.

        Raises
        ------
        Stopped
            If told to stop meanwhile.
        """
        log.debug("preparing", reducer=self._config.coreset.reducer)
        # A thread says it, because the first part alone may take half a minute: nothing in it can say so.
        teller = threading.Thread(target=self._log_progress, daemon=True)
        teller.start()
        try:
            with kernels.counting() as self._compiled:
                kernels.prepare(self._config, self._part, registry=self._registry)
        finally:
            self._done.set()
            teller.join()
        if self._compiled.functions and self._seconds > LONG_COMPILE_S:
            log.info(
                "compiled",
                functions=self._compiled.functions,
                seconds=round(self._seconds, 1),
                remedy="the compiled code is cached; the next start loads it",
            )
        if self._stop.is_set():
            raise Stopped

    def _part(self, what: str) -> None:
        """Look whether to stop before each part, for a part may take many seconds."""
        self._health.beat()
        if self._stop.is_set():
            raise Stopped
        self._what = what

    def _log_progress(self) -> None:
        """Log how far the compiling is, from the moment at which it takes long until it is done.

        Meanwhile it beats: a part may take half a minute, in which the main loop is neither slow nor stuck.
        """
        if self._done.wait(LONG_COMPILE_S):
            return
        self._health.require("start", COMPILING)
        log.info(
            "compiling",
            what=self._what,
            functions=self._compiled.functions,
            remedy="no action needed: a first start compiles kernels for about a minute, and keeps them; to "
            "compile beforehand, run `streamsvm compile` with the same options",
        )
        said_s = self._seconds
        while not self._done.wait(LONG_COMPILE_S):
            self._health.beat()
            if self._seconds - said_s >= PROGRESS_EVERY_S:
                said_s = self._seconds
                log.info("compiling", what=self._what, functions=self._compiled.functions, seconds=round(said_s, 1))
