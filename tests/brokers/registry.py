"""A real schema registry as a plain process: Apicurio from Maven Central, schemas in its memory."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.brokers.jvm import COPY_JARS, JAVA_FLAGS, STOP_TIMEOUT_S, CannotRun, die_with_parent, free_ports

VERSION = "3.0.9"
POM = Path(__file__).with_name("apicurio") / "pom.xml"
START_TIMEOUT_S = 90.0
POLL_S = 0.1
FOUND = 200


def apicurio() -> Path:
    """Return the directory of the unpacked archive; the first call on a machine downloads it (109 MB)."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    unpacked = home / "streamsvm" / f"apicurio-{VERSION}"
    if unpacked.is_dir():
        return unpacked
    if shutil.which("mvn") is None:
        raise CannotRun("mvn is not installed, and Apicurio is not in the cache")
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=unpacked.parent) as work:
        command = ["mvn", "-B", "-q", "-f", str(POM), COPY_JARS, "-DincludeScope=runtime", f"-DoutputDirectory={work}"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        archives = list(Path(work).glob("*.tar.gz"))
        if done.returncode != 0 or not archives:
            raise CannotRun(f"mvn could not fetch Apicurio: {(done.stdout + done.stderr).strip()[-300:]}")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(Path(work) / "fresh", filter="data")
        with contextlib.suppress(OSError):  # another test run was faster
            (Path(work) / "fresh").rename(unpacked)
    return unpacked


class Registry:
    """One registry as a child process; it never outlives this process, and forgets its schemas with its end."""

    def __init__(self) -> None:
        java = shutil.which("java")
        if java is None:
            raise CannotRun("java is not installed")
        home = apicurio()
        (self._port,) = free_ports(1)
        flags = ["-Xmx384m", *JAVA_FLAGS, f"-Dquarkus.http.port={self._port}", "-Dquarkus.http.host=127.0.0.1"]
        self._command = [java, *flags, "-jar", str(home / f"apicurio-registry-app-{VERSION}-runner.jar")]
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    @property
    def url(self) -> str:
        """The base of the API that Confluent's clients speak."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start it with nothing registered, and wait until it answers."""
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._home,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(urllib.error.URLError, OSError):
                if urllib.request.urlopen(f"{self.url}/subjects", timeout=1.0).status == FOUND:
                    return
            time.sleep(POLL_S)
        self.stop()
        raise CannotRun("the schema registry did not start")

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it; more than once does no harm."""
        atexit.unregister(self.stop)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
