"""The broker that trusts nobody unasked, and sites on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.secured import SecuredBroker, secured_broker
from tests.kafka.secured_site import Site, at_work, permitting
from tests.live.process import Daemon


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker of these tests."""
    with secured_broker(tmp_path_factory.mktemp("certificates")) as running:
        yield running


@pytest.fixture
def site(secured: SecuredBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Topics of this test's own; what the users were permitted on them is taken back."""
    made = Site(secured, tmp_path)
    with permitting(secured):
        yield made
    request.node.user_properties.append(("processes", len(made.started)))


@pytest.fixture
def working(site: Site) -> Iterator[tuple[Site, Daemon]]:
    """A trainer at work."""
    with at_work(site) as daemon:
        yield site, daemon
