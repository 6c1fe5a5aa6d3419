"""One process of a backfill: a worker that ends once its partitions are learned up to their marks.

It reads its share from standard input, one line of JSON, and stops early where that ends: its parent asks so, or is
gone. It writes how far it is to standard output, a line of JSON each time, and what it logs to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

import msgspec

from consumers import constants
from consumers.branches.workers.files.plan import FilesPlan
from consumers.branches.workers.group_worker import GroupWorker
from consumers.branches.workers.metrics import WORKER
from consumers.host import last_words
from consumers.host.exit_codes import EXIT_CLEAN, EXIT_UNFORESEEN, exit_code
from consumers.host.runtime import Health, configure_logging, spare_the_collector
from consumers.metrics import Metrics
from consumers.settings import Settings
from consumers.streams.ports import Stop
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Cluster, Connection

REPORT_EVERY_S: Final = 0.2


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a process is to learn.

    Attributes
    ----------
    settings : dict
        As `Settings` takes them, with the ordinal of this process.
    marks : dict of int to int
        The offset before which each of its partitions is to be learned.
    kafka : dict
        How the broker is reached; with the three fields after it, a `Connection`.
    plan : FilesPlan or None
        The files that are learned; marks count their rows. None: the input topic.
    """

    settings: dict[str, Any]
    marks: dict[int, int]
    kafka: dict[str, str | int | bool]
    client_id: str
    embedded: bool
    plan: FilesPlan | None = None

    @property
    def connection(self) -> Connection:
        """How the broker is reached."""
        return Connection(
            options=self.kafka,
            client_id=self.client_id,
            embedded=self.embedded,
        )


def progress_of(line: bytes) -> dict[int, int]:
    """Decode how far a process is: the offset before which each of its partitions is learned."""
    return msgspec.json.decode(line, type=dict[int, int])


def until(marks: Mapping[int, int], lines: BinaryIO) -> Callable[[Mapping[int, int]], bool]:
    """Return a callback that reports progress to the parent and says whether all marks are reached."""
    reported_at = -REPORT_EVERY_S

    def enough(ahead: Mapping[int, int]) -> bool:
        nonlocal reported_at
        reached = all(ahead.get(partition, -1) >= mark for partition, mark in marks.items())
        if reached or time.monotonic() - reported_at >= REPORT_EVERY_S:
            reported_at = time.monotonic()
            lines.write(msgspec.json.encode(dict(ahead)) + b"\n")
            lines.flush()
        return reached

    return enough


def worker_of(share: Share, settings: Settings, stop: Stop, enough: Callable[[Mapping[int, int]], bool]) -> GroupWorker:
    """Return the worker that learns a share."""
    health, metrics = Health(stuck_after_s=constants.STUCK_AFTER_S), Metrics(WORKER)
    cluster = Cluster(share.connection)
    if share.plan is None:
        return GroupWorker(settings, cluster, metrics, health, stop, enough=enough)
    from consumers.branches.workers.files.worker import FilesWorker

    return FilesWorker(settings, cluster, metrics, health, stop, plan=share.plan, enough=enough)


def serve(share: Share, asks: BinaryIO, lines: BinaryIO) -> int:
    """Learn a share; return the exit status."""
    settings, stop = Settings(**share.settings), threading.Event()
    configure_logging(settings.log)

    def listen() -> None:
        asks.read()
        stop.set()

    threading.Thread(target=listen, name="parent", daemon=True).start()
    try:
        worker_of(share, settings, stop, until(share.marks, lines)).run()
    except BrokenPipeError:  # the parent is gone; what was published stays published
        return EXIT_CLEAN
    except StreamsvmError as error:
        last_words.say(str(error), exit_code(error))
        return exit_code(error)
    except Exception as error:  # noqa: BLE001 - a defect, told with its traceback
        last_words.say(f"unexpected {type(error).__name__}: {error}", EXIT_UNFORESEEN, traceback.format_exc())
        return EXIT_UNFORESEEN
    return EXIT_CLEAN


def main() -> None:
    """Run a process of a backfill."""
    # Whoever interrupts the parent interrupts its processes, too; the parent asks them to stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    spare_the_collector()
    share = msgspec.json.decode(sys.stdin.buffer.readline(), type=Share)
    status = serve(share, sys.stdin.buffer, sys.stdout.buffer)
    sys.stderr.flush()
    # Threads of clients may be blocked on a broker that is gone; what was learned is stored by now.
    os._exit(status)


if __name__ == "__main__":
    main()
