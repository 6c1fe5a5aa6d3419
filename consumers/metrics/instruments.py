"""The metrics of one process: counters, gauges and histograms, made of their definitions."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from consumers.metrics.definition import Definition

Instrument = TypeVar("Instrument", Counter, Gauge, Histogram)


class Bulk(Collector):
    """A histogram without labels that takes many observations in one step; one by one they cost more than scoring.

    Thread-safe.

    Parameters
    ----------
    definition : Definition
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._bounds = np.array(definition.buckets)
        self._lock = threading.Lock()
        self._counts = np.zeros(len(self._bounds) + 1, np.int64)
        self._sum = 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        """Add observations, shape (n,); a value that equals a bucket's upper bound is in that bucket."""
        places = np.searchsorted(self._bounds, values, side="left")
        counted = np.bincount(places, minlength=len(self._counts))
        with self._lock:
            self._counts += counted
            self._sum += float(values.sum())

    def below(self) -> tuple[tuple[float, int], ...]:
        """Return each upper bound, infinity last, with the number of observations up to it."""
        with self._lock:
            counts = self._counts.tolist()
        return tuple(zip((*self._bounds.tolist(), float("inf")), accumulate(counts), strict=True))

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return it as Prometheus has it."""
        buckets = [("+Inf" if math.isinf(bound) else str(bound), float(count)) for bound, count in self.below()]
        yield HistogramMetricFamily(
            self._definition.name, self._definition.meaning, buckets=buckets, sum_value=self._sum
        )


class _Process(ProcessCollector):
    """Also where `/proc` has no `stat` of the machine, as in a unit with `ProcSubset=pid`."""

    def _boot_time(self) -> float:
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


class Metrics:
    """The metrics of one process, in a registry of their own.

    Parameters
    ----------
    definitions : iterable of Definition
    """

    def __init__(self, definitions: Iterable[Definition]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._made = {definition.name: _make(definition, self.registry) for definition in definitions}

    def with_process(self) -> Metrics:
        """Collect metrics of the process, too (`PROCESS`); once."""
        _Process(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        return self

    def increase(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        counter = self._of(name, Counter, labels)
        counter.inc(amount)

    def begin(self, name: str, label: str, values: Iterable[str]) -> None:
        """Let a labelled counter stand at 0 for each value, so that a rate sees its first event."""
        for value in values:
            self.increase(name, 0.0, **{label: value})

    def put(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        gauge = self._of(name, Gauge, labels)
        gauge.set(value)

    def follow(self, name: str, value: Callable[[], float]) -> None:
        """Have a gauge without labels asked for whenever it is shown, from any thread."""
        made = self._made[name]
        assert isinstance(made, Gauge)
        made.set_function(value)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """Return a counter or a gauge as it stands, by its labels' values in their order; empty if there is none."""
        made = self._made.get(name)
        families = () if made is None else made.collect()
        return {tuple(sample.labels.values()): sample.value for family in families for sample in family.samples}

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        histogram = self._of(name, Histogram, labels)
        histogram.observe(value)

    def observe_all(self, name: str, values: NDArray[np.float64]) -> None:
        """Add many observations to a histogram without labels, in one step."""
        made = self._made[name]
        assert isinstance(made, Bulk)
        made.add(values)

    def buckets(self, name: str) -> tuple[tuple[float, int], ...]:
        """Return a histogram that `observe_all` fills: upper bounds, and how many observations are up to each."""
        made = self._made.get(name)
        return made.below() if isinstance(made, Bulk) else ()

    def drop(self, name: str, *labels: str) -> None:
        """Take back one series of a labelled gauge, if there is one: another daemon shows it now."""
        made = self._made[name]
        assert isinstance(made, Gauge)
        made.remove(*labels)

    def _of(self, name: str, kind: type[Instrument], labels: dict[str, str]) -> Instrument:
        made = self._made[name]
        assert isinstance(made, kind)
        return made.labels(**labels) if labels else made


def _make(definition: Definition, registry: CollectorRegistry) -> Counter | Gauge | Histogram | Bulk:
    if definition.bulk:
        made = Bulk(definition)
        registry.register(made)
        return made
    if definition.kind == "counter":
        return Counter(definition.name, definition.meaning, definition.labels, registry=registry)
    if definition.kind == "gauge":
        return Gauge(definition.name, definition.meaning, definition.labels, registry=registry)
    return Histogram(
        definition.name, definition.meaning, definition.labels, registry=registry, buckets=definition.buckets
    )
