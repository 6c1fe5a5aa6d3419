"""What the site answers: figures, a page of them, nothing that anybody else wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from typing import TypeVar

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from consumers.host import Health, HttpServer
from consumers.metrics import SCORER, TRAINER, Metrics
from consumers.page.board import MOMENT_EVERY_S, MOST_MOMENTS, MomentSeries, ScorerBoard, Subject, TrainerBoard
from consumers.page.markup import element, join, raw
from consumers.page.site import Site, etag
from consumers.page.status import Figures, Looks, Moment, ScorerStatus, TrainerStatus, encode
from consumers.settings import HttpConfig, Settings
from streamsvm.model import AdditiveMachine, KernelMachine, Model, RbfKernel, Scaler, Surface, message as model_codec
from streamsvm.model.threshold import described
from streamsvm.registry.loading import Loaded
from tests.consumers.host.test_web import asked
from tests.consumers.page import boards
from tests.consumers.page.boards import HOSTILE, T0, value_at
from tests.golden import HERE, model as golden

PICTURE = boards.drawing(np.array([1.0, -0.5, 0.2]))
Kind = TypeVar("Kind", TrainerStatus, ScorerStatus)


class Page(HTMLParser):
    """Elements of a page, and the numbers in its `data` elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def numbers(self) -> dict[str, str]:
        return {str(given["data-field"]): str(given["value"]) for tag, given in self.elements if tag == "data"}


def page_of(site: Site) -> Page:
    answer = site.answer("/")
    assert answer is not None
    return Page(answer.body.decode())


def agree(numbers: dict[str, str], document: object) -> None:
    """Compare each number of a page with the value at its path."""
    for field, value in numbers.items():
        expected = value_at(document, field)
        assert value == ("" if expected is None else repr(expected)), field


def status_of(site: Site, kind: type[Kind]) -> Kind:
    """Return the status of a daemon of this kind."""
    status = site.status()
    assert isinstance(status, kind)
    return status


def test_every_number_of_the_page_is_that_of_the_status() -> None:
    """Each `data` element has exactly the value that `/status.json` has at its path; none is missing there."""
    site = boards.site(boards.snapshot(PICTURE))
    answer = site.answer("/status.json")
    assert answer is not None
    document = json.loads(answer.body)
    numbers = {field: value for field, value in page_of(site).numbers().items() if HOSTILE not in field}
    assert len(numbers) > 30
    agree(numbers, document)


@pytest.mark.parametrize("picture", [PICTURE, None])
def test_names_from_outside_stay_text(picture: object) -> None:
    """Topic, labels, features, reasons, a broker's words: no element of theirs comes to be, the page stays balanced."""
    for ready in (True, False):
        page = page_of(boards.site(boards.snapshot(picture), ready=ready))  # type: ignore[arg-type]
        assert page.open == []
        assert [given.get("src") for tag, given in page.elements if tag == "script"] == ["/page.js"]
        assert "img" not in {tag for tag, _ in page.elements}
        assert not [name for _, given in page.elements for name in given if name.startswith("on")]
        assert not [given for _, given in page.elements if "style" in given]


def text_of(site: Site) -> str:
    """What a reader sees, without markup."""
    answer = site.answer("/")
    assert answer is not None
    return unescape(re.sub(r"<[^>]*>", " ", answer.body.decode()))


def test_the_page_says_what_the_model_looks_at() -> None:
    """Features by their shares, the largest first, each with the label that it speaks for."""
    site = boards.site(boards.snapshot(PICTURE))
    looks = status_of(site, TrainerStatus).looks
    assert looks is not None
    assert [(feature.name, feature.value, round(feature.share, 4)) for feature in looks.features] == [
        (f"0{HOSTILE}", 1.0, 0.5882),
        (f"1{HOSTILE}", -0.5, 0.2941),
        (f"2{HOSTILE}", 0.2, 0.1176),
    ]
    text = text_of(site)
    negative, positive = (f'"{word}' for word in ("no", "yes"))
    table = text.split("What it looks at")[1].split("Is it right?")[0]
    assert (table.count(positive), table.count(negative)) == (2, 1)


def test_what_a_kernel_machine_looks_at_is_not_shown() -> None:
    """It has no coefficients; the page says so."""
    machine = KernelMachine(RbfKernel(0.5), np.zeros((20, 3)), np.linspace(-1, 1, 20), 0.0)
    subject = Subject(7, ("a", "b", "c"), (), Model(Scaler.identity(3), machine))
    site = boards.site(replace(boards.snapshot(None), subject=subject))
    looks = status_of(site, TrainerStatus).looks
    assert looks is not None
    assert not looks.features
    assert "What a kernel machine looks at is not shown" in text_of(site)


def test_the_page_says_what_is_answered_and_why_a_row_was_rejected() -> None:
    """The two-by-two table, the newest letter, and that counts are of this process."""
    text = " ".join(text_of(boards.site(boards.snapshot(PICTURE))).split())
    for part in (
        "87.00 % 3.00 % 90.00 %",
        "1.00 % 9.00 % 10.00 %",
        f"{HOSTILE}[0]@5",
        "The newest one",
        "since this start",
        "held at most 12",
    ):
        assert part in text, part


def test_the_page_has_a_line_for_a_threshold() -> None:
    """What was asked for, and what is expected of it; nothing without a threshold."""
    snapshot = boards.snapshot(PICTURE)
    assert "Threshold" not in text_of(boards.site(replace(snapshot, threshold=None)))
    told = text_of(boards.site(replace(snapshot, threshold=described(golden.THRESHOLDS["linear"]))))
    assert (
        "Threshold -0.3333, chosen for recall 0.9: expected recall 0.91 (0.86 to 0.94), precision 0.81, alarms 25 %."
    ) in told


def test_every_chart_has_times() -> None:
    """Where each begins and ends; the day, too, where it spans more than one."""
    text = text_of(boards.site(boards.snapshot(PICTURE))).split("Figures of")[0]
    assert text.count("12:00:00") == text.count("16:00:00 UTC") == 3
    days = tuple(
        Moment(T0 + timedelta(days=place), Figures(0.9 + place / 100), 100 * place, place, 0.1, 0.2)
        for place in range(3)
    )
    text = text_of(boards.site(replace(boards.snapshot(PICTURE), history=days)))
    assert text.count("01 Mar 12:00") == text.count("03 Mar 12:00 UTC") == 3


def test_nothing_is_asked_of_another_host() -> None:
    """Every reference of page, style and script is a path of this server."""
    page = page_of(boards.site(boards.snapshot(PICTURE)))
    references = [given[name] for _, given in page.elements for name in ("src", "href") if given.get(name)]
    assert all(str(reference).startswith(("/", "#")) for reference in references)
    for file in ("style.css", "script.js"):
        assert not re.search(r"https?:|url\(|@import|//[a-z]", files("consumers.page").joinpath(file).read_text())


def test_a_scorer_shows_the_version_that_serves() -> None:
    """Number, hash, points covered and how long it has served; every number is that of the status."""
    value = (HERE / "model-1-linear.json").read_bytes()
    version = model_codec.decode(value)
    metrics, health, board = Metrics(SCORER), Health(stuck_after_s=60.0, clock=lambda: 0.0), ScorerBoard()
    health.require("model", "")
    board.serving(
        Loaded(version=version, sha256=model_codec.sha256(value), offset=0, loaded_at=T0.timestamp(), published_at=None)
    )
    metrics.increase("streamsvm_scored_points", 1_234)
    metrics.begin("streamsvm_scored_batches", "outcome", ("committed", "put_back"))
    site = Site(Settings(), board, metrics, health, lambda: T0)
    status, numbers = status_of(site, ScorerStatus), page_of(site).numbers()
    assert status.serving is not None
    assert (status.verdict.headline, status.serving.number) == ("Scoring", version.number)
    agree(numbers, json.loads(encode(status)))
    assert numbers["scored_points"] == "1234"


def test_many_versions_fold() -> None:
    """Eight lines are shown, the others are one click away."""
    many = tuple(boards.version(number) for number in range(20, 0, -1))
    site = boards.site(replace(boards.snapshot(PICTURE), versions=many))
    page = page_of(site)
    assert page.open == []
    assert {f"versions.{place}.balanced_accuracy" for place in range(20)} <= page.numbers().keys()
    assert "12 earlier versions" in text_of(site)
    assert "earlier version" not in text_of(boards.site(replace(boards.snapshot(PICTURE), versions=many[:8])))


def test_many_partitions_fold() -> None:
    """Eight partitions are shown, the others are one click away, and no id occurs twice."""
    page = page_of(boards.site(boards.snapshot(PICTURE, partitions=70)))
    identities = [given["id"] for _, given in page.elements if "id" in given]
    assert len(identities) == len(set(identities))
    assert len([tag for tag, _ in page.elements if tag == "article"]) == 70
    assert ("details", {"class": "more"}) in page.elements


def test_the_tag_ignores_only_when_it_was_taken() -> None:
    """The same figures a second later have the same tag; one record more has another."""
    board = boards.snapshot(PICTURE)
    before = status_of(boards.site(board), TrainerStatus)
    later = boards.site(replace(board, taken=T0 + timedelta(seconds=1))).status()
    assert etag(before) == etag(later)
    other = msgspec.structs.replace(before, input=msgspec.structs.replace(before.input, records=1))
    assert etag(before) != etag(other)


def test_a_trainer_that_ended_as_planned_stays_green() -> None:
    """The demo's page, kept open: it says that the trainer has ended, and nothing turns red as time passes."""
    now = [0.0]
    metrics, health = Metrics(TRAINER), Health(stuck_after_s=60.0, clock=lambda: now[0])
    health.require("start", "")
    board = TrainerBoard(Settings(points={"dimension": 3}), metrics)
    board.snapshot = boards.snapshot(PICTURE)
    health.rest()
    board.ended("The trainer has ended.")
    now[0] = 1_000.0
    status = Site(Settings(points={"dimension": 3}), board, metrics, health, lambda: T0).status()
    assert (status.verdict.level, status.process.healthy, status.process.ready) == ("good", True, True)
    assert status.verdict.detail.startswith("The trainer has ended. ")


def test_a_history_is_of_the_newest_moments() -> None:
    """However long a process lives: a bounded number of moments at even steps, up to now."""
    history: MomentSeries[Moment] = MomentSeries()
    n = 20 * MOST_MOMENTS
    for second in range(n):
        if history.due(float(second)):
            history.add(Moment(T0 + timedelta(seconds=second), Figures(), second, None), float(second))
    seconds = [(moment.time - T0).total_seconds() for moment in history.moments]
    assert len(seconds) == MOST_MOMENTS
    assert set(np.diff(seconds)) == {MOMENT_EVERY_S}
    assert seconds[-1] >= n - MOMENT_EVERY_S


@pytest.fixture
def server() -> Iterator[HttpServer]:
    own = boards.site(boards.snapshot(PICTURE))
    with HttpServer(HttpConfig(port=0), Health(stuck_after_s=60.0), Metrics(TRAINER).registry, own.answer) as running:
        yield running


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/icon.svg", "/status.json"])
def test_every_part_is_served_under_a_strict_policy(server: HttpServer, path: str) -> None:
    """Nothing inline, nothing from elsewhere, nothing sniffed, nothing framed."""
    answer = asked(server, path)
    assert answer.status == 200
    assert answer.read()
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_who_has_the_figures_is_told_so(server: HttpServer) -> None:
    """A second request that names the tag gets 304 and nothing more; another tag gets the figures."""
    tag = asked(server, "/status.json").headers["ETag"]
    again = asked(server, "/status.json", **{"If-None-Match": tag})
    assert (again.status, again.read()) == (304, b"")
    assert asked(server, "/status.json", **{"If-None-Match": '"other"'}).status == 200


def test_a_scorer_has_a_page_of_its_own() -> None:
    """Before its first model: it waits, and counts nothing yet."""
    metrics, health = Metrics(SCORER), Health(stuck_after_s=60.0)
    health.require("model", "there is none yet")
    site = Site(Settings(), ScorerBoard(), metrics, health)
    status = status_of(site, ScorerStatus)
    assert (status.verdict.level, status.serving, status.scored_points) == ("waiting", None, 0)
    assert page_of(site).open == []


@given(st.text(), st.text())
def test_text_cannot_leave_its_element(text: str, value: str) -> None:
    """Whatever the text and the attribute: no angle bracket or quotation mark of theirs is left."""
    made = element("p", text, title=value)
    assert made.count("<") == made.count(">") == 2
    assert made.count('"') == 2


def test_markup_is_not_escaped_twice() -> None:
    """Elements inside of elements stay elements; text beside them is escaped once."""
    assert element("b", element("i", "<&>"), "x") == "<b><i>&lt;&amp;&gt;</i>x</b>"
    assert join(raw("<hr>"), None, 3) == "<hr>3"


def test_attributes_are_named_as_in_python() -> None:
    """Hyphens, reserved words, presence, absence, and those of SVG."""
    made = element("button", hidden=True, class_="a", aria_label="b", disabled=None, view_box="0 0 1 1", x=1.5)
    assert made == '<button hidden class="a" aria-label="b" viewBox="0 0 1 1" x="1.5"></button>'


def shapes_status(model: Model, names: tuple[str, ...]) -> Looks:
    site = boards.site(replace(boards.snapshot(None), subject=Subject(7, names, (), model)))
    assert "model show --shapes" in text_of(site)
    looks = status_of(site, TrainerStatus).looks
    assert looks is not None
    return looks


def test_the_curves_of_an_additive_machine_are_in_the_status() -> None:
    """In raw units, to six digits."""
    version = golden.handmade("additive")
    looks = shapes_status(version.model, version.feature_names)
    assert (looks.by, looks.features, looks.others) == ("shapes", (), 0)
    assert [one.names for one in looks.shapes] == [("mean",), ("dm",), ("mean", "kurtosis µ")]
    assert looks.shapes[0].knots == ((-1.4, -0.15, 0.6, 1.85),)
    assert looks.shapes[1].values == (0.5, -0.333333)


def test_many_curves_are_few_bytes() -> None:
    """The strongest of a thousand, at most ten of a hundred surfaces; the rest is counted."""
    random = np.random.default_rng(0)
    d, knots, side = 1_000, np.sort(random.normal(size=24)), np.sort(random.normal(size=5))
    surfaces = tuple(Surface(0, j, side, side, 9.0 * random.normal(size=(5, 5))) for j in range(1, 101))
    machine = AdditiveMachine((knots,) * d, tuple(random.normal(size=(d, 24))), surfaces, 0.0)
    looks = shapes_status(Model(Scaler.identity(d), machine), tuple(f"feature {j}" for j in range(d)))
    assert len(msgspec.json.encode(looks)) < 20_000
    assert [len(one.names) for one in looks.shapes[:11]] == [2] * 10 + [1]
    assert len(looks.shapes) > 20
    assert looks.others == d + 100 - len(looks.shapes)
