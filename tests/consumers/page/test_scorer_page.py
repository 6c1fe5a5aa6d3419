"""The scorer's live page in a real browser, of a scorer that really runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from consumers.host import HttpServer
from consumers.page.site import Site
from consumers.settings import HttpConfig
from streamsvm.kafka import Connection, EmbeddedBroker
from tests.consumers.page.looks import LOOKS, Open, agree_with_the_status, assert_fits, number_of, numbers, violations
from tests.consumers.scorer.running import Running, points, produce, settings_for
from tests.registry.test_subscriber import Trainer, eventually, version_of

GOOD, BAD = 40, 3


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the page of a scorer is that scored some points by its second version, and refused three records."""
    with EmbeddedBroker() as broker:
        connection = Connection(options={**broker.connection.options, "fetch.wait.max.ms": 10}, embedded=True)
        settings = settings_for(connection)
        with closing(Trainer(connection, settings.output.models_topic)) as trainer:
            trainer.publish(version_of(1))
            trainer.publish(version_of(2))
        produce(connection, settings.scoring.topic, [*points(range(GOOD)), *[b"no point"] * BAD])
        with Running(settings, connection) as running:
            eventually(lambda: running.value("streamsvm_scored_points_total") == GOOD, "all are scored")
            site = Site(settings, running.board, running.metrics, running.health)
            with HttpServer(HttpConfig(port=0), running.health, running.metrics.registry, site.answer) as http:
                eventually(lambda: running.health.ready()[0], "it is ready")
                yield http.url


def test_without_javascript_the_numbers_are_those_of_the_status(url: str, open_browser: Open) -> None:
    """A browser that runs no script shows the version that serves, the points and the dead letters."""
    chrome = open_browser(javascript=False)
    chrome.get(url)
    shown = numbers(chrome)
    agree_with_the_status(shown, url)
    assert number_of(shown, "serving.number") == 2
    assert number_of(shown, "scored_points") == GOOD
    assert number_of(shown, "batches.put_back") == 0
    assert number_of(shown, "dead_letters.malformed_json") == BAD


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_page_fits_and_the_checker_of_accessibility_finds_nothing(
    url: str, open_browser: Open, width: int, scheme: str
) -> None:
    """Wide and narrow, light and dark: no scrolling sideways, no complaint, and no violation of WCAG 2.2 A and AA."""
    chrome = open_browser(width, 900, scheme=scheme)
    chrome.get(url)
    assert_fits(chrome, width, scheme)
    assert violations(chrome) == []
