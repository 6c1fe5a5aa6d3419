"""The figures in the terminal."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from msgspec import structs
from rich.console import Console

from consumers.cli import top
from consumers.host.runtime import Health
from consumers.host.web.answers import HttpAnswer
from consumers.host.web.server import HttpServer
from consumers.metrics import TRAINER, Metrics
from consumers.page.status import TrainerStatus
from consumers.settings import HttpConfig
from streamsvm.errors import ConfigurationError, FatalError, TransientError
from tests.consumers.page import boards
from tests.consumers.page.boards import T0
from tests.consumers.test_cli import run

PICTURE = boards.drawing(np.array([1.0, -0.5, 0.2]))


def shown(status: object) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(top.frame(status, T0))  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_frame_has_the_figures_of_the_page() -> None:
    """Version, lag, rows, buckets and quality, as they stand in the status."""
    status = boards.site(boards.snapshot(PICTURE)).status()
    assert isinstance(status, TrainerStatus)
    text = shown(status)
    for expected in ("7 current", "1.7857", "48 of 200", "648", "passed", "0000000", "10 to 15"):
        assert expected in text
    assert "■■□□" in text


def test_a_frame_says_what_the_model_looks_at_and_why_a_row_was_rejected() -> None:
    """Shares by feature, and the newest dead letter, as on the page."""
    text = shown(boards.site(boards.snapshot(PICTURE)).status())
    assert "What version 7 looks at" in text
    assert "58.8%" in text
    assert "The newest dead letter" in text


def test_names_from_outside_do_not_command_the_terminal() -> None:
    """What a terminal or its markup would obey is shown, not obeyed."""
    metrics_reason = "[red]\x1b[2J\x07bad"
    status = boards.site(boards.snapshot(None)).status()
    assert isinstance(status, TrainerStatus)
    verdict = structs.replace(status.verdict, headline="H \x1b[2J", detail="[bold]D\x1b]0;x\x07")
    hostile = structs.replace(
        status,
        name="[blink]m",
        verdict=verdict,
        input=structs.replace(status.input, topic="t\x1b[31m", dead_letters={metrics_reason: 5}),
    )
    text = shown(hostile)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[blink]m" in text


def test_once_and_json_against_a_server_that_answers() -> None:
    """`--json` prints the document as it came; `--once` one frame; both end with status 0."""
    site = boards.site(boards.snapshot(PICTURE))
    with HttpServer(HttpConfig(port=0), Health(stuck_after_s=60.0), Metrics(TRAINER).registry, site.answer) as server:
        printed = run("top", "--url", server.url, "--json")
        assert (printed.returncode, printed.stderr) == (0, "")
        assert json.loads(printed.stdout)["versions"][0]["number"] == 7
        once = run("top", "--url", f"{server.url}/", "--once")
        assert once.returncode == 0
        assert "7 current" in once.stdout


def test_nothing_listening_is_one_line() -> None:
    """The address, why, and what to do; the status says that trying again may help."""
    failed = run("top", "--url", "http://127.0.0.1:1", "--once")
    assert failed.returncode == 75
    assert failed.stderr.startswith("streamsvm: error: nothing answers at http://127.0.0.1:1/status.json")
    assert "--url" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (None, FatalError, "404"),
        (
            HttpAnswer("application/json", b'{"role":"trainer","format":"streamsvm.status/9"}'),
            FatalError,
            "not answer with a status",
        ),
        (HttpAnswer("text/html", b"<html>"), FatalError, "not answer with a status"),
    ],
)
def test_what_is_no_status_is_said(answer: HttpAnswer | None, error: type[Exception], said: str) -> None:
    """Another server, a page switched off, another format: which address, and what came instead."""
    with (
        HttpServer(
            HttpConfig(port=0), Health(stuck_after_s=60.0), Metrics(TRAINER).registry, lambda _: answer
        ) as server,
        pytest.raises(error, match=said),
    ):
        top.show(server.url, 1.0, once=True)


def test_an_address_without_a_scheme_is_refused() -> None:
    """No file, and nothing guessed."""
    with pytest.raises(ConfigurationError, match="--url"):
        top.show("/etc/passwd", 1.0, once=True)
    with pytest.raises(TransientError):
        top.show("http://127.0.0.1:1", 1.0, once=True)
