"""The first half of a start: refuse what must be refused, compile, take the model over.

Called by `consumers.trainer.beginning.begin`. The order spares a running trainer of the same model. First the topics
are read, and no record is written (`Startup.look`): a start that must be refused is refused here. Then everything is
compiled, which takes up to a minute, while the predecessor goes on publishing. Only then is the model taken over
(`Startup.run`). From that moment no other process publishes, so that what was found stays true while a life is made of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from consumers.host.runtime import Health, schemas_of
from consumers.settings import Settings
from consumers.streams.dead_letters import DeadLetters
from consumers.streams.ports import Stop
from consumers.trainer.attachment import Attachments, World
from consumers.trainer.components import Components
from consumers.trainer.session import Session
from consumers.trainer.startup import Started, Startup
from consumers.trainer.warming import warm_up
from streamsvm.build import build
from streamsvm.checkpoint.directory import CheckpointDirectory
from streamsvm.delivery.decision import reset_token
from streamsvm.delivery.machine import Delivery
from streamsvm.delivery.pipeline import Pipeline
from streamsvm.ingest.schemas import Schemas

START_LOOKS_S: Final = 5.0
"""Pause between two looks of a start that waits for a transaction of another process to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """A model that this process has taken over.

    Attributes
    ----------
    started : Started
        What the start found, and the settings that this life has.
    delivery : Delivery
    session : Session
    pipeline : Pipeline
    attachments : Attachments
        Branches that are on.
    dead_letters : DeadLetters
        Of the input.
    schemas : Schemas or None
        Of a schema registry, if one is configured.
    """

    started: Started
    delivery: Delivery
    session: Session
    pipeline: Pipeline
    attachments: Attachments
    dead_letters: DeadLetters
    schemas: Schemas | None

    @property
    def remedy(self) -> str:
        """What a person can do about a gap in the input."""
        token = reset_token(self.started.settings.name, self.delivery.incarnation)
        return (
            f"Begin anew at the configured start (version numbers go on) with --reset {token}, or "
            "set input.on_gap = reset to begin anew automatically."
        )


def take_over(
    settings: Settings,
    components: Components,
    checkpoints: CheckpointDirectory,
    stack: ExitStack,
    *,
    session: str,
    reset: str,
) -> TakenOver:
    """Refuse what must be refused, compile, and take the model over; see `consumers.trainer.beginning.begin`."""
    clock, metrics, cluster = components.clock, components.metrics, components.cluster
    topic, letters = settings.input.topic, settings.input.dead_letters
    dead_letters = DeadLetters(settings.name, topic, letters, metrics, clock.monotonic)
    delivery = Delivery(settings.name, session, settings.models().trained_sha256())
    writer = Session(
        settings,
        cluster,
        delivery,
        metrics=metrics,
        monotonic=clock.monotonic,
        wait=components.stop.wait,
        waiting=_waiting(components.health, components.stop),
        aside=components.aside,
    )
    stack.callback(writer.close)
    attachments = Attachments.of(World(settings=settings, components=components, delivery=delivery, stack=stack))
    startup = Startup(
        settings,
        cluster,
        checkpoints,
        attachments,
        delivery,
        writer,
        reset=reset,
        clock=clock,
        memory_limit=components.memory_limit(),
    )
    # Before compiling, which takes a minute the first time: a refusal should not have to wait for that.
    components.heeding(components.stop, components.health.beat, lambda: startup.look(dead_letters))
    schemas = stack.enter_context(schemas_of(settings)) if components.schemas is None else components.schemas
    # Between look and run: the predecessor goes on publishing while this process compiles.
    warm_up(settings, components)
    started = startup.run()
    return TakenOver(
        started=started,
        delivery=delivery,
        session=writer,
        pipeline=_pipeline(started, delivery, attachments),
        attachments=attachments,
        dead_letters=dead_letters,
        schemas=schemas,
    )


def _waiting(health: Health, stop: Stop) -> Callable[[str], bool]:
    """Return what a start calls while it waits: it shows the reason, waits, and returns whether to go on waiting."""

    def waits(why: str) -> bool:
        health.beat()
        health.require("publish", why)
        return not stop.wait(START_LOOKS_S)

    return waits


def _pipeline(started: Started, delivery: Delivery, attachments: Attachments) -> Pipeline:
    settings = started.settings
    return Pipeline(
        delivery,
        started.learner,
        settings.models(),
        name=settings.name,
        topic=settings.input.topic,
        topic_id=started.topic_id,
        base=started.base,
        build=build(),
        waits_for_training=settings.training.policy == "every",
        waiting=started.waiting,
        read_to=started.read_to,
        waiting_rows=attachments.waiting(),
    )
