"""The processes of a parallel run find one broker, which is begun when the first of them asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Client

import pytest

from tests.brokers import shared
from tests.brokers.choice import NoBroker, RealBroker
from tests.brokers.shared import ADDRESS, SharedBroker, find_real_broker


class Starts:
    """What happened to the broker; raises what it is given instead of starting one."""

    def __init__(self) -> None:
        self.count = self.stops = 0
        self.error: Exception | None = None

    def start(self) -> RealBroker:
        self.count += 1
        if self.error is not None:
            raise self.error
        return RealBroker("127.0.0.1:9", "a broker", self.stop)

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    made = Starts()
    monkeypatch.setattr(shared, "start_real_broker", made.start)
    monkeypatch.setenv(ADDRESS, "of the run that this test is part of")  # put back at the end
    return made


@pytest.fixture
def keeper(starts: Starts) -> Iterator[SharedBroker]:
    made = SharedBroker()
    yield made
    made.stop()


def test_it_is_begun_by_whoever_asks_first_and_ended_by_the_run(starts: Starts) -> None:
    """Nobody asked: none; twice: one. A process that is done with it leaves it to the others."""
    keeper = SharedBroker()
    assert (starts.count, keeper.found) == (0, None)
    found = [find_real_broker() for _ in range(2)]
    assert ({each.bootstrap_servers for each in found}, starts.count) == ({"127.0.0.1:9"}, 1)
    found[0].stop()
    assert starts.stops == 0
    keeper.stop()
    assert starts.stops == 1


@pytest.mark.parametrize("forced", [True, False])
def test_what_is_missing_is_said_to_each(starts: Starts, keeper: SharedBroker, forced: bool) -> None:
    """With the reason; and whether it is an error, or a reason to skip."""
    starts.error = NoBroker("no java", forced=forced)
    for _ in range(2):
        with pytest.raises(NoBroker, match="no java") as missing:
            find_real_broker()
        assert missing.value.forced == forced
    assert starts.count == 1


def test_a_process_that_dies_while_it_asks_ends_nothing(keeper: SharedBroker) -> None:
    """Whoever asks next is answered."""
    with closing(Client(os.environ[ADDRESS], "AF_UNIX")):
        pass
    assert find_real_broker().description == "a broker"


def test_alone_a_process_has_its_own(starts: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a parallel run nobody keeps one for it."""
    monkeypatch.delenv(ADDRESS)
    find_real_broker().stop()
    assert (starts.count, starts.stops) == (1, 1)
