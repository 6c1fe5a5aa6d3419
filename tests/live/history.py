"""A history: every call of every client and every answer, as lines of JSON on one monotonic clock.

A line is an object with ``t`` (seconds since the run began), ``client``, ``type`` (``invoke``; then ``ok``, ``fail``,
or ``info`` where nobody knows or nobody asked) and ``f``, what was done; its other fields depend on ``f``:

=============  ======================================================================================================
f              fields
=============  ======================================================================================================
`run`          seed, brokers, settings, nemeses, bound_s, sites: what the topics and models of the run are
`topic`        topic, topic_id: it was made, and what is fed from here on is of it; without an id: it is being deleted
`feed`         topic, partition, first, last: records that the broker acknowledged; records: of each its timestamp, the
               id of its point or label, and its label, null where it has none
`life`         invoke: a daemon is started, with what a refusal told a person to add; ok, fail: it ended by itself with
               ``exit``; info: it was killed
`publish`      model, number: a trainer says that it has published the version
`score`        points, batches: what a life of a scorer says to have committed so far
`move`         command, model, reason: invoke; then ok, fail or info with exit and said
`reader`       isolation, view (live or final): what a client's reads mean
`read`         topic, partition, offset, key, sha256 of the value, headers, value: a record, as a reader got it
`serve`        model, number, sha256: a subscriber swapped a version in
`watermark`    topic, partition, stable, end: last stable offset and end of a partition
`position`     group, topic, partition, offset: where a group stands
`health`       healthy, ready, waiting: what a daemon says of itself
`fault`        nemesis, what, phase: begin or end; a fault is upon the system in between
`heal`         nothing is wrong any more, and input waits: the bound of patience begins
`end`          the last look: whatever waits now has waited since the last `heal`
=============  ======================================================================================================
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Type = Literal["invoke", "ok", "fail", "info"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line.

    `t`: Seconds since the run began. `f`: What was done. `told`: The other fields.
    """

    t: float
    client: str
    type: Type
    f: str
    told: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.told[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field that may be left out."""
        return self.told.get(name, default)


class Recorder:
    """Writes a history; any thread may tell it something."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._stream = file.open("w", encoding="utf-8", buffering=1 << 20)

    def now(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began

    def tell(self, client: str, type_: Type, f: str, **told: Any) -> None:
        """Write a line, dated now."""
        line = {"t": round(self.now(), 4), "client": client, "type": type_, "f": f, **told}
        text = json.dumps(line, separators=(",", ":"))
        with self._lock:
            if not self._stream.closed:
                self._stream.write(text + "\n")

    def close(self) -> None:
        """Write what is left, and end."""
        with self._lock:
            self._stream.close()


def parse(line: str) -> Entry:
    """Return the entry of a line."""
    told = json.loads(line)
    return Entry(told.pop("t"), told.pop("client"), told.pop("type"), told.pop("f"), told)


def load(file: Path) -> Iterator[Entry]:
    """Read a history."""
    with file.open(encoding="utf-8") as stream:
        for line in stream:
            yield parse(line)
