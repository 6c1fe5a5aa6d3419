"""A real schema registry as a plain process: Apicurio from Maven Central, schemas in its memory."""

from __future__ import annotations

import contextlib
import os
import tarfile
import time
import urllib.request
from pathlib import Path

from tests.brokers.jvm import JAVA_FLAGS, CannotRun, JavaProcess, fetched, free_ports, java

VERSION = "3.0.9"
START_TIMEOUT_S = 90.0
POLL_S = 0.1
FOUND = 200


def unpacked(directory: Path) -> None:
    """Put what the archive holds in its place."""
    for path in directory.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(directory, filter="data")
        path.unlink()


class Registry(JavaProcess):
    """One registry, which forgets its schemas with its end; the first on a machine is downloaded (109 MB)."""

    def __init__(self) -> None:
        program, self._home = java(), fetched(f"apicurio-{VERSION}", "apicurio/pom.xml", unpack=unpacked)
        (self._port,) = free_ports(1)
        flags = ["-Xmx384m", *JAVA_FLAGS, f"-Dquarkus.http.port={self._port}", "-Dquarkus.http.host=127.0.0.1"]
        self._command = [program, *flags, "-jar", str(self._home / f"apicurio-registry-app-{VERSION}-runner.jar")]
        super().__init__()

    @property
    def url(self) -> str:
        """The base of the API that Confluent's clients speak."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start it with nothing registered, and wait until it answers."""
        process = self._begin(self._command, self._home, Path(os.devnull))
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"{self.url}/subjects", timeout=1.0).status == FOUND:
                    return
            time.sleep(POLL_S)
        self.stop()
        raise CannotRun("the schema registry did not start")
