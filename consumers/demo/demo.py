"""The demo: a real pulsar survey through the embedded broker, the real trainer, a real subscriber, and the reckoning.

Nothing is staged: points are produced to a topic, the trainer reads them there, and the model that is measured at the
end is one that a subscriber read from the models topic.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from consumers import constants
from consumers.host.runtime import Health, configure_logging, show_health, stop_on_signals
from consumers.host.web.server import HttpServer
from consumers.metrics import TRAINER, Metrics
from consumers.page.board import TrainerBoard
from consumers.page.site import Site
from consumers.replay.replay import ReplayResult, prepare_topic, replay
from consumers.settings import CheckpointConfig, HttpConfig, InputConfig, LogConfig, Settings, TrainingConfig
from consumers.streams.topics import output_topics
from consumers.trainer.components import Components
from consumers.trainer.trainer import Trainer
from streamsvm.choices import ReducerName
from streamsvm.config import CoresetConfig, PointsConfig, SvmConfig
from streamsvm.coreset.buckets import Moments
from streamsvm.datasets import load_htru2
from streamsvm.errors import TransientError
from streamsvm.ingest.files.array_files import from_arrays
from streamsvm.kafka import Cluster, EmbeddedBroker, Tail
from streamsvm.learning.training import train
from streamsvm.model.machine import LinearMachine, Model, Scaler
from streamsvm.model.version import Version
from streamsvm.points import Points
from streamsvm.registry.loading import Loaded, check
from streamsvm.registry.subscriber import ModelSubscriber
from streamsvm.svm.problem import primal_objective

TOPIC: Final = "candidates"
NAME: Final = "pulsar"
SPLIT_SEED: Final = 7
HELD_OUT: Final = 5
RATE_PER_S: Final = 3_000.0
POINTS: Final = 550
"""Of which a leaf has 100."""
EVERY_LEAVES: Final = 11
LEAST_VERSIONS: Final = 8
MOST_POINTS: Final = 1_500
READ_AT_ONCE: Final = 12
"""Records, with a backlog four times as many: what is read and not yet learned counts as held, too."""
DEADLINE_S: Final = 120.0
"""Without a row learned, after which the demo gives up and says so."""
START_S: Final = 900.0
"""The same before the first row: to compile takes a minute, and ten where other programs take the processors."""


@dataclass(frozen=True, slots=True)
class Split:
    """The survey, shuffled with a fixed seed, a fifth held out."""

    train: Points
    held_out_features: NDArray[np.float32]
    held_out_signs: NDArray[np.int8]
    feature_names: tuple[str, ...]


def split_survey() -> Split:
    """Shuffle (the survey's rows are sorted by how their share of pulsars falls) and hold out every fifth row."""
    X, y, names = load_htru2()
    order = np.random.Generator(np.random.PCG64(SPLIT_SEED)).permutation(len(y))
    X, signs = X[order], np.where(y[order] > 0, 1, -1).astype(np.int8)
    held_out = np.arange(len(y)) % HELD_OUT == 0
    learned = Points(X[~held_out], signs[~held_out], np.ones(int((~held_out).sum())))
    return Split(learned, X[held_out], signs[held_out], tuple(names))


def settings_for(directory: Path, split: Split, bootstrap_servers: str, reducer: ReducerName) -> Settings:
    """Return the demo's configuration: at most `MOST_POINTS` points at once, no version skipped."""
    return Settings(
        name=NAME,
        kafka={"bootstrap.servers": bootstrap_servers},
        input=InputConfig(topic=TOPIC),
        points=PointsConfig(dimension=split.train.dimension, labels=(0, 1), feature_names=split.feature_names),
        coreset=CoresetConfig(reducer=reducer, points=POINTS),
        svm=SvmConfig(),
        training=TrainingConfig(policy="every", every_leaves=EVERY_LEAVES),
        checkpoint=CheckpointConfig(directory=directory, interval_s=2.0),
        http=HttpConfig(port=0),
    )


def run(reducer: ReducerName, *, keep_open: bool = False) -> bool:
    """Run the demo; return whether the models really came over the topic.

    Parameters
    ----------
    reducer : str
        As `coreset.reducer`.
    keep_open : bool
        Stay after the table until interrupted, with the live page answering.
    """
    configure_logging(LogConfig(level="warning"))
    constants.BATCH_RECORDS = READ_AT_ONCE
    console = Console()
    split = split_survey()
    console.print(
        f"[bold]HTRU2 pulsar survey[/]: {len(split.train):,} labeled candidates go to the topic [cyan]{TOPIC}[/], "
        f"{len(split.held_out_signs):,} are held out."
    )
    with tempfile.TemporaryDirectory() as directory, EmbeddedBroker() as broker:
        settings = settings_for(Path(directory), split, broker.bootstrap_servers, reducer)
        metrics, health = (
            Metrics(TRAINER.of(settings)).with_process(),
            Health(stuck_after_s=constants.STUCK_AFTER_S),
        )
        show_health(metrics, health)
        board = TrainerBoard(settings, metrics)
        site = Site(settings, board, metrics, health)
        with HttpServer(settings.http, health, metrics.registry, site.answer) as http:
            console.print(
                f"Embedded broker at {broker.bootstrap_servers}, the live page at http://127.0.0.1:{http.port}/"
                + ("" if keep_open else " while this runs (with --keep-open: also afterwards)")
            )
            console.print("The trainer warms up: a few seconds, or about a minute the first time, when it compiles.")
            stage = _Stage(settings, broker, split, metrics, health, board)
            received = stage.play(console)
            health.rest()
            board.ended(f"The demo's trainer has learned all {len(split.train):,} rows and ended; its figures stay.")
            finished = _reckon(console, split, stage, received)
            if keep_open:
                console.print("Ctrl-C ends.")
                stop_on_signals().wait()
    return finished


class _Stage:
    """Producer, trainer and subscriber at work, and what they show."""

    def __init__(
        self,
        settings: Settings,
        broker: EmbeddedBroker,
        split: Split,
        metrics: Metrics,
        health: Health,
        board: TrainerBoard,
    ) -> None:
        self._settings = settings
        self._connection = broker.connection
        self._cluster = Cluster(broker.connection)
        self._split = split
        self._metrics = metrics
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        components = Components(cluster=self._cluster, metrics=metrics, health=health, stop=self._stop, board=board)
        self._trainer = Trainer(settings, components)
        self.produced: ReplayResult | None = None
        self.loaded: Loaded | None = None

    def metric(self, name: str, **labels: str) -> float:
        """Return a metric of the trainer as /metrics would show it; 0 before its first value."""
        return self._metrics.registry.get_sample_value(name, labels) or 0.0

    def play(self, console: Console) -> list[Version]:
        """Run all three until every due version has come over its topic; return them in their order, each checked."""
        prepare_topic(self._cluster, TOPIC, create_partitions=1)
        self._cluster.create(output_topics(self._settings))
        published = self._cluster.tail(self._settings.output.models_topic, 0, 0)
        received: list[Version] = []
        threads = [threading.Thread(target=self._guarded, args=(part,)) for part in (self._trainer.run, self._produce)]
        for thread in threads:
            thread.start()
        try:
            with ModelSubscriber(self._connection, NAME) as subscriber:
                self._watch(console, subscriber, published, received)
            # By its number: the quality gate may have kept an earlier version current.
            with ModelSubscriber(self._connection, NAME, version=len(received)) as subscriber:
                self.loaded = subscriber.wait_ready(DEADLINE_S)
        finally:
            published.close()
            self._stop.set()
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise self._failure
        return received

    def _watch(self, console: Console, subscriber: ModelSubscriber, published: Tail, received: list[Version]) -> None:
        """Show progress, levels and versions until the last due version has come."""
        due = len(self._split.train) // (self._settings.coreset.leaf_rows * EVERY_LEAVES)
        bar = Progress(TextColumn("points learned"), BarColumn(40), MofNCompleteColumn(), console=console)
        task = bar.add_task("", total=len(self._split.train))
        moved_at, learned = time.monotonic(), 0.0
        with Live(console=console, refresh_per_second=8, transient=True) as live:
            while not self._failure:
                every_row = self._learned() >= len(self._split.train)
                if every_row and len(received) >= due:
                    break
                for record in published.poll(100, 0.05):
                    received.append(check(record, NAME, len(received) + 1))
                    console.print(_line(received[-1]))
                if (now := self._learned()) > learned:
                    moved_at, learned = time.monotonic(), now
                bar.update(task, completed=learned)
                live.update(Group(bar, self._levels()))
                if time.monotonic() - moved_at > (limit_s := DEADLINE_S if learned else START_S):
                    why = subscriber.missing or "the trainer is still learning"
                    raise TransientError(f"version {due} did not come; no row was learned for {limit_s:.0f} s: {why}")

    def _learned(self) -> float:
        return self.metric("streamsvm_input_rows_total", outcome="accepted")

    def _levels(self) -> Text:
        """Show the points that are kept: of the open leaf, and of the buckets."""
        text = Text("tree  ", style="dim")
        for level in ("leaf", "buckets"):
            points = int(self.metric("streamsvm_coreset_points", level=level))
            text.append(f" {level} ", style="dim")
            text.append(f"{points:>3}", style="bold cyan" if points else "dim")
        return text

    def _produce(self) -> None:
        outbox = self._cluster.outbox()
        try:
            labels = (self._split.train.y > 0).astype(int)
            source = from_arrays("htru2", self._split.train.X, labels, feature_names=self._split.feature_names)
            self.produced = replay(source, outbox, TOPIC, rate_per_s=RATE_PER_S, partition=0, stop=self._stop)
        finally:
            outbox.close()

    def _guarded(self, part: Callable[[], None]) -> None:
        try:
            part()
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            self._failure = error


def _line(version: Version) -> str:
    fit = version.fit
    return (
        f"[green]{version.key:<10}[/] {version.stream.points:>6,} points covered, {fit.points:>3} trained on, "
        f"{fit.support_vectors:>2} support vectors"
    )


def _reckon(console: Console, split: Split, stage: _Stage, received: list[Version]) -> bool:
    """Compare the version that the subscriber holds with the optimum on all training points; show the table."""
    assert stage.loaded is not None
    console.print("Training on all points, to compare...")
    moments = Moments.zero(split.train.dimension).add(split.train)
    begun = time.perf_counter()
    full = train(split.train, moments, SvmConfig(tolerance=1e-4))
    full_seconds = time.perf_counter() - begun
    newest = stage.loaded.version
    assert isinstance(newest.model, Model)  # the demo's labels are two
    penalty = full.fit.C
    objectives = [_objective(model, full.model.scaler, split.train, penalty) for model in (newest.model, full.model)]
    scores = [_scores(model, split) for model in (newest.model, full.model)]
    trainings = stage.metric("streamsvm_training_seconds_count", step="train")
    mean_seconds = stage.metric("streamsvm_training_seconds_sum", step="train") / trainings
    peak = int(stage.metric("streamsvm_points_held_peak"))
    raw_bytes = split.train.nbytes
    table = Table(title="The last published version compared with training on all the data", title_style="bold")
    for heading in ("", f"streamsvm {newest.key}", "on all points"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("points read", f"{newest.stream.points:,}", f"{len(split.train):,}")
    table.add_row("most points kept", f"{peak:,}", f"{len(split.train):,}")
    table.add_row(
        "bytes of points kept",
        f"{peak * PointsConfig(dimension=split.train.dimension).point_bytes:,}",
        f"{raw_bytes:,}",
    )
    table.add_row("points trained on", f"{newest.fit.points:,}", f"{len(split.train):,}")
    table.add_row("versions published", f"{stage.metric('streamsvm_publishes_total', outcome='published'):.0f}", "-")
    table.add_row("versions received", f"{len(received)}", "-")
    table.add_row("objective on all points", f"{objectives[0]:.3f}", f"{objectives[1]:.3f}")
    table.add_row("the version's own estimate", _audit(newest), "-")
    table.add_row("gap to the optimum", f"{objectives[0] / objectives[1] - 1:.2%}", "0")
    table.add_row("accuracy (held-out)", *(f"{accuracy:.4f}" for accuracy, _ in scores))
    table.add_row("balanced accuracy (held-out)", *(f"{balanced:.4f}" for _, balanced in scores))
    table.add_row("training time", f"{mean_seconds * 1000:.1f} ms per version", f"{full_seconds * 1000:.0f} ms")
    console.print(table)
    faults = _faults(stage, received, peak)
    for fault in faults:
        console.print(f"[red]{fault}[/]")
    return not faults


def _faults(stage: _Stage, received: list[Version], peak: int) -> list[str]:
    """Return what did not go as the demo promises."""
    published = int(stage.metric("streamsvm_publishes_total", outcome="published"))
    loaded = stage.loaded.version.number if stage.loaded else 0
    checks = {
        f"only {len(received)} versions arrived from the topic": len(received) >= LEAST_VERSIONS,
        f"the trainer published {published} versions, but {len(received)} arrived from the topic": len(received)
        == published,
        f"the newest version is {len(received)}, but the subscriber holds {loaded}": loaded == len(received),
        f"{peak} points were held at once, more than the allowed {MOST_POINTS}": peak <= MOST_POINTS,
    }
    return [fault for fault, fine in checks.items() if not fine]


def _objective(model: Model, scaler: Scaler, points: Points, penalty: float) -> float:
    """Return F on all points, with w expressed in the full data's standardised features so that both are comparable."""
    machine = model.machine
    assert isinstance(machine, LinearMachine)
    w = machine.coefficients / model.scaler.scale * scaler.scale
    return primal_objective(model.decision_function(points.X), points.y, penalty * points.weight, float(w @ w))


def _audit(version: Version) -> str:
    """Return the interval in which the version's objective over the stream lies, by its audit sample."""
    assert version.audit is not None
    return f"{version.audit.low:.0f} to {version.audit.high:.0f}"


def _scores(model: Model, split: Split) -> tuple[float, float]:
    predicted = model.predict_sign(split.held_out_features)
    return float(accuracy_score(split.held_out_signs, predicted)), float(
        balanced_accuracy_score(split.held_out_signs, predicted)
    )
