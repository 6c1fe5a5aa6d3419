"""The live pages in a real browser, of a trainer and of a scorer that really run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from consumers.host import Health, HttpAnswer, HttpServer
from consumers.metrics import TRAINER, Metrics
from consumers.page.site import Site
from consumers.page.status import TrainerStatus
from consumers.settings import HttpConfig, Settings
from streamsvm.config import CoresetConfig, PointsConfig
from streamsvm.datasets import load_htru2
from streamsvm.ingest import encode
from streamsvm.kafka import Cluster, Connection, EmbeddedBroker, Message, TopicSpec
from tests.consumers.page import boards
from tests.consumers.page.browser import (
    LOOKS,
    Open,
    agree_with_the_status,
    assert_fits,
    chromium,
    number_of,
    numbers,
    programs,
    troubles,
    violations,
)
from tests.consumers.scorer import running as scoring
from tests.consumers.trainers import Running, settings_for
from tests.kafka.steps import send
from tests.registry.test_subscriber import Trainer, eventually, version_of

PATIENCE_S = 30.0
PERIOD_S = 2.0
"""Of the script's looks at the figures."""
EVERY_ROWS = 1_000
"""A version is due each ten leaves of 100 rows."""
SPLIT_SEED = 7
REFUSED = 3
"""Records that are no points, of trainer and scorer alike."""


@dataclass
class Stage:
    """A trainer that runs on the HTRU2 survey, the address of its page, and what is still to be produced."""

    settings: Settings
    connection: Connection
    running: Running
    site: Site
    url: str
    _sent: int = field(default=0)

    def produce(self, points: int, bad: int = 0) -> None:
        """Put so many more points of the survey, and records that are no points, evenly into both partitions."""
        X, y, _ = load_htru2()
        order = np.random.Generator(np.random.PCG64(SPLIT_SEED)).permutation(len(y))[self._sent : self._sent + points]
        values = [(encode(X[index], int(y[index] > 0), 1.0), place % 2) for place, index in enumerate(order)]
        values += [(b'{"x": [1, 2], "y": 1}', 0)] * bad
        topic = self.settings.input.topic
        send(self.connection, [Message(topic, value, partition=partition) for value, partition in values])
        self._sent += points

    def settle(self) -> None:
        """Wait until all that was produced is learned, and every version due is published and shown."""

        def shown() -> bool:
            status = self.site.status()
            assert isinstance(status, TrainerStatus)
            newest = status.versions[0].number if status.versions else 0
            rows = sum(part.rows for part in status.structure.partitions)
            learned = rows >= self._sent and status.input.lag_total == 0
            return learned and newest >= self._sent // EVERY_ROWS - 1 and status.process.ready

        self.running.wait_until(shown)


@contextmanager
def page_of(settings: Settings, daemon: Any) -> Iterator[tuple[Site, str]]:
    """Serve the page of a daemon that runs; give the site and its address."""
    site = Site(settings, daemon.board, daemon.metrics, daemon.health)
    with HttpServer(HttpConfig(port=0), daemon.health, daemon.metrics.registry, site.answer) as http:
        yield site, http.url


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A trainer that learned 4,000 points of the survey, and refused three records."""
    programs()
    plain = settings_for("candidates", tmp_path_factory.mktemp("state"), every_leaves=10)
    settings = plain.model_copy(
        update={
            "points": PointsConfig(dimension=8, labels=(0, 1), feature_names=load_htru2()[2]),
            "coreset": CoresetConfig(points=550, structure="tree", train_points=2_000),
        }
    )
    with EmbeddedBroker() as broker:
        Cluster(broker.connection).create([TopicSpec(settings.input.topic, 2)])
        with Running(settings, broker.connection) as running, page_of(settings, running) as (site, url):
            made = Stage(settings, broker.connection, running, site, url)
            made.produce(4_000, bad=REFUSED)
            made.settle()
            yield made


POINTS = 40


@pytest.fixture(scope="module")
def scorer() -> Iterator[str]:
    """Where the page of a scorer is that scored some points by its second version, and refused three records."""
    programs()
    with EmbeddedBroker() as broker:
        connection = Connection(options={**broker.connection.options, "fetch.wait.max.ms": 10}, embedded=True)
        settings = scoring.settings_for(connection)
        with closing(Trainer(connection, settings.output.models_topic)) as trainer:
            trainer.publish(version_of(1))
            trainer.publish(version_of(2))
        values = [*scoring.points(range(POINTS)), *[b"no point"] * REFUSED]
        scoring.produce(connection, settings.scoring.topic, values)
        with scoring.Running(settings, connection) as running:
            eventually(lambda: running.value("streamsvm_scored_points_total") == POINTS, "all are scored")
            with page_of(settings, running) as (_, url):
                eventually(lambda: running.health.ready()[0], "it is ready")
                yield url


@pytest.fixture
def open_browser(tmp_path: Path) -> Iterator[Open]:
    """Return what opens a browser, with the options of `chromium`; it is closed after the test."""
    programs()
    with ExitStack() as stack:
        yield lambda *size, **options: stack.enter_context(chromium(tmp_path / "profile", *size, **options))


@contextmanager
def served(answer: Any) -> Iterator[str]:
    """Serve what answers, without a daemon behind it; give the address."""
    with HttpServer(HttpConfig(port=0), Health(stuck_after_s=60.0), Metrics(TRAINER).registry, answer) as server:
        yield server.url


def number(chrome: webdriver.Chrome, field: str) -> str:
    return str(chrome.execute_script(f"return document.querySelector('data[data-field=\"{field}\"]').value"))


def test_without_javascript_the_numbers_of_a_trainer_are_those_of_the_status(stage: Stage, open_browser: Open) -> None:
    """A browser that runs no script shows every number, each as it stands in /status.json, and the pictures."""
    chrome = open_browser(javascript=False)
    chrome.get(stage.url)
    shown = numbers(chrome)
    assert len(shown) > 40
    agree_with_the_status(shown, stage.url)
    assert number_of(shown, "input.rejected") == REFUSED
    assert number_of(shown, "input.dead_letters.wrong_dimension") == REFUSED
    assert number_of(shown, "versions.0.number") == 4
    assert chrome.find_elements(By.CSS_SELECTOR, "svg.coreset path.border")
    assert not chrome.find_element(By.ID, "pause").is_displayed()


def test_without_javascript_the_numbers_of_a_scorer_are_those_of_the_status(scorer: str, open_browser: Open) -> None:
    """A browser that runs no script shows the version that serves, the points and the dead letters."""
    chrome = open_browser(javascript=False)
    chrome.get(scorer)
    shown = numbers(chrome)
    agree_with_the_status(shown, scorer)
    assert number_of(shown, "serving.number") == 2
    assert number_of(shown, "scored_points") == POINTS
    assert number_of(shown, "batches.put_back") == 0
    assert number_of(shown, "dead_letters.malformed_json") == REFUSED


def test_new_versions_appear_without_a_reload(stage: Stage, open_browser: Open) -> None:
    """Numbers and picture follow the stream on the page that was opened; what was unfolded and focused stays so."""
    chrome = open_browser()
    chrome.get(stage.url)
    chrome.execute_script("window.opened = true")
    before, picture = int(number(chrome, "versions.0.number")), chrome.find_element(By.CLASS_NAME, "coreset")
    drawn = picture.get_attribute("innerHTML")
    summary = chrome.find_element(By.CSS_SELECTOR, "details summary")
    summary.click()
    assert chrome.execute_script("return document.activeElement.localName") == "summary"
    stage.produce(2_000)
    stage.settle()
    WebDriverWait(chrome, PATIENCE_S).until(lambda c: int(number(c, "versions.0.number")) >= before + 1)
    assert chrome.execute_script("return window.opened") is True
    assert picture.get_attribute("innerHTML") != drawn
    assert chrome.execute_script("return document.activeElement.localName") == "summary"
    assert chrome.find_element(By.TAG_NAME, "details").get_attribute("open") is not None
    assert troubles(chrome) == []


def test_paused_or_hidden_it_asks_for_nothing(stage: Stage, open_browser: Open) -> None:
    """Two periods without a request, whether the button was pressed or the tab is hidden; then it goes on by itself."""
    chrome = open_browser()
    chrome.get(stage.url)
    button = chrome.find_element(By.ID, "pause")
    hide = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s});"
    for stop, resume in (
        (button.click, button.click),
        (
            lambda: chrome.execute_script((hide % "true") + "document.dispatchEvent(new Event('visibilitychange'))"),
            lambda: chrome.execute_script((hide % "false") + "document.dispatchEvent(new Event('visibilitychange'))"),
        ),
    ):
        WebDriverWait(chrome, PATIENCE_S).until(lambda c: _requests(c) > 0)
        stop()
        WebDriverWait(chrome, PATIENCE_S).until(lambda c: _requests(c) == 0)
        threading.Event().wait(2.0 * PERIOD_S)  # the absence of requests has no event to wait for
        assert _requests(chrome) == 0
        resume()
        WebDriverWait(chrome, PATIENCE_S).until(lambda c: _requests(c) > 0)
    assert button.get_attribute("aria-pressed") == "false"


def _requests(chrome: webdriver.Chrome) -> int:
    """Return how many requests were sent since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]  # type: ignore[no-untyped-call]
    return sum(event["method"] == "Network.requestWillBeSent" for event in events)


@pytest.mark.parametrize("daemon", ["trainer", "scorer"])
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_page_fits_and_the_checker_of_accessibility_finds_nothing(
    stage: Stage, scorer: str, open_browser: Open, daemon: str, width: int, scheme: str
) -> None:
    """Wide and narrow, light and dark: no scrolling sideways, no complaint, and no violation of WCAG 2.2 A and AA."""
    chrome = open_browser(width, 900, scheme=scheme)
    chrome.get(stage.url if daemon == "trainer" else scorer)
    assert_fits(chrome, width, scheme)
    if daemon == "trainer":
        chrome.find_element(By.CSS_SELECTOR, "details summary").click()
    assert violations(chrome) == []


@pytest.mark.parametrize(
    ("rule", "path", "fault"),
    [
        ("image-alt", "/", b'<img src="/icon.svg">'),
        ("button-name", "/", b'<button type="button"></button>'),
        ("color-contrast", "/page.css", b"main p.detail { color: #aaa; background: #fff }"),
    ],
)
def test_the_checker_of_accessibility_finds_a_planted_fault(
    open_browser: Open, rule: str, path: str, fault: bytes
) -> None:
    """A copy of the page with an image without words, a button without a name, or pale text: it is reported."""
    site = boards.site(boards.snapshot(None))

    def answer(asked: str) -> HttpAnswer | None:
        right = site.answer(asked)
        if right is None or asked != path:
            return right
        body = right.body.replace(b"</main>", fault + b"</main>") if path == "/" else right.body + fault
        return replace(right, body=body)

    with served(answer) as url:
        chrome = open_browser()
        chrome.get(url)
        assert rule in [found for found, _ in violations(chrome)]


def test_the_keyboard_is_enough(stage: Stage, open_browser: Open) -> None:
    """The first Tab shows the way to the figures, others reach the button, tables and details; focus is seen."""
    chrome = open_browser()
    chrome.get(stage.url)
    reached = []
    for _ in range(12):
        chrome.switch_to.active_element.send_keys(Keys.TAB)
        focused = chrome.switch_to.active_element
        reached.append(str(focused.get_attribute("id") or focused.get_attribute("class") or focused.tag_name))
        if len(reached) == 1:
            assert focused.text == "Skip to the figures"
            assert focused.rect["y"] >= 0
        assert chrome.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached[:3] == ["skip", "pause", "scroll"]
    assert "summary" in reached


def test_hostile_names_run_nothing(open_browser: Open) -> None:
    """Topic, labels, features and reasons made of markup are read as they are written, before and after an update."""
    metrics = Metrics(TRAINER)
    site = boards.site(boards.snapshot(boards.drawing(np.array([1.0, -0.5, 0.2]))), metrics=metrics)
    with served(site.answer) as url:
        chrome = open_browser()
        chrome.get(url)
        assert boards.HOSTILE in chrome.find_element(By.CLASS_NAME, "about").text
        metrics.increase("streamsvm_input_rows", 41, outcome="accepted")
        WebDriverWait(chrome, PATIENCE_S).until(lambda c: number(c, "input.accepted") == "41")
        assert chrome.execute_script("return window.hacked === undefined")
        assert boards.HOSTILE in chrome.find_element(By.CLASS_NAME, "picture").text
        assert troubles(chrome) == []


def test_a_daemon_that_is_gone_is_said(open_browser: Open) -> None:
    """When no answer comes, the page says so and keeps the last figures; a pause button is still a pause button."""
    site = boards.site(boards.snapshot(None))
    with served(site.answer) as url:
        chrome = open_browser()
        chrome.get(url)
        assert chrome.find_element(By.ID, "connection").text == ""
    WebDriverWait(chrome, PATIENCE_S).until(lambda c: "No answer" in c.find_element(By.ID, "connection").text)
    assert number(chrome, "versions.0.number") == "7"
