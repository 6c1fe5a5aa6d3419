"""A status as an HTML page: every number of it is there without JavaScript.

Numbers stand in `data` elements, whose `value` is the exact one and whose `data-field` names it in `/status.json`.
"""

from __future__ import annotations

from datetime import datetime

from consumers.page.board import Drawing
from consumers.page.cells import age_of, name_of, time_of
from consumers.page.markup import Markup, element, join, raw
from consumers.page.status import Status, TrainerStatus
from consumers.page.trainer_page import trainer_part


def page_of(status: Status, picture: Markup | None, drawing: Drawing | None, now: datetime) -> bytes:
    """Return the page.

    Parameters
    ----------
    status : Status
    picture : Markup or None
        Of the newest training set, of `drawing`.
    drawing : Drawing or None
    now : datetime
        From which ages are counted.
    """
    if isinstance(status, TrainerStatus):
        body = trainer_part(status, picture, drawing, now)
    else:
        from consumers.page.scorer_page import scorer_part

        body = scorer_part(status, now)
    role = "trainer" if isinstance(status, TrainerStatus) else "scorer"
    document = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{status.name}: {status.verdict.headline} · streamsvm {role}"),
            element("link", rel="icon", href="/icon.svg", type="image/svg+xml"),
            element("link", rel="stylesheet", href="/page.css"),
            element("script", src="/page.js", defer=True),
        ),
        element(
            "body",
            element("a", "Skip to the figures", class_="skip", href="#main"),
            _header(status, role),
            element("main", *body, id="main", tabindex="-1"),
            _footer(status, now),
            data_now=now.isoformat(),
        ),
        lang="en",
    )
    return join(raw("<!doctype html>\n"), document, raw("\n")).encode()


def _header(status: Status, role: str) -> Markup:
    if isinstance(status, TrainerStatus):
        about = join("learns from ", name_of(status.input.topic))
    else:
        about = join("scores ", name_of(status.topic), " into ", name_of(status.output_topic))
    return element(
        "header",
        element("p", f"streamsvm {role}", class_="brand"),
        element("h1", name_of(status.name)),
        element("p", about, class_="about"),
        element(
            "p",
            element("span", id="connection", role="status"),
            element("button", "Pause updates", id="pause", type="button", hidden=True, aria_pressed="false"),
            class_="controls",
        ),
    )


def _footer(status: Status, now: datetime) -> Markup:
    links = [element("a", path, href=path) for path in ("/status.json", "/metrics", "/healthz", "/readyz")]
    between = [join(link, " ") for link in links]
    return element(
        "footer",
        element("p", "Figures of ", time_of(status.taken), f", streamsvm {status.process.version}; running for ",
                age_of(status.process.started, now), "."),
        element("nav", *between, aria_label="The same as JSON"),
    )  # fmt: skip
