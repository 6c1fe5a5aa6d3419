"""Challenges of equals under kills: `python -m tests.faults.challenges [--challenges N] [--kills K] [--json FILE]`.

A trainer with `output.gate = "shadow"` and two scorers of one group, all processes, on a real Kafka. The stream does
not change and one in ten labels is wrong by chance, so each version is as good as the one before. While challenges
begin and end, one of the three processes after the other is killed at a random moment and started again. Afterwards
every decision is computed again from the logs by `streamsvm verify`: the numbers of the challenges have no gap, each
spent what its number allows, and of equals none may have been promoted, but for once in a hundred such runs. How good a
version is is known here: whoever was promoted is compared with its champion over a million made rows.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np

from consumers.branches.challenges.judging import challenges_in
from consumers.settings import ScoringConfig, Settings
from consumers.verify.verify import verify
from streamsvm.branches.challenges.betting import alpha_of, spent_before
from streamsvm.branches.challenges.record import Challenge
from streamsvm.ingest.decoder import encode
from streamsvm.kafka import Cluster, Connection, Message, Outbox, TopicSpec
from tests.brokers.jvm import JvmBroker
from tests.consumers.trainers import settings_for, versions
from tests.faults.daemon import Daemon, arguments

PARTITIONS: Final = 2
SCORERS: Final = 2
SESSION: Final = ("session.timeout.ms=1500", "heartbeat.interval.ms=300")
LEAF_ROWS: Final = 4_000
"""As many that the first version, which challenges nobody, is as good as those that follow."""
LABELS: Final = 160
"""After which a challenge is over: the least that the option allows."""
PORTION: Final = 2_000
PAUSE_S: Final = 0.25
FIRST_ROWS: Final = 16_000
"""Learned before the scorers start: from then on a version is as good as the next."""
DEADLINE_S: Final = 3_600.0


def settings_of(prefix: str, directory: Path) -> Settings:
    """Return one configuration of a trainer and scorers of the same labeled points."""
    made = settings_for(prefix, directory, every_leaves=1)
    topic = made.input.topic
    sizes = {"points": 11 * LEAF_ROWS // 2, "screening": 0.0}
    scoring = ScoringConfig(
        topic=topic,
        output_topic=f"{topic}-scores",
        dead_letter_topic=f"{topic}-scorer.dlq",
        group=f"{topic}-scorer",
        shadow="@challenger",
    )
    settings = made.model_copy(
        update={
            "coreset": made.coreset.model_copy(update=sizes),
            "output": made.output.model_copy(
                update={"gate": "shadow", "gate_figure": "accuracy", "gate_labels": LABELS, "gate_margin": 0.5}
            ),
            "scoring": scoring,
        }
    )
    return Settings.model_validate(settings.model_dump(exclude={"features", "events"}))


def scorer_of(settings: Settings, connection: Connection) -> list[str]:
    """Return the command line of a scorer."""
    scoring = settings.scoring
    assert scoring.topic is not None
    options = {
        "name": settings.name,
        "bootstrap-servers": connection.servers,
        "output-models-topic": settings.output.models_topic,
        "scoring-topic": scoring.topic,
        "scoring-output-topic": scoring.output_topic,
        "scoring-dead-letter-topic": scoring.dead_letter_topic,
        "scoring-group": scoring.group,
        "scoring-shadow": scoring.shadow,
        "http-port": 0,
        "log-format": "json",
    }
    command = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return ["score", *command, *(part for option in SESSION for part in ("--kafka", option))]


class Stream:
    """Writes points whose label is the sign of the first feature, wrong one time in ten."""

    def __init__(self, connection: Connection, topic: str, seed: int) -> None:
        self._connection, self._topic = connection, topic
        self._random = np.random.default_rng(seed)
        self.sent = 0

    def send(self, n: int) -> None:
        """Write so many rows, dealt over the partitions."""
        X = np.round(self._random.standard_normal((n, 3)), 5)
        y = np.where((X[:, 0] > 0.0) == (self._random.random(n) < 0.9), 1, -1)
        with closing(Outbox(self._connection)) as outbox:
            for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
                outbox.send(Message(self._topic, encode(x, label), partition=(self.sent + i) % PARTITIONS))
            outbox.flush(60.0)
        self.sent += n


def run(connection: Connection, challenges: int, kills: int, directory: Path, prefix: str, seed: int) -> dict[str, Any]:
    """Run until so many challenges have ended and so many kills were done; return what `verify` and the trail say."""
    chance, began = random.Random(seed), time.monotonic()
    settings = settings_of(prefix, directory / "checkpoint")
    Cluster(connection).create([TopicSpec(settings.input.topic, PARTITIONS)])
    stream = Stream(connection, settings.input.topic, seed)
    options = {
        "output_gate": "shadow",
        "output_gate_figure": "accuracy",
        "output_gate_labels": LABELS,
        "output_gate_margin": 0.5,
        "coreset_train_points": settings.coreset.train_points,
    }
    # The trainer reads what the scorers write.
    environment = {
        f"STREAMSVM_SCORING__{name.upper()}": str(getattr(settings.scoring, name)) for name in ("topic", "output_topic")
    }
    commands = [arguments(settings, connection, **options), *[scorer_of(settings, connection)] * SCORERS]
    daemons: list[Daemon | None] = [None] * len(commands)

    def start(index: int) -> Daemon:
        daemon = daemons[index] = Daemon(commands[index], environment if index == 0 else None)
        return daemon

    stream.send(FIRST_ROWS)
    assert start(0).reaches_version(FIRST_ROWS // LEAF_ROWS - PARTITIONS), "the trainer ended"
    for index in range(1, len(commands)):
        start(index).wait_for("started")
    killed, ended = Counter[str](), 0
    try:
        while ended < challenges or sum(killed.values()) < kills:
            assert time.monotonic() - began < DEADLINE_S, f"{ended} challenges and {dict(killed)} in an hour"
            stream.send(PORTION)
            time.sleep(PAUSE_S)  # the stream comes at a rate
            ended = len(list(challenges_in(Cluster(connection), settings, 60.0)))
            for daemon in daemons:
                assert daemon is not None
                daemon.catch_up()
                assert daemon.ended() is None, daemon.said[-3_000:]
            if ended * kills >= sum(killed.values()) * challenges and sum(killed.values()) < kills:
                index = chance.randrange(len(commands))
                victim = daemons[index]
                assert victim is not None
                time.sleep(chance.uniform(0.0, 0.5))  # a random moment, on purpose
                victim.kill()
                killed["scorer" if index else "trainer"] += 1
                start(index)
        statuses = [daemon.stop() for daemon in daemons if daemon is not None]
    finally:
        for daemon in daemons:
            if daemon is not None and daemon.ended() is None:
                daemon.kill()
    assert statuses == [0] * len(daemons), statuses
    found = list(challenges_in(Cluster(connection), settings, 60.0))
    check_spending(found)
    report = verify(Cluster(connection), settings)
    assert report.clean, report.lines()
    outcomes = Counter(one.ended.outcome for one in found if one.ended is not None)
    good = accuracies(connection, settings)
    won = [one for one in found if one.ended is not None and one.ended.outcome == "better"]
    return {
        "rows": stream.sent,
        "challenges": len(found),
        "outcomes": dict(outcomes),
        "accuracy": [min(good.values()), max(good.values())],
        "promoted": [(good[one.champion.number], good[one.challenger.number]) for one in won],
        "promoted_and_not_better": sum(good[one.challenger.number] <= good[one.champion.number] for one in won),
        "kills": dict(killed),
        "versions": len(report.rows),
        "verify": "clean",
        "minutes": round((time.monotonic() - began) / 60.0, 1),
    }


def accuracies(connection: Connection, settings: Settings) -> dict[int, float]:
    """Return the share of right answers of each version in the long run."""
    X = np.random.default_rng(0).standard_normal((1_000_000, 3))
    positive = X[:, 0] > 0.0
    right = {
        one.number: ((one.model.decision_function(X) > 0.0) == positive).mean()
        for one in versions(connection, settings)
    }
    return {number: round(0.1 + 0.8 * float(share), 5) for number, share in right.items()}


def check_spending(found: Sequence[Challenge]) -> None:
    """Assert that numbers have no gap, and that each challenge had what its number allows."""
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    for one in found:
        assert (one.alpha, one.spent) == (alpha_of(one.number), spent_before(one.number))


def main(given: Sequence[str] | None = None) -> None:
    """Run, and say what it came to."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.challenges", description=__doc__.splitlines()[0])
    parser.add_argument("--challenges", type=int, default=50, help="%(default)s")
    parser.add_argument("--kills", type=int, default=30, help="%(default)s")
    parser.add_argument("--seed", type=int, default=3, help="%(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(given)
    broker = JvmBroker()
    try:
        broker.start()
        connection = Connection(options={"bootstrap.servers": broker.bootstrap_servers})
        with tempfile.TemporaryDirectory() as directory:
            figures = run(connection, options.challenges, options.kills, Path(directory), "equals", options.seed)
    finally:
        broker.stop()
    print(json.dumps(figures, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(figures) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
