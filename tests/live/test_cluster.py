"""A table of strikes upon the brokers of scorers: each row has a rebalance while the strike lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Final, Literal

import pytest

from streamsvm.kafka import Connection
from tests.live.cluster import Brokers
from tests.live.scenario import Scenario, play_out, rows
from tests.live.scoring import SHORT_SESSION, all_answered, begin, feed, feed_until_all_work
from tests.live.strikes import pause, step
from tests.live.struck import BETWEEN, HOW, NETWORK, NODES, QUOTAS, STRIKES, Struck

Change = Literal["joins", "leaves", "dies"]
FEW: Final = 400
MANY: Final = 800
START_AGAIN: Final = 75
LASTS_S: Final = 4.5
"""Longer than a scorer's session and than a broker's."""
ANSWER_S: Final = 30.0
NODE: Final = {"own": "one node", "three": "three nodes"}
QUICK: Final = ("the positions are set ahead", "the input is removed as far as it was scored")


@step
def strike(play: Struck, name: str, change: Change) -> None:
    """Strike amid the stream; meanwhile more is fed, and a scorer joins, leaves or is killed."""
    play.feed(MANY)
    with ThreadPoolExecutor(1) as feeder, STRIKES[name](play):
        fed = feeder.submit(play.feed, FEW)
        if change == "joins":
            play.begin("late", "", "", SHORT_SESSION)
        elif change == "leaves":
            play.scorers["a"].terminate()
        else:
            play.scorers["a"].strike()
        pause(LASTS_S)(play)
    fed.result()
    play.counts["strikes"] += 1


@step
def changed(play: Struck, change: Change) -> None:
    """Whoever joined has started, at the latest when it was started again; whoever left ended well."""

    def joined() -> bool:
        if play.scorers["late"].ended() == START_AGAIN:  # it has asked in vain who leads: whoever runs it does this
            play.begin("late", "", "", SHORT_SESSION)
        play.scorers["late"].catch_up()
        return bool(play.scorers["late"].events("started"))

    if change == "joins":
        play.wait_until(joined, "it joins")
    else:
        assert play.scorers.pop("a").wait() == (0 if change == "leaves" else -9)


@step
def all_live(play: Struck) -> None:
    """Check that nobody else has ended, and let all end well."""
    assert {name: daemon.ended() for name, daemon in play.scorers.items()} == dict.fromkeys(play.scorers)
    play.stop_all()


def row(name: str, on: Literal["own", "three"], members: int, change: Change) -> Scenario:
    """Return what is played: a strike, on one node or three, upon so many scorers, one of which comes or goes."""
    names = "abc"[:members]
    return Scenario(
        name=f"{name} on {NODE[on]} and of {members} scorers one {change}",
        steps=(
            feed(FEW),
            begin(*names),
            feed_until_all_work(*names),
            all_answered(),  # where nothing was ever scored, a position that a person sets does count
            strike(name, change),
            changed(change),
            feed(FEW),
            all_answered(),
            all_live(),
        ),
        on=on,
        quick=on == "own" and change == "joins" and name in QUICK,
    )


def table() -> Iterator[Scenario]:
    """Every strike, with the changes and the numbers of scorers in turn."""
    changes: tuple[Change, ...] = ("joins", "leaves", "dies")
    varied = cycle([(members, change) for change in changes for members in (2, 3)])
    for name in NODES:
        yield row(name, "three", *next(varied))
    next(varied)  # else each way on a node would meet one change only
    for how in HOW:
        for _ in range(2):
            yield row(f"the leader of the input is {how}", "own", *next(varied))
    for at, name in enumerate(BETWEEN):
        yield row(name, "own", *next(varied))
        if at % 2:
            yield row(name, "three", *next(varied))
    for name in NETWORK:
        if name != "the way to the group's coordinator is silent":
            yield row(name, "own", *next(varied))
        yield row(name, "three", *next(varied))
    for name in QUOTAS:
        yield row(name, "own", *next(varied))
    yield row("the positions are set back", "own", 2, "joins").spoilt(
        "a scorer that trusts its group is found", "trusts-its-group", found="answered twice"
    )


@pytest.mark.parametrize("scenario", rows(table()))
def test_scorers_on_a_cluster_answer_each_record_once(
    scenario: Scenario,
    at_hand: Callable[[str], Brokers | Connection],
    record_property: Callable[[str, object], None],
) -> None:
    """Whatever strikes brokers, network and group while scorers come and go; a planted defect is found."""
    brokers = at_hand(scenario.on)
    assert isinstance(brokers, Brokers)
    direct = Connection(options={"bootstrap.servers": brokers.direct}, request_timeout_s=ANSWER_S)
    play_out(scenario, Struck(direct, *scenario.planted, brokers=brokers), record_property)
