"""The broker away for longer than a transaction may be open: daemons move again by themselves, nothing lost or doubled.

A broker that comes back so late may finish a transaction without marking its partitions. `tests.faults.outages` plays
the same over many kills and counts what they come to; what is looked at is there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.brokers.jvm import CannotRun
from tests.faults.outages import Plan, Play, Site

Note = Callable[[str, object], None]
AWAY_S = 25.0
TWO_MINUTES_S = 120.0
"""Nothing may stand still for longer while /healthz is green."""
KILLS = 3
CLEAN = {"doubled": 0, "missing": 0, "verify": 0, "scores_missing": 0, "scores_doubled": 0, "apart": 0}
EVERY_SETTING = pytest.mark.parametrize("settings", ["frequent", "defaults"])
EVERYBODY = pytest.mark.parametrize("what", ["trainer", "scorer", "both"])


def played(plan: Plan, note: Note, kills: int = KILLS, planted: str = "") -> Site:
    """Play some kills; skips where no broker can be had."""
    seed = random.SystemRandom().randrange(1 << 32)
    note("seed", seed)
    try:
        play = Play(plan, seed, TWO_MINUTES_S, planted)
    except CannotRun as error:
        pytest.skip(f"no broker to ill-treat: {error}")
    site = play.run(kills)
    note("broker_kills", site.kills)
    for name in ("versions", "scores"):
        note(name, site.found.get(name, 0))
    note("ended_75", site.ended_75)
    return site


def check(site: Site, kills: int = KILLS) -> None:
    """Check that everybody moved on without a person, and that readers have everything once."""
    assert not site.hung, f"{site.hung} hang, {site.green} of them with /healthz green: {site.notes}"
    assert not site.ended_otherwise, site.notes
    assert site.kills == kills
    found: dict[str, Any] = {name: site.found[name] for name in CLEAN if name in site.found}
    assert found == {name: CLEAN[name] for name in found}, site.notes
    assert found, "nothing was looked at"


@pytest.mark.faults_long
@pytest.mark.timeout(1_800)
@EVERY_SETTING
@EVERYBODY
def test_a_long_outage_only_delays(what: str, settings: str, record_property: Note) -> None:
    """The broker dies in mid-transaction and is away for 25 s; the daemons live."""
    check(played(Plan(what=what, settings=settings, away_s=AWAY_S), record_property))


@pytest.mark.faults_long
@pytest.mark.timeout(1_800)
@EVERY_SETTING
@EVERYBODY
def test_a_power_loss_only_delays(what: str, settings: str, record_property: Note) -> None:
    """Broker and daemons die at once, and come back after 12 s: what the dead left open is ended."""
    check(played(Plan(what=what, settings=settings, away_s=12.0, double=True), record_property))


@pytest.mark.faults_long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("brokers", ["coordinator", "three"])
def test_a_cluster_only_delays(brokers: str, record_property: Note) -> None:
    """Of three brokers the coordinator of transactions dies, and another takes over; or all three at once."""
    plan = Plan(what="both", settings="frequent", away_s=AWAY_S, brokers=brokers)
    check(played(plan, record_property, 2), 2)
