"""A backfill as a process of its own, by either engine: `python -m tests.branches.workers.files.spark_run JOB.json`.

The file is a `Job`. The process ends with the status of the backfill; an error of ours is its last line, as the command
would say it, with status 1.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from consumers.branches.workers.crew import plain
from consumers.branches.workers.files.backfill import Files, backfill_files
from consumers.host.runtime import configure_logging
from consumers.settings import Settings
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Cluster, Connection


class Job(msgspec.Struct, kw_only=True):
    """What to do, in plain values."""

    settings: dict[str, Any]
    kafka: dict[str, str | int | bool]
    embedded: bool
    paths: list[str]
    columns: dict[str, str]
    in_topic: bool
    dead_letters: str
    master: str = ""
    engine: str = "spark"
    processes: int | None = None

    @staticmethod
    def of(settings: Settings, connection: Connection, files: Files, **how: Any) -> Job:
        """Return the job that learns files; `how` are its last three fields."""
        return Job(
            settings=plain(settings),
            kafka=dict(connection.options),
            embedded=connection.embedded,
            paths=list(map(str, files.paths)),
            columns=dict(files.columns),
            in_topic=files.in_topic,
            dead_letters=str(files.dead_letters),
            **how,
        )


def main() -> int:
    """Run a job; return the exit status."""
    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job)
    settings = Settings(**job.settings)
    configure_logging(settings.log)
    cluster = Cluster(Connection(options=job.kafka, embedded=job.embedded))
    files = Files(
        paths=list(map(Path, job.paths)),
        columns=job.columns,
        in_topic=job.in_topic,
        dead_letters=Path(job.dead_letters),
    )
    try:
        return backfill_files(
            settings,
            cluster,
            files,
            threading.Event(),
            engine=job.engine,
            master=job.master or None,
            processes=job.processes,
        )
    except StreamsvmError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
