"""The processes of a parallel run find one broker, which is begun when the first of them asks."""

from __future__ import annotations

import os
from contextlib import closing
from multiprocessing.connection import Client

import pytest

from tests.brokers import shared
from tests.brokers.choice import NoBroker, RealBroker
from tests.brokers.shared import ADDRESS, SharedBroker, find_real_broker


@pytest.mark.parametrize("missing", [None, NoBroker("no java", forced=True), NoBroker("no java", forced=False)])
def test_a_run_begins_a_broker_once_and_ends_it(missing: NoBroker | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked: none; twice: one, or the reason why there is none. Whoever dies while it asks ends nothing."""
    happened: list[str] = []

    def start() -> RealBroker:
        happened.append("start")
        if missing is not None:
            raise missing
        return RealBroker("127.0.0.1:9", "a broker", lambda: happened.append("stop"))

    monkeypatch.setattr(shared, "start_real_broker", start)
    monkeypatch.setenv(ADDRESS, "of the run that this test is part of")  # put back at the end
    with closing(SharedBroker()) as keeper:
        assert (happened, keeper.found) == ([], None)
        Client(os.environ[ADDRESS], "AF_UNIX").close()
        for _ in range(2):
            if missing is None:
                found = find_real_broker()
                found.stop()
                assert found.bootstrap_servers == "127.0.0.1:9"
            else:
                with pytest.raises(NoBroker, match="no java") as told:
                    find_real_broker()
                assert told.value.forced == missing.forced
        assert happened == ["start"]
    assert happened == ["start"] + ["stop"] * (missing is None)
