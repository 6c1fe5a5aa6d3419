"""Answers for `/`, `/status.json` and what the page needs; read-only, and nothing comes from another host."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Final

from msgspec import structs

from consumers.host.runtime import Health
from consumers.host.web.answers import HttpAnswer
from consumers.metrics import Metrics
from consumers.page import drawings
from consumers.page.board import Drawing, ScorerBoard, TrainerBoard
from consumers.page.collect import looks_of, status_of
from consumers.page.markup import Markup
from consumers.page.page import page_of
from consumers.page.status import Looks, Status, encode
from consumers.settings import Settings
from streamsvm.model.classes import AnyModel

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache"),
)
LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The newest picture, which is made once a version."""

    drawing: Drawing
    picture: Markup


class Site:
    """The live page of one daemon; safe from any thread.

    Parameters
    ----------
    settings : Settings
    board : TrainerBoard or ScorerBoard
        Where the main loop leaves what is shown.
    metrics : Metrics
    health : Health
    now : callable
        The time of day.
    """

    def __init__(
        self,
        settings: Settings,
        board: TrainerBoard | ScorerBoard,
        metrics: Metrics,
        health: Health,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._board = board
        self._metrics = metrics
        self._health = health
        self._now = now
        self._started = now()
        self._drawn: _Drawn | None = None
        self._looked: tuple[AnyModel | None, Looks | None] = (None, None)  # of which model, and what it looks at
        here = files(__package__)
        self._constants = {
            "/page.css": HttpAnswer("text/css; charset=utf-8", here.joinpath("style.css").read_bytes(), HEADERS),
            "/page.js": HttpAnswer("text/javascript; charset=utf-8", here.joinpath("script.js").read_bytes(), HEADERS),
            "/icon.svg": HttpAnswer("image/svg+xml", drawings.ICON.encode(), HEADERS),
        }

    def answer(self, path: str) -> HttpAnswer | None:
        """Answer a request for a path; None if the path does not belong to the page."""
        if path == "/":
            return HttpAnswer("text/html; charset=utf-8", self._page(), HEADERS)
        if path == "/status.json":
            status = self.status()
            return HttpAnswer("application/json", encode(status), (*HEADERS, ("ETag", etag(status))))
        return self._constants.get(path)

    def status(self) -> Status:
        """Return the status now."""
        return status_of(
            self._settings,
            self._board,
            self._metrics,
            self._health,
            started=self._started,
            now=self._now(),
            looks=self._looks(),
        )

    def _page(self) -> bytes:
        drawn = self._picture()
        picture, drawing = (None, None) if drawn is None else (drawn.picture, drawn.drawing)
        return page_of(self.status(), picture, drawing, self._now())

    def _looks(self) -> Looks | None:
        """Return what the newest version looks at; two threads may both work it out, with the same result."""
        snapshot = self._board.snapshot
        subject = None if snapshot is None else snapshot.subject
        if subject is None:
            return None
        model, looks = self._looked
        if model is not subject.model:
            looks = looks_of(subject)
            self._looked = subject.model, looks
        return looks

    def _picture(self) -> _Drawn | None:
        """Return the newest training set's picture; two threads may both make it, and either's is as good."""
        snapshot = self._board.snapshot
        drawing = getattr(snapshot, "drawing", None)
        if drawing is None:
            return None
        drawn = self._drawn
        if drawn is None or drawn.drawing is not drawing:
            self._drawn = drawn = _Drawn(drawing, drawings.coreset(drawing))
        return drawn


def etag(status: Status) -> str:
    """Return what changes exactly when something but the time at which it was taken does."""
    timeless = structs.replace(status, taken=LONG_AGO)
    return f'"{hashlib.sha256(encode(timeless)).hexdigest()[:32]}"'
