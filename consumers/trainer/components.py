"""What a trainer is made of besides its settings: the world it works in, each part to be exchanged by tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from consumers.host.clock import Clock
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.page.board import TrainerBoard
from consumers.streams.ports import Stop, Worker
from consumers.streams.standstill import MakeStandstill, Standstill
from consumers.trainer.gatekeeping import MakeGate, gate_of
from consumers.trainer.owner_watch import MakeOwnerWatch, OwnerWatch
from consumers.trainer.topic_watch import MakeWatch, ThreadedWatch
from consumers.trainer.training_thread import TrainingThread
from streamsvm.checkpoint.disk import Disk
from streamsvm.config import ModelConfig
from streamsvm.ingest.schemas import Schemas
from streamsvm.kafka import Cluster
from streamsvm.learning.recipe import TrainFunction
from streamsvm.learning.training import train


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of a trainer.

    Attributes
    ----------
    cluster : Cluster
    metrics : Metrics
        Made of `consumers.metrics.TRAINER`.
    health : Health
    stop : Stop
        When it is set the trainer finishes the model in training, publishes it, saves, and returns.
    clock : Clock
    disk : Disk or None
        Where checkpoints are; None is the configured directory.
    board : TrainerBoard or None
        Where the loop leaves what people are shown; None is one that nobody looks at.
    schemas : Schemas or None
        Where Avro's schemas come from; None is the configured registry, if there is one.
    train : callable
        Solves one problem of two classes.
    make_worker : callable
        Given what to train with, returns who trains.
    make_watch : callable
        Given cluster and topic, returns who looks at the input topic now and then.
    make_gate : callable
        Given settings, cluster, what is current, what returns the rows not learned yet, metrics, and the newest head,
        returns who says which version becomes current.
    make_standstill : callable
        Given what to ask with, the output's partitions, a patience, seconds and metrics, returns who looks whether
        readers are held up.
    make_owner_watch : callable
        Given cluster, aliases topic, model, what checks an owner record, and seconds, returns who looks whether the
        model still belongs to this process.
    """

    cluster: Cluster
    metrics: Metrics
    health: Health
    stop: Stop
    clock: Clock = field(default_factory=Clock)
    disk: Disk | None = None
    board: TrainerBoard | None = None
    schemas: Schemas | None = None
    train: TrainFunction = train
    make_worker: Callable[[TrainFunction, ModelConfig], Worker] = TrainingThread
    make_watch: MakeWatch = ThreadedWatch
    make_gate: MakeGate = gate_of
    make_standstill: MakeStandstill = Standstill
    make_owner_watch: MakeOwnerWatch = OwnerWatch
