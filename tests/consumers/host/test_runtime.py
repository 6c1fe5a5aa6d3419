"""Health, logs and exit codes."""

from __future__ import annotations

import io
import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final, Literal

import pytest
import structlog

from consumers.host import runtime
from consumers.host.exit_codes import exit_code
from consumers.host.runtime import STARTING, Health, configure_logging, log_start, show_health
from consumers.host.web.server import HttpServer
from consumers.loader import load
from consumers.metrics import TRAINER, Metrics
from consumers.settings import HttpConfig, LogConfig
from streamsvm.errors import BrokerUnavailable, ConfigurationError, CorruptCheckpoint, Fenced, StreamsvmError
from streamsvm.kafka import ClientLog
from tests.consumers.host.test_web import asked


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(stuck_after_s=60.0, clock=clock)


@pytest.fixture
def server(health: Health) -> Iterator[HttpServer]:
    metrics = Metrics(TRAINER)
    metrics.put("streamsvm_model_version", 7)
    with HttpServer(HttpConfig(port=0), health, metrics.registry) as running:
        yield running


def get(server: HttpServer, path: str) -> tuple[int, str]:
    answer = asked(server, path)
    return answer.status, answer.read().decode()


def test_metrics_answer(server: HttpServer) -> None:
    """/metrics shows the registry it was given, and nothing per creation time."""
    status, text = get(server, "/metrics")
    assert status == 200
    assert "streamsvm_model_version 7.0" in text
    assert "_created" not in text


def test_health_turns_red_when_the_loop_stands_still(server: HttpServer, health: Health, clock: Clock) -> None:
    """Without a beat for the configured time: 503 and how long; a beat heals."""
    assert get(server, "/healthz")[0] == 200
    clock.now += 61
    status, text = get(server, "/healthz")
    assert status == 503
    assert "61 s" in json.loads(text)["why"]
    health.beat()
    assert get(server, "/healthz")[0] == 200


def test_readiness_names_what_is_missing(server: HttpServer, health: Health, clock: Clock) -> None:
    """Not ready before anything was required, nor while a condition is missing, nor when unhealthy."""
    assert get(server, "/readyz")[0] == 503
    health.require("broker", "no connection is up")
    status, text = get(server, "/readyz")
    assert (status, json.loads(text)["waiting_for"]) == (503, {"broker": "no connection is up"})
    health.require("broker", "")
    assert get(server, "/readyz")[0] == 200
    clock.now += 61
    assert get(server, "/readyz")[0] == 503


def test_metrics_show_what_readyz_answers(clock: Clock) -> None:
    """Each part of readiness is a series, and a main loop that hangs does not hide it."""
    metrics, health = Metrics(TRAINER), Health(stuck_after_s=60.0, clock=clock)
    show_health(metrics, health)

    def shown() -> tuple[float, set[str]]:
        (ready,) = (sample.value for family in metrics.registry.collect() for sample in family.samples
                    if sample.name == "streamsvm_ready")  # fmt: skip
        parts = metrics.values("streamsvm_not_ready")
        return ready, {part for (part,), waits in parts.items() if waits}

    assert shown() == (0.0, {"start"})
    for part in ("start", "broker", "publish"):
        health.require(part, STARTING)
    assert shown() == (0.0, {"start"})  # what begins after the start is no reason of its own
    health.require("publish", "the topic is missing")
    assert shown() == (0.0, {"start", "publish"})
    for part in ("start", "publish"):
        health.require(part, "")
    health.require("broker", "no connection is up")
    assert shown() == (0.0, {"broker"})
    health.require("broker", "")
    assert shown() == (1.0, set())
    clock.now += 61
    assert shown() == (0.0, {"loop", "health"})


def test_metrics_of_a_daemon_without_a_start_of_its_own_forget_it(clock: Clock) -> None:
    """A scorer, asked before it named what it waits for, is ready in all its series later."""
    metrics, health = Metrics(TRAINER), Health(stuck_after_s=60.0, clock=clock)
    show_health(metrics, health)
    assert metrics.values("streamsvm_ready") == {(): 0.0}
    assert metrics.values("streamsvm_not_ready")["start",] == 1.0
    health.require("broker", "")
    assert metrics.values("streamsvm_ready") == {(): 1.0}
    assert set(metrics.values("streamsvm_not_ready").values()) == {0.0}


def test_metrics_of_the_process_need_no_more_than_its_own_proc() -> None:
    """Start time and memory are shown in a unit whose `/proc` shows processes only."""
    hidden = (
        "from consumers.metrics import Metrics; from prometheus_client import "
        "generate_latest; print(generate_latest(Metrics(()).with_process().registry).decode())"
    )
    mount = 'mount --make-rprivate / && mount -t proc -o subset=pid proc /proc && exec "$@"'
    if subprocess.run(["unshare", "-m", "sh", "-c", mount, "sh", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root: mounts a /proc of its own")
    code = ["unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", hidden]
    before = time.time()
    text = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    after = time.time()
    figures = dict(line.split(" ") for line in text.splitlines() if line.startswith("process_"))
    # A start is counted in ticks since the boot: the order holds, rounded to a second.
    assert int(before) <= round(float(figures["process_start_time_seconds"])) <= int(after) + 1
    assert float(figures["process_resident_memory_bytes"]) > 1e7


def test_a_taken_port_is_one_line(server: HttpServer, health: Health) -> None:
    """The address and the option to change stand in the message."""
    with pytest.raises(ConfigurationError, match=rf"127\.0\.0\.1:{server.port}.*--http-port"):
        HttpServer(HttpConfig(port=server.port), health, Metrics(TRAINER).registry)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigurationError("x"), 78),
        (CorruptCheckpoint("x"), 78),
        (BrokerUnavailable("x"), 75),
        (Fenced("x"), 70),
        (StreamsvmError("x"), 70),
    ],
)
def test_exit_codes(error: StreamsvmError, status: int) -> None:
    """Each branch of the tree of errors has its documented status."""
    assert exit_code(error) == status


def test_logs_are_json_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our events and the libraries' lines alike: one JSON object each, with time, level and logger."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(LogConfig())
    structlog.get_logger("streamsvm.test").info("event", offset=3)
    logging.getLogger("library").warning("a line of %s", "theirs")
    structlog.get_logger("streamsvm.test").debug("hidden")
    ours, theirs = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (ours["event"], ours["offset"], ours["level"], ours["logger"]) == ("event", 3, "info", "streamsvm.test")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("a line of theirs", "warning", "library")
    assert "timestamp" in theirs


@pytest.mark.parametrize("level", ["info", "debug"])
def test_a_person_reads_no_lines_of_the_kafka_client(
    level: Literal["info", "debug"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command's output in a pipe is text, and the client's own lines are for whoever asks for them."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(LogConfig(level=level), for_people=True)
    ClientLog().log(logging.WARNING, "%s %s", "GETPID", "Coordinator load in progress: retrying")
    logging.getLogger("library").warning("a line of theirs")
    configure_logging(LogConfig())
    ClientLog().log(logging.WARNING, "%s %s", "GETPID", "of a daemon")
    *lines, last = stream.getvalue().splitlines()
    assert (len(lines), "Coordinator load" in lines[0]) == ((2, True) if level == "debug" else (1, False))
    assert "a line of theirs" in lines[-1]
    assert not lines[-1].startswith("{")
    assert "of a daemon" in json.loads(last)["event"]


class Terminal(io.StringIO):
    """Standard error that a person reads."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "whole"), [(Terminal(), False), (io.StringIO(), True)])
def test_a_start_tells_people_what_they_changed_and_machines_everything(
    stream: io.StringIO, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred options on a terminal would hide the one that is wrong, and the address of the live page."""
    monkeypatch.setattr(sys, "stderr", stream)
    settings = load({"points": {"dimension": 8}, "kafka": {"sasl.password": "hush"}})
    configure_logging(settings.log)
    log_start(settings, "http://127.0.0.1:9464")
    shown = stream.getvalue()
    assert "http://127.0.0.1:9464" in shown
    assert "dimension" in shown
    assert ("train_points" in shown) is whole
    assert "hush" not in shown


def test_readiness_is_not_answered_from_memory(server: HttpServer, health: Health, clock: Clock) -> None:
    """A loop that hangs in a publish cannot know that the broker is there: not ready, long before it is unhealthy."""
    health.require("broker", "")
    clock.now += 9
    assert get(server, "/readyz")[0] == 200
    clock.now += 2
    status, text = get(server, "/readyz")
    assert (status, json.loads(text)["waiting_for"].keys()) == (503, {"loop"})
    assert get(server, "/healthz")[0] == 200


HEEDS: Final = "import os, signal; from consumers.host.runtime import stop_on_signals; stop = stop_on_signals()\n"


@pytest.mark.parametrize(("first", "second"), [("INT", "TERM"), ("TERM", "INT"), ("HUP", "HUP")])
def test_a_second_signal_of_either_kind_ends_the_process(first: str, second: str) -> None:
    """Ctrl-C, then a supervisor's SIGTERM: the second one is not one more request to stop."""
    code = (
        f"{HEEDS}os.kill(os.getpid(), signal.SIG{first}); assert stop.is_set(); "
        f"os.kill(os.getpid(), signal.SIG{second}); raise SystemExit(1)"
    )
    finished = subprocess.run([sys.executable, "-c", code], check=False)
    assert finished.returncode == -getattr(signal, f"SIG{second}")


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_a_signal_by_which_logs_are_rotated_does_nothing(name: str) -> None:
    """A program without a handler would die of it."""
    code = f"{HEEDS}os.kill(os.getpid(), signal.SIG{name}); assert not stop.is_set()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_who_starts_a_daemon_may_have_it_outlive_its_terminal() -> None:
    """As `nohup` does: a signal that is ignored from the start stays so."""
    code = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{HEEDS}os.kill(os.getpid(), signal.SIGHUP)"
    finished = subprocess.run([sys.executable, "-c", f"{code}; assert not stop.is_set()"], check=False)
    assert finished.returncode == 0


LOGS_MUCH: Final = """
import logging
from consumers.host import last_words
from consumers.host.runtime import configure_logging
from consumers.settings import LogConfig
configure_logging(LogConfig())
for number in range(2_000):
    logging.getLogger("a").warning("line %d %s", number, "x" * 100)
print("went on", flush=True)
input()
logging.getLogger("a").warning("again")
last_words.say("the end", 1)
"""


def test_a_log_that_nobody_reads_holds_up_nothing() -> None:
    """A full pipe would stop a daemon for ever; what was dropped is counted, and lines stay whole."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", LOGS_MUCH], text=True, **pipes) as process:
        assert process.stdout.readline() == "went on\n"
        lines = [process.stderr.readline() for _ in range(100)]  # there is room again
        process.stdin.write("\n")
        process.stdin.close()
        lines += process.stderr.readlines()
    told = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]
    (dropped,) = [one for one in told if one["event"] == "log_lines_dropped"]
    read = [one["event"] for one in told]
    assert read[0].startswith("line 0 ")
    assert read[-2:] == ["again", "fatal"]
    assert dropped["lines"] > 1_000
    assert sum(one.startswith("line ") for one in read) >= 2_000 - dropped["lines"]


def test_a_log_whose_reader_is_gone_holds_up_nothing() -> None:
    """As little as one that was closed from the start."""
    for closed in ("2>&-", "2> >(true)"):
        command = ["bash", "-c", f"exec {sys.executable} -c '{LOGS_MUCH.replace('input()', '')}' {closed}"]
        finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        assert (finished.returncode, finished.stdout) == (0, "went on\n")


def test_a_warning_stands_in_both_probes_and_fails_none(server: HttpServer, health: Health) -> None:
    """It is asked for anew each time."""
    said = [""]
    health.require("broker", "")
    health.warns("quota", lambda: said[0])
    for warning, shown in (("", {}), ("slow", {"warnings": {"quota": "slow"}}), ("", {})):
        said[0] = warning
        for path in ("/healthz", "/readyz"):
            status, text = get(server, path)
            assert status == 200
            assert {name: one for name, one in json.loads(text).items() if name == "warnings"} == shown


def test_an_error_turns_health_red_before_it_leaves(health: Health) -> None:
    """Whatever ends the process is said while the rest is wound up, with a name where it has no text."""
    with pytest.raises(Fenced), health.failing():
        raise Fenced("another instance took over")
    assert health.healthy() == (False, {"healthy": False, "why": "another instance took over"})
    with pytest.raises(KeyboardInterrupt), health.failing():
        raise KeyboardInterrupt
    assert health.healthy()[1]["why"] == "KeyboardInterrupt"


def test_what_the_process_survives_leaves_health_alone(health: Health) -> None:
    """An error after which it starts over is no reason to be restarted."""
    with pytest.raises(BrokerUnavailable), health.failing(unless=(BrokerUnavailable,)):
        raise BrokerUnavailable("later")
    assert health.healthy()[0]


def test_a_risky_connection_is_warned_of_at_each_start() -> None:
    """What `Connection.risks` lists is in the log; to check no certificate is refused."""
    kafka = {"bootstrap.servers": "broker.example:9092", "security.protocol": "SASL_PLAINTEXT"}
    unchecked = {"enable.ssl.certificate.verification": "false"}
    with structlog.testing.capture_logs() as logs:
        runtime.connect(load({"kafka": kafka}), "trainer")
    assert [(line["event"], line["log_level"]) for line in logs] == [("insecure_connection", "warning")]
    with pytest.raises(ConfigurationError, match="disables a security check"):
        runtime.connect(load({"kafka": unchecked}), "trainer")
