"""Where tests find Spark, and a standalone cluster of it on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from consumers.branches.workers.crew import environment

ROOT = Path(__file__).parents[4]
FOLDER = Path(os.environ.get("STREAMSVM_TEST_SPARK") or ROOT / ".venv" / "spark").absolute()
START_S = 240.0


def environment_of_spark() -> dict[str, str]:
    """Return the environment in which a process finds Spark and this package."""
    own = environment()
    return {**own, "PYTHONPATH": f"{own['PYTHONPATH']}{os.pathsep}{FOLDER}", "PYSPARK_PYTHON": sys.executable}


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers of a core each, whose logs are in a folder; yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    home, run_class = FOLDER / "pyspark", FOLDER / "pyspark" / "bin" / "spark-class"
    own = {**environment_of_spark(), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
    # Each of an address of its own: Spark tries a task again, beside itself, only on another host.
    own_of = [["--host", f"127.0.0.{k + 1}", "-d", str(folder / f"w{k}"), url] for k in range(workers)]
    with ExitStack() as stack:
        for name, command in (
            ("master", master),
            *((f"worker{k}", [*worker, *own]) for k, own in enumerate(own_of)),
        ):
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(["bash", str(run_class), *command], env=own, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        deadline = time.monotonic() + START_S
        while (folder / "master.log").read_text().count("Registering worker") < workers:
            assert time.monotonic() < deadline, (folder / "master.log").read_text()[-3_000:]
            time.sleep(0.2)
        yield url
