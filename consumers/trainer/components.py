"""What a trainer is made of besides its settings: the world it works in.

`consumers.cli.train` makes `Components` for a real trainer, and names only what has no default. Tests and simulations
replace what they need to control: the clock, the disk, the broker, the thread that trains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from consumers.host.clock import Clock
from consumers.host.memory_limit import container_limit
from consumers.host.runtime import Health
from consumers.metrics import Metrics
from consumers.page.board import TrainerBoard
from consumers.streams.abandonable import Aside, MakePending, heeding
from consumers.streams.input_watch import InputWatch, MakeInputWatch
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
from streamsvm.learning.training import TrainFunction, train


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
        Where checkpoints are; None: the configured directory.
    board : TrainerBoard or None
        Where the loop puts what the live page shows; None: there is no page.
    schemas : Schemas or None
        Where Avro's schemas come from; None: the configured registry, if there is one.
    train : callable
        Solves one problem of two classes.
    make_worker : callable
        Takes the function that trains, and returns the worker that runs it.
    make_watch : callable
        Takes cluster and topic, and returns the watch that checks the input topic from time to time.
    make_gate : callable
        Takes settings, cluster, the current version, a function that returns the rows not learned yet, metrics, and the
        newest head; returns the gate that decides which version becomes current.
    make_standstill : callable
        Takes a function that reads offsets, the output's partitions, a patience in seconds, a clock and metrics;
        returns the watch that notices blocked readers.
    make_input_watch : callable
        Takes cluster, health and a clock; returns the watch that shows which partition of the input does not answer.
    make_owner_watch : callable
        Takes cluster, aliases topic, model, a function that checks an owner record, and a clock; returns the watch that
        notices when the model belongs to another process.
    heeding : callable
        Takes a stop, a beat and a slow call of the start, and returns the call's result; a stop does not wait for it.
    aside : callable
        Takes a call, and makes it beside the main loop.
    memory_limit : callable
        Returns the bytes that the container allows; None if there is no limit.
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
    make_input_watch: MakeInputWatch = InputWatch
    make_owner_watch: MakeOwnerWatch = OwnerWatch
    heeding: Callable[[Stop, Callable[[], None], Callable[[], object]], object] = heeding
    aside: MakePending = Aside
    memory_limit: Callable[[], int | None] = container_limit
