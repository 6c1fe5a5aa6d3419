"""The network between trainer and broker is cut, silent or slow."""

from __future__ import annotations

import threading

import pytest

from tests.faults.faulty import RSS_GROWTH, VERSIONS, FaultyBroker, Trainee


def cut_off(faulty: FaultyBroker, trainee: Trainee, times: int = 1, missing: str = "broker") -> None:
    """Cut the network in the midst of publishing until it says what it misses, some times; let the trainer finish."""
    daemon = trainee.begin()
    for _ in range(times):
        daemon.wait_for("model_published", times=5)
        faulty.proxy.cut()
        faulty.counts["cuts"] += 1
        trainee.check_amid()
        trainee.wait_until(lambda: missing in trainee.ready()[1], f"it is not ready for want of {missing}")
        faulty.proxy.mend()
    trainee.finish()


def test_a_short_cut_only_delays(faulty: FaultyBroker) -> None:
    """Connections break and none can be made: it says so, and goes on by itself when they can."""
    cut_off(faulty, faulty.trainee("steady"))


@pytest.mark.faults_long
def test_long_cuts_only_delay(faulty: FaultyBroker) -> None:
    """So long that a publish fails each time: it says that as well, looks what became of it, and goes on."""
    cut_off(faulty, faulty.trainee("unhurried", "impatient"), 5, "publish")


@pytest.mark.faults_long
def test_a_cut_shows_a_trainer_that_gives_up(faulty: FaultyBroker) -> None:
    """Planted: a trainer that ends when it cannot publish does not get through."""
    with pytest.raises(AssertionError, match="the process ended"):
        cut_off(faulty, faulty.trainee("steady", "impatient", "gives-up"), 1, "publish")


@pytest.mark.long
@pytest.mark.parametrize("silent_s", [5.0, pytest.param(40.0, marks=pytest.mark.faults_long)])
def test_silence_only_delays(faulty: FaultyBroker, silent_s: float) -> None:
    """A network that lets nothing pass and tells nobody, past the longest wait for a commit in the long form."""
    trainee = faulty.trainee("steady")
    daemon = trainee.begin()
    daemon.wait_for("model_published", times=5)
    faulty.proxy.go_silent()
    faulty.counts["silences"] += 1
    trainee.check_amid()
    threading.Event().wait(silent_s)  # the fault itself
    faulty.proxy.mend()
    trainee.finish()


def drag(faulty: FaultyBroker, trainee: Trainee) -> int:
    """Let a trainer do all its work over a slow network, and return how much memory it took meanwhile, in bytes."""
    daemon = trainee.begin()
    daemon.wait_for("model_published", times=5)
    before = daemon.rss_bytes()
    faulty.proxy.slow(0.02, 40_000.0)
    faulty.counts["slow_networks"] += 1
    trainee.check_amid()
    trainee.wait_until(lambda: trainee.version() == VERSIONS, "all versions are out")
    taken = daemon.rss_bytes() - before
    faulty.proxy.mend()
    return taken


@pytest.mark.long
def test_slowness_only_delays(faulty: FaultyBroker) -> None:
    """Every frame late, and 40 kB a second: it keeps up what it can, in the memory it had."""
    trainee = faulty.trainee("steady")
    assert drag(faulty, trainee) < RSS_GROWTH
    trainee.finish()


@pytest.mark.faults_long
def test_slowness_shows_a_hoarder(faulty: FaultyBroker) -> None:
    """A trainer that keeps something at every turn is found by the memory it takes."""
    assert drag(faulty, faulty.trainee("steady", "hoards")) > RSS_GROWTH
