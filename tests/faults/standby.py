"""Copies that stand by: `python -m tests.faults.standby [--kills K] [--brokers 3] [--json FILE]`.

Two processes of one trainer on a real broker, or on three, share a checkpoint directory. The one that works is killed,
again and again, right after a version; records keep coming, and a new copy is started to stand by. Told is the time
from the kill to the next copy's turn and to the next version that readers of committed records can see, beside the time
until a bare lock (`bare_lock.py`) whose holder was killed in the same moment has another. At the end the versions are
those of one trainer that nobody killed, and `verify` finds nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from consumers.settings import Settings
from consumers.verify.verify import verify
from streamsvm.errors import TopicMissing, TransientError
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.brokers.cluster import Cluster as Brokers
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import produce, records, settings_for, topic
from tests.faults.bare_lock import BareLock, spread
from tests.faults.daemon import Daemon, arguments

ROWS_A_VERSION: Final = 40
SESSION_S: Final = 6.0
LATER_S: Final = 2.0
"""How much longer than its session, or than a bare lock, a copy may take to a version."""
LONGEST_S: Final = 120.0


def started(settings: Settings, connection: Connection) -> Daemon:
    """Start a copy."""
    return Daemon(arguments(settings, connection, training_standby="true"))


def seen(connection: Connection, settings: Settings) -> int:
    """Return how many versions readers can see; none before the first copy has created the topic, or at a refusal."""
    try:
        return len(topic(connection, settings.output.models_topic))
    except (TopicMissing, TransientError):  # which one of three nodes may say that is late
        return 0


def until(connection: Connection, settings: Settings, count: int) -> float:
    """Wait until so many versions can be seen; return when that was."""
    deadline = time.monotonic() + LONGEST_S
    with connection.kept.keeping():
        while seen(connection, settings) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"no version {count} within {LONGEST_S:.0f} s")
            time.sleep(0.05)  # between two looks
        return time.monotonic()


def run(connection: Connection, kills: int, directory: Path, prefix: str) -> dict[str, Any]:
    """Kill so many copies; return the seconds without a new version, and what the versions are."""
    settings = settings_for(prefix, directory / "checkpoint", standby=True)
    Cluster(connection).create([TopicSpec(settings.input.topic)])
    values = records(ROWS_A_VERSION * (2 * kills + 2), seed=7)
    working, versions = started(settings, connection), 0
    turns, waits, bare = list[float](), list[float](), list[float]()

    def feed() -> None:
        nonlocal versions
        produce(connection, settings.input.topic, values[ROWS_A_VERSION * versions : ROWS_A_VERSION * (versions + 1)])
        versions += 1

    feed()
    until(connection, settings, versions)
    try:
        with BareLock(connection) as lock:
            for _ in range(kills):
                waiting = started(settings, connection)
                waiting.wait_for("standing_by")
                feed()
                until(connection, settings, versions)
                lock.await_spare()
                working.strike()
                struck, taking = time.time(), lock.kill_holder()
                working.wait()
                feed()
                waits.append(until(connection, settings, versions) - taking.killed)
                bare.append(taking.taken_after())
                turn = datetime.fromisoformat(waiting.wait_for("takes_its_turn")["timestamp"])
                turns.append(turn.timestamp() - struck)
                working = waiting
        assert working.stop() == 0, working.said[-2_000:]
    finally:
        working.kill()
    alone = settings.model_copy(
        update={
            "output": settings.output.model_copy(update={"models_topic": f"{prefix}-alone"}),
            "checkpoint": settings.checkpoint.model_copy(update={"directory": directory / "alone"}),
        }
    )
    single = Daemon(arguments(alone, connection))
    assert single.reaches_version(versions), single.said[-2_000:]
    assert single.stop() == 0
    found = [[record.value for record in topic(connection, one.output.models_topic)] for one in (settings, alone)]
    report = verify(Cluster(connection), settings)
    return {
        "kills": kills,
        "versions": versions,
        "same_as_one_trainer": found[0] == found[1],
        "verified": report.clean,
        "session_timeout_s": SESSION_S,
        "seconds_to_a_turn": spread(turns),
        "seconds_to_a_version": spread(waits),
        "seconds_to_a_bare_lock": spread(bare),
        "within_session_and_2_s": sum(wait <= SESSION_S + LATER_S for wait in waits),
        "within_bare_lock_and_2_s": sum(wait <= other + LATER_S for wait, other in zip(waits, bare, strict=True)),
        "turns_bares_waits": [[round(one, 2) for one in three] for three in zip(turns, bare, waits, strict=True)],
    }


def main(arguments_: Sequence[str] | None = None) -> int:
    """Run it on brokers of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.standby", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="%(default)s")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="%(default)s")
    parser.add_argument("--json", type=Path, help="where to write the figures, too")
    options = parser.parse_args(arguments_)
    broker = JvmBroker() if options.brokers == 1 else Brokers()
    try:
        broker.start()
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        with tempfile.TemporaryDirectory() as directory:
            figures = run(connection, options.kills, Path(directory), "standby")
    finally:
        broker.stop()
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n")
    return 0 if figures["same_as_one_trainer"] and figures["verified"] else 1


if __name__ == "__main__":
    sys.exit(main())
