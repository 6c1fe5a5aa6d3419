"""HTTP at its border: who is answered while others are slow, by which names, and behind a proxy."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
import time
import timeit
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, strategies as st

from consumers.host.runtime import Health
from consumers.host.web import server
from consumers.host.web.answers import GUARD, HttpAnswer
from consumers.host.web.connections import MOST_CONNECTIONS, Connections, HttpConnection, Phase, address_of
from consumers.host.web.head import MOST_HEAD_BYTES, MOST_HEADERS, end_of_head, parse
from consumers.host.web.server import MOST_WAITING_OF_ONE, HttpServer
from consumers.loader import load
from consumers.metrics import TRAINER, Metrics
from consumers.settings import HttpConfig
from tests.kafka.steps import eventually

PLAIN = b"GET /healthz HTTP/1.1\r\n\r\n"
PAGE = b"GET /page HTTP/1.1\r\n\r\n"


class Gate:
    """A site that answers when it is let, with a body of any size."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.opened.set()
        self.asked = 0
        self.size = 10

    def answer(self, path: str) -> HttpAnswer | None:
        self.asked += 1
        self.opened.wait(20.0)
        if path == "/broken":
            raise ZeroDivisionError
        return HttpAnswer("text/plain", b"x" * self.size) if path.startswith("/page") else None


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def running(gate: Gate) -> Iterator[HttpServer]:
    with serving(HttpConfig(port=0), gate) as made:
        yield made


def serving(config: HttpConfig, gate: Gate | None = None) -> HttpServer:
    return HttpServer(config, Health(stuck_after_s=60.0), Metrics(TRAINER).registry, gate.answer if gate else None)


def connected(port: int, begin: bytes = b"") -> socket.socket:
    """Return a connection over which this was sent."""
    made = socket.create_connection(("127.0.0.1", port), 20.0)
    made.sendall(begin)
    return made


def speak(at: HttpServer, request: bytes) -> bytes:
    """Send a request over a plain connection and return all that comes back."""
    answer = b""
    with connected(at.port, request) as connection, suppress(ConnectionError):
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def status(at: HttpServer, path: str = "/healthz", **headers: str) -> int:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return int(speak(at, f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()).split()[1])


def asked(at: HttpServer, path: str, **headers: str) -> http.client.HTTPResponse:
    """Return the answer to a request, as a client has it."""
    asking = http.client.HTTPConnection("127.0.0.1", at.port, timeout=20)
    asking.request("GET", path, headers=headers)
    return asking.getresponse()


def healthy(at: HttpServer) -> bool:
    return speak(at, PLAIN).startswith(b"HTTP/1.1 200 ")


# ---------------------------------------------------------------------------------- heads


REQUESTS: Final = (
    (PLAIN, 200),
    (b"GET /healthz HTTP/1.0\n\n", 200),
    (b"POST /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
    (b"HEAD /healthz HTTP/1.1\r\n\r\n", 200),
    (b"HEAD /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\n", 413),
    (b"GET /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 413),
    (b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
    (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * MOST_HEAD_BYTES + b"\r\n\r\n", 431),
    (b"GET /" + b"x" * MOST_HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 431),
    (b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * (MOST_HEADERS + 1) + b"\r\n", 431),
    (b"GET /healthz nonsense HTTP/1.1\r\n\r\n", 400),
    (b"GET /healthz\r\n\r\n", 400),
    (b"\r\nGET /healthz HTTP/1.1\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nA: b\x00c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nA : b\r\n\r\n", 400),
    (b"GET /healthz HTTP/2.0\r\n\r\n", 505),
    (b"PRI * HTTP/2.0\r\n\r\n", 505),
    (b"\xff\xfe\r\n\r\n", 400),
)
"""Requests, and the statuses of their answers."""


@pytest.mark.parametrize(("request_bytes", "expected"), REQUESTS)
def test_requests_are_small_and_without_a_body(running: HttpServer, request_bytes: bytes, expected: int) -> None:
    """Everything but a short, well-formed GET is refused by its status, with the guard on it."""
    answer = speak(running, request_bytes)
    assert int(answer.split()[1]) == expected
    assert b"X-Content-Type-Options: nosniff" in answer


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/nothing"])
def test_a_head_gets_what_a_get_does_without_its_body(running: HttpServer, path: str) -> None:
    """Load balancers ask by it whether somebody is there."""
    whole, head = (speak(running, f"{method} {path} HTTP/1.1\r\n\r\n".encode()) for method in ("GET", "HEAD"))
    assert whole.split(b"\r\n\r\n", 1)[1]
    assert head.endswith(b"\r\n\r\n")
    names = [{line.split(b":")[0] for line in one.split(b"\r\n\r\n", 1)[0].splitlines()} for one in (whole, head)]
    assert names[0] == names[1]
    assert head.split()[1] == whole.split()[1]


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n"]), max_size=12), st.integers(1, 5))
def test_an_end_is_found_wherever_the_pieces_end(parts: list[bytes], size: int) -> None:
    """A head that comes in pieces ends where it would have ended in one."""
    whole, found = b"".join(parts), None
    for seen in range(0, len(whole), size):
        found = found or end_of_head(whole[: seen + size], seen)
    assert found == end_of_head(whole)


def cost_of_blanks(count: int) -> float:
    """Return the least processor time of several tries at a head with so many blanks."""
    head = b"GET / HTTP/1.1\r\nA: " + b" " * count + b"\x01\r\n\r\n"
    assert parse(head) is HTTPStatus.BAD_REQUEST
    return min(timeit.repeat(lambda: parse(head), timer=time.process_time, repeat=5, number=100))


def test_a_head_of_blanks_costs_as_much_as_it_is_long() -> None:
    """Eight times the blanks cost about 8 times as much; quadratic, it would be 64."""
    most = MOST_HEAD_BYTES - 100
    assert cost_of_blanks(most) < 24 * cost_of_blanks(most // 8)


# ------------------------------------------------------------------- slow and many clients


def test_the_oldest_unfinished_request_goes_first(running: HttpServer) -> None:
    """When one too many comes, it is the first that is hung up on, not the newest."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(running.port)) for _ in range(MOST_CONNECTIONS + 1)]
        slow[0].settimeout(4.0)
        assert slow[0].recv(1) == b""
        slow[-1].sendall(PLAIN)
        assert slow[-1].recv(12) == b"HTTP/1.1 200"


def test_a_slow_request_is_cut_off_in_its_time(running: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends a byte now and then for ever is cut off all the same, and others are answered meanwhile."""
    monkeypatch.setattr(server, "HEAD_TIMEOUT_S", 0.5)
    with connected(running.port) as slow:
        begun = time.monotonic()
        with suppress(ConnectionError):
            slow.sendall(b"GET /healthz HTTP/1.1\r\n")
            slow.settimeout(0.05)
            while time.monotonic() - begun < 20:
                slow.sendall(b"X")
                assert healthy(running)
                with suppress(TimeoutError):
                    assert slow.recv(1) == b""
                    break
        assert 0.4 < time.monotonic() - begun < 10


def test_an_answer_that_nobody_takes_is_given_up(
    running: HttpServer, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks for much and reads nothing is cut off; probes are answered meanwhile."""
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.5)
    gate.size = 1 << 26
    with connected(running.port, PAGE):
        eventually(lambda: gate.asked == 1, "asked")
        assert healthy(running)
        eventually(lambda: not running._loop._connections.all(), "cut off")
    assert healthy(running)


def test_probes_do_not_wait_for_pages(running: HttpServer, gate: Gate) -> None:
    """While a page takes for ever, probes and metrics are answered; what piles up behind it is bounded."""
    gate.opened.clear()
    with ExitStack() as stack:
        for _ in range(MOST_WAITING_OF_ONE):
            stack.enter_context(connected(running.port, PAGE))
        # Asked before all of those have been read, it waits with them, and is cut off in its time.
        asked = b"GET /page-too HTTP/1.1\r\n\r\n"
        eventually(lambda: speak(running, asked).startswith(b"HTTP/1.1 503"), "told to come again")
        assert healthy(running)
        assert status(running, "/metrics") == 200
    gate.opened.set()
    eventually(lambda: status(running, "/page-too") == 200, "answered again")


def test_one_address_does_not_take_the_place_of_all() -> None:
    """Of the queue for pages a share is kept for others, who are answered although one address asks for too much."""
    maker, gone, done = server._Maker("test"), threading.Event(), list[bytes]()
    accepted = [maker.make("here", lambda: bytes(gone.wait(20)), lambda _: None) for _ in range(server.MOST_WAITING)]
    assert sum(accepted) == MOST_WAITING_OF_ONE < server.MOST_WAITING
    assert maker.make("there", lambda: b"", done.append)
    gone.set()
    maker.stop()
    eventually(lambda: done == [b""], "made")


def test_a_page_that_fails_is_one_warning(running: HttpServer, gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """500 for whoever asks; the log says why once, however often it is asked for, and others are answered."""
    with caplog.at_level(logging.INFO, "streamsvm.http"):
        assert [status(running, "/broken") for _ in range(3)] == [500] * 3
    assert [record.message for record in caplog.records] == ["failed to create an answer"]
    assert status(running, "/page") == 200


def test_a_client_that_closes_its_side_is_still_answered(running: HttpServer) -> None:
    """As `printf ... | nc` does: probe, page and metrics alike."""
    for path in (b"/healthz", b"/page", b"/metrics"):
        with connected(running.port, b"GET " + path + b" HTTP/1.1\r\n\r\n") as one:
            one.shutdown(socket.SHUT_WR)
            assert one.recv(12) == b"HTTP/1.1 200"


def connection(address: str) -> HttpConnection:
    return HttpConnection(socket=socket.socket(), address=address, begun_at=0.0)


def test_room_is_made_by_the_address_that_has_the_most() -> None:
    """Its oldest unfinished request goes; finished ones go only when there is nothing else."""
    table = Connections(4)
    made = [connection(address) for address in ("a", "b", "b", "c", "a", "a", "a")]
    assert [table.add(one) for one in made[:4]] == [None] * 4
    table.finish(made[3])
    assert table.add(made[4]) is made[1]
    assert table.add(made[5]) is made[0]
    table.finish(made[2])
    table.finish(made[4])
    table.finish(made[5])
    assert table.add(made[6]) is made[3]
    assert len(table) == 4
    table.remove(made[0])
    assert len(table) == 4
    for one in made:
        table.remove(one)
        one.socket.close()
    assert (len(table), table.all()) == (0, [])
    assert HttpConnection.unfinished.__get__(made[0])
    made[0].phase = Phase.WAITING
    assert not made[0].unfinished


@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (("10.0.0.7", 1), "10.0.0.7"),
        (("::ffff:10.0.0.7", 1, 0, 0), "10.0.0.7"),
        (("2001:db8::1", 1, 0, 0), "2001:db8::/64"),
        (("2001:db8::ffff:1", 1, 0, 0), "2001:db8::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        (("", 0), ""),
    ],
)
def test_a_network_counts_as_one_address(peer: tuple[str, int], expected: str) -> None:
    """Whoever has one IPv6 address has the other 2^64 of its network, too."""
    assert address_of(peer) == expected


# --------------------------------------------------------------------------- who may ask


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:9464", 200),
        ("localhost", 200),
        ("LocalHost.:9464", 200),
        ("10.1.2.3:9464", 200),
        ("[::1]:9464", 200),
        ("[fd00::7]", 200),
        ("trainer:9464", 200),
        ("evil.example.com", 421),
        ("evil.example.com:9464", 421),
        ("localhost.evil.example.com", 421),
        ("127.0.0.1.evil.example.com", 421),
        ("127.1", 421),
        ("0x7f000001", 421),
        ("[::1].evil.example.com", 421),
        ("trainer.evil.example.com", 421),
        ("@localhost", 421),
    ],
)
def test_only_names_of_its_own_are_answered(host: str, expected: int) -> None:
    """Another site's name is refused on every path, so that a browser cannot be led here by it."""
    with serving(HttpConfig(port=0, allowed_hosts=("trainer",)), Gate()) as made:
        for path in ("/healthz", "/metrics", "/page"):
            assert status(made, path, Host=host) == expected


def test_a_star_allows_any_name() -> None:
    """For a daemon behind a proxy that checks names itself."""
    with serving(HttpConfig(port=0, allowed_hosts=("*",))) as made:
        assert status(made, Host="evil.example.com") == 200


def test_the_loopback_is_where_a_daemon_answers() -> None:
    """Unless somebody says another address."""
    assert load().http.host == "127.0.0.1"


def test_names_come_from_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list in the environment is split at commas, and no name is taken for a number."""
    monkeypatch.setenv("STREAMSVM_HTTP__ALLOWED_HOSTS", "trainer, 7 ,a.example")
    assert load().http.allowed_hosts == ("trainer", "7", "a.example")
    assert load({"http": {"allowed_hosts": ["b"]}}).http.allowed_hosts == ("b",)


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/page", "/nothing", "/broken"])
def test_every_answer_has_the_guard(running: HttpServer, path: str) -> None:
    """No sniffing, no framing, no use by another site, no copy kept; and nothing says what is inside."""
    head = speak(running, f"GET {path} HTTP/1.1\r\n\r\n".encode()).partition(b"\r\n\r\n")[0].decode()
    for name, value in GUARD:
        assert f"\r\n{name}: {value}" in head
    assert "Connection: close" in head
    assert "Date: " in head
    assert "Server:" not in head
    assert "Python" not in head


def test_metrics_come_as_the_client_likes_them(running: HttpServer) -> None:
    """Compressed, as OpenMetrics, and only those that are asked for."""
    answer = asked(running, "/metrics", **{"Accept-Encoding": "gzip"})
    assert (answer.headers["Content-Encoding"], answer.read()[:2]) == ("gzip", b"\x1f\x8b")
    answer = asked(running, "/metrics?name[]=streamsvm_model_version", Accept="application/openmetrics-text")
    assert "openmetrics" in answer.headers["Content-Type"]
    names = {line.split()[0] for line in answer.read().decode().splitlines() if not line.startswith("#")}
    assert names <= {"streamsvm_model_version"}


def test_what_a_proxy_passes_on_is_answered(running: HttpServer, gate: Gate) -> None:
    """Behind one that ends TLS, pages of any size, metrics and probes come whole; another name is refused too."""
    gate.size = 3_000_000
    forwarded = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
    for path, host, expected, least in (
        ("/page", "localhost", 200, gate.size),
        ("/metrics", "localhost", 200, 1_000),
        ("/healthz", "localhost", 200, 1),
        ("/page", "metrics.example.com", 421, 1),
    ):
        answer = asked(running, path, Host=host, **forwarded)
        assert (answer.status, len(answer.read()) >= least) == (expected, True)


def test_listens_on_ipv6() -> None:
    """An address with colons is one of IPv6, and stands in brackets in the address that is logged."""
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with serving(HttpConfig(port=0, host="::1")) as made:
        assert made.url == f"http://[::1]:{made.port}"
        with urllib.request.urlopen(f"{made.url}/healthz", timeout=20) as answer:
            assert answer.status == 200
