"""A small stream through trainer, scorer and `verify`, by modules of the trunk alone; prints what came of it, as JSON.

A process of its own, so that it can run in a copy of the tree from which a branch was removed. With an address it runs
on that broker, without one on the embedded broker. `--record KEY` first writes a record under that key to the aliases
topic, as somebody may have done who had the branch.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from consumers.host.runtime import Health
from consumers.metrics import SCORER, TRAINER, Metrics
from consumers.page.board import ScorerBoard, TrainerBoard
from consumers.page.site import Site
from consumers.scorer.components import ScorerComponents
from consumers.scorer.scorer import Scorer
from consumers.settings import CheckpointConfig, InputConfig, OutputConfig, ScoringConfig, Settings, TrainingConfig
from consumers.streams.topics import output_topics
from consumers.trainer.components import Components
from consumers.trainer.trainer import Trainer
from consumers.verify.verify import verify
from streamsvm.config import CoresetConfig, PointsConfig, SvmConfig
from streamsvm.errors import StreamsvmError
from streamsvm.kafka import Cluster, Connection, EmbeddedBroker, Message, TopicSpec

DEADLINE_S: Final = 120.0
"""A first run compiles where others use the processors."""
ROWS: Final = 200
LEAF_ROWS: Final = 20
SCORED: Final = 50


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers")
    parser.add_argument("--record")
    given = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if given.bootstrap_servers is None:
            connection = stack.enter_context(EmbeddedBroker()).connection
        else:
            connection = Connection(options={"bootstrap.servers": given.bootstrap_servers})
        print(json.dumps(run(connection, settings_for(directory), given.record)))


def settings_for(directory: Path) -> Settings:
    """Return settings whose topics nobody else uses: a version every two leaves."""
    unique = uuid.uuid4().hex[:12]
    return Settings(
        name="m",
        kafka={"bootstrap.servers": "unused:1"},
        input=InputConfig(topic=f"{unique}-in"),
        points=PointsConfig(dimension=2),
        coreset=CoresetConfig(points=11 * LEAF_ROWS // 2, structure="tree"),
        svm=SvmConfig(C=1.0),
        output=OutputConfig(models_topic=f"{unique}-models"),
        training=TrainingConfig(policy="every", every_leaves=2),
        checkpoint=CheckpointConfig(directory=directory, interval_s=0.05),
        scoring=ScoringConfig(topic=f"{unique}-unlabeled", output_topic=f"{unique}-scores", group=unique),
    )


def run(connection: Connection, settings: Settings, record: str | None) -> dict[str, Any]:
    """Return how many versions and scores came, and what `verify` says; or what a refusal says."""
    cluster = Cluster(connection)
    inputs = [settings.input.topic, settings.scoring.topic]
    cluster.create([TopicSpec(topic, 1) for topic in (*inputs, settings.scoring.output_topic)])
    cluster.create(output_topics(settings))
    write(cluster, settings.input.topic, ROWS, labeled=True)
    if record is not None:
        send(cluster, [Message(settings.output.aliases_topic, b"{}", key=record.encode(), partition=0)])
    try:
        train(cluster, settings)
    except StreamsvmError as error:
        return {"refused": str(error)}
    write(cluster, settings.scoring.topic, SCORED, labeled=False)
    score(connection, settings)
    scores = scores_in(cluster, settings.scoring.output_topic)
    report = verify(cluster, settings)
    outcomes = [row.outcome.value for row in report.rows]
    return {"outcomes": outcomes, "scores": scores, "status": report.exit_status, "notes": list(report.notes)}


def write(cluster: Cluster, topic: str, rows: int, *, labeled: bool) -> None:
    """Write points on either side of a line."""
    messages = []
    for at in range(rows):
        label = 1 if at % 2 else -1
        point: dict[str, Any] = {"x": [label * (1.0 + at % 7), float(at % 11)]}
        messages.append(Message(topic, json.dumps(point | ({"y": label} if labeled else {})).encode(), partition=0))
    send(cluster, messages)


def send(cluster: Cluster, messages: list[Message]) -> None:
    """Send messages, and wait until they are stored."""
    outbox = cluster.outbox()
    for message in messages:
        outbox.send(message)
    outbox.flush(DEADLINE_S)
    outbox.close()


def train(cluster: Cluster, settings: Settings) -> None:
    """Run a trainer until it learned all rows; raises what ended it."""
    metrics, stop = Metrics(TRAINER).with_process(), threading.Event()
    board, health = TrainerBoard(settings, metrics), Health(stuck_after_s=DEADLINE_S)
    components = Components(cluster=cluster, metrics=metrics, health=health, stop=stop, board=board)
    count = metrics.registry.get_sample_value
    run_until(
        Trainer(settings, components).run,
        stop,
        lambda: (count("streamsvm_input_rows_total", {"outcome": "accepted"}) or 0.0) >= ROWS,
    )
    answers = [Site(settings, board, metrics, health).answer(page) for page in ("/", "/status.json")]
    assert all(answer is not None and answer.body for answer in answers)


def score(connection: Connection, settings: Settings) -> None:
    """Run a scorer until it scored all points."""
    metrics, stop = Metrics(SCORER).with_process(), threading.Event()
    health = Health(stuck_after_s=DEADLINE_S)
    components = ScorerComponents(connection=connection, metrics=metrics, health=health, stop=stop, board=ScorerBoard())
    cluster, topic = Cluster(connection), settings.scoring.output_topic
    run_until(Scorer(settings, components).run, stop, lambda: scores_in(cluster, topic) >= SCORED)


def scores_in(cluster: Cluster, topic: str) -> int:
    """Count scores; a topic of the embedded broker has more partitions than were asked for."""
    partitions = cluster.describe(topic).partitions
    return sum(1 for at in partitions for _ in cluster.read_to_end(topic, at, timeout_s=30.0))


def run_until(daemon: Callable[[], object], stop: threading.Event, happened: Callable[[], bool]) -> None:
    """Run a daemon in a thread until something happened, and stop it; raises what ended it before."""
    failures: list[BaseException] = []

    def target() -> None:
        try:
            daemon()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    deadline = time.monotonic() + DEADLINE_S
    while thread.is_alive() and not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
    stop.set()
    thread.join(DEADLINE_S)
    assert not thread.is_alive(), "the daemon did not stop"
    if failures:
        raise failures[0]


if __name__ == "__main__":
    main()
