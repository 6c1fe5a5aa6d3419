"""What every daemon shares: logs, signals, health, and its ways to broker and registry."""

from __future__ import annotations

import gc
import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import structlog

from consumers.host import last_words
from consumers.metrics import Metrics
from consumers.settings import LogConfig, Settings
from streamsvm import __version__
from streamsvm.kafka import Connection, SchemaRegistry
from streamsvm.supports import require

STALE_AFTER_S: Final = 10.0
"""Age at which a status is too old to answer /readyz: the main loop may hang on a broker that is gone."""

STARTING: Final = "starting"
"""Why a part that begins with the start does not work yet."""

COLLECT_AFTER_OBJECTS: Final = 50_000
"""How many more objects there must be before the cyclic collector looks at the young ones."""


HTTP_CLIENTS: Final = ("httpx", "httpx2", "httpcore", "httpcore2")
"""Loggers of what the schema registry is asked by. They tell each request at level info, and whoever may write records
decides how many there are: each unknown schema id is one."""


KAFKA_CLIENT: Final = "streamsvm.kafka.client"
"""Logger of the Kafka client's own lines, and of what we say of clients."""


def writes_json() -> bool:
    """Return whether log lines are for machines: JSON unless standard error is a terminal."""
    return sys.stderr is None or not sys.stderr.isatty()


def configure_logging(config: LogConfig, *, for_people: bool = False) -> None:
    """Send every log line of ours, and of the libraries, to standard error: JSON unless that is a terminal.

    Requests to the schema registry are told at level debug only.

    Parameters
    ----------
    config : LogConfig
    for_people : bool
        Of a command that ends: no JSON, and the Kafka client's own lines at level debug only.
        What the client complains of is tried again, or is the command's error.
    """
    as_json = not for_people and writes_json()
    last_words.follow(writes_json=as_json)
    level = logging.getLevelNamesMapping()[config.level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=not writes_json())
    )
    handler = last_words.LineHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in HTTP_CLIENTS:
        logging.getLogger(name).setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger(KAFKA_CLIENT).setLevel(
        logging.CRITICAL + 1 if for_people and level > logging.DEBUG else logging.NOTSET
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def log_start(settings: Settings, url: str) -> None:
    """Log the effective configuration once, secrets masked; on a console only options that are not the default."""
    from streamsvm.compiling import CACHE_FAULT

    log = structlog.get_logger("streamsvm")
    if CACHE_FAULT:
        log.warning(
            "compiled_code_not_kept",
            why=CACHE_FAULT,
            remedy="every start compiles anew; set NUMBA_CACHE_DIR to a directory that this process may write to",
        )
    of_features = settings.recipe is not None  # whose columns' names follow from them, and may be hundreds
    if writes_json():
        effective = settings.masked()
        if of_features:
            effective["points"].pop("feature_names", None)
        log.info("configuration", effective=effective, version=__version__, http=url)
    else:
        differing = settings.differing()
        if of_features:
            differing.pop("points.feature_names", None)
        log.info("configuration", http=url, version=__version__, others="as CONFIGURATION.md", **differing)


def spare_the_collector() -> None:
    """Let thousands of records come and go without the cyclic collector looking through the whole heap for them.

    They form no cycles, and are freed as soon as they are decoded; the default threshold is 700 objects.
    """
    gc.set_threshold(COLLECT_AFTER_OBJECTS)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM, SIGINT or SIGHUP sets; a second signal ends the process at once.

    SIGHUP is left alone where whoever started the process has it ignored, as `nohup` does. What scripts send to let a
    program open its log anew does nothing.
    """
    stop = threading.Event()
    heeded = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        heeded.append(signal.SIGHUP)

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stop.set()
        for one in heeded:
            signal.signal(one, signal.SIG_DFL)

    for number in heeded:
        signal.signal(number, on_signal)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    return stop


@dataclass(kw_only=True)
class Health:
    """What /healthz and /readyz answer; safe from any thread.

    Attributes
    ----------
    stuck_after_s : float
        Longest time between two beats of the main loop.
    clock : callable
        Monotonic seconds.
    started : bool
        Whether the main loop ever turned.
    """

    stuck_after_s: float
    clock: Callable[[], float] = time.monotonic
    started: bool = field(default=False, init=False)
    _beat_at: float = field(init=False)
    _fatal: str = ""
    _stuck: dict[str, str] = field(default_factory=dict)
    _conditions: dict[str, str] = field(default_factory=dict)
    _warnings: dict[str, Callable[[], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._beat_at = self.clock()

    def beat(self) -> None:
        """Say that the main loop turned."""
        self.started = True
        self._beat_at = self.clock()

    def rest(self) -> None:
        """Say that the main loop has ended as it should, and need not turn any more."""
        self._beat_at = math.inf

    def fail(self, why: str) -> None:
        """Say that the process cannot go on."""
        self._fatal = why

    @contextmanager
    def failing(self, unless: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
        """Turn red with whatever ends the process from within; /healthz says it while the rest is wound up.

        Parameters
        ----------
        unless : tuple of types
            Errors after which the process goes on.
        """
        try:
            yield
        except unless:
            raise
        except BaseException as error:
            self.fail(str(error) or type(error).__name__)
            raise

    def suspect(self, part: str, why: str) -> None:
        """Say that a part of the process seems stuck, and why; empty if it works."""
        self._stuck[part] = why

    def warns(self, about: str, said: Callable[[], str]) -> None:
        """Have a warning asked for whenever a probe answers; empty while there is none. It makes no probe fail."""
        self._warnings[about] = said

    def _with_warnings(self, answer: dict[str, Any]) -> dict[str, Any]:
        warnings = {about: what for about, said in tuple(self._warnings.items()) if (what := said())}
        return {**answer, "warnings": warnings} if warnings else answer

    def require(self, condition: str, missing: str) -> None:
        """Set a condition of readiness: `missing` says why it does not hold, empty if it does."""
        self._conditions[condition] = missing

    def healthy(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the process works, and why not."""
        idle_s = self.clock() - self._beat_at
        if self._fatal:
            return False, {"healthy": False, "why": self._fatal}
        stuck = next((why for why in tuple(self._stuck.values()) if why), "")
        if stuck:
            return False, {"healthy": False, "why": stuck}
        if idle_s > self.stuck_after_s:
            return False, {"healthy": False, "why": f"the main loop has not turned for {idle_s:.0f} s"}
        return True, self._with_warnings({"healthy": True})

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the process does its work now, and what it waits for."""
        missing = {part: why for part, why in self.parts().items() if why}
        return not missing, self._with_warnings({"ready": not missing, "waiting_for": missing})

    def parts(self) -> dict[str, str]:
        """Return the parts of readiness, each with what it waits for; empty where it works."""
        idle_s = self.clock() - self._beat_at
        late = f"the main loop has not turned for {idle_s:.0f} s: it waits for the broker or the disk"
        known = dict(self._conditions)  # a copy: the main loop may add one meanwhile
        conditions = {"start": "" if known else STARTING, **known}  # named for ever, or its gauge would stay as it was
        if conditions["start"]:  # what begins after the start waits for nothing else
            conditions |= {part: "" for part, why in conditions.items() if part != "start" and why == STARTING}
        healthy, answer = self.healthy()
        return {
            **conditions,
            "loop": late if idle_s > STALE_AFTER_S else "",
            "health": "" if healthy else answer["why"],
        }


def connect(settings: Settings, role: str) -> Connection:
    """Return how this process reaches the broker, having warned of what is risky about it."""
    connection = Connection(
        options=settings.kafka,
        client_id=f"streamsvm-{settings.name}-{role}",
    )
    for risk in connection.risks():
        structlog.get_logger("streamsvm").warning("insecure_connection", what=risk)
    return connection


def show_health(metrics: Metrics, health: Health) -> None:
    """Show at each scrape what /readyz answers then, and the clock; the main loop may hang meanwhile."""

    def ready() -> float:
        parts = health.parts()  # one look for both gauges, so that they agree
        for part, why in parts.items():
            metrics.put("streamsvm_not_ready", float(bool(why)), reason=part)
        return float(not any(parts.values()))

    metrics.follow("streamsvm_ready", ready)
    metrics.follow("streamsvm_clock_seconds", time.time)


def show_throttling(connection: Connection, metrics: Metrics, health: Health) -> None:
    """Show what quotas do to this process, as a gauge and as a warning of the probes."""
    metrics.follow("streamsvm_broker_throttle_seconds", connection.throttling.recent_s)
    health.warns("quota", connection.throttling.said)


@contextmanager
def schemas_of(settings: Settings) -> Iterator[SchemaRegistry | None]:
    """Hold the configured schema registry; None if there is none.

    Raises
    ------
    ConfigurationError
        If the records need a registry and none is configured, or it cannot be used.
    """
    if settings.registry.url:
        registry = SchemaRegistry(settings.registry)
        try:
            yield registry
        finally:
            registry.close()
        return
    if settings.points is not None:
        require({"points.format": settings.points.format, "registry.url": settings.registry.url})
    yield None
