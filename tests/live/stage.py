"""Where a fault plays: a topic on a real broker, a trainer of it as a process, and everything put away afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from consumers.settings import Settings
from streamsvm.kafka import Cluster, Connection, TopicSpec
from tests.consumers.trainers import produce
from tests.live.process import Daemon, arguments, started
from tests.promise.topics import published

NO_LIMITS = {"input_max_dead_letter_share": 0}
"""Options under which a stream of nothing but dead letters does not stop the daemon."""


@dataclass(frozen=True)
class Stage:
    """One trainer's settings and broker; `options` go to every process that it starts.

    `options`: Options of the command line on top of `settings`, underscores for dashes.
    """

    connection: Connection
    settings: Settings
    options: Mapping[str, Any] = field(default_factory=dict)
    started: list[Daemon] = field(default_factory=list)

    def create(self, partitions: int = 1, **config: str) -> str:
        """Create the input topic, with settings with underscores for dots; return its id, which all nodes know then."""
        named = {name.replace("_", "."): value for name, value in config.items()}
        cluster, topic = Cluster(self.connection), self.settings.input.topic
        cluster.create([TopicSpec(topic, partitions, config=named)])
        return cluster.describe(topic).topic_id or ""

    def feed(self, values: Sequence[bytes | None], partition: int = 0) -> None:
        """Store records in the input topic."""
        produce(self.connection, self.settings.input.topic, values, partition)

    def start(
        self, planted: str = "", environment: Mapping[str, str] | None = None, build: str = "", **options: Any
    ) -> Daemon:
        """Start a process; `planted` names what of `tests.defects` is done to it, `build` a later release."""
        command = arguments(self.settings, self.connection, **{**self.options, **options})
        return self.start_command(command, planted, environment, build)

    def start_command(
        self,
        command: Sequence[str],
        planted: str = "",
        environment: Mapping[str, str] | None = None,
        build: str = "",
    ) -> Daemon:
        """Start a process of any command."""
        self.started.append(started(command, planted, environment, build))
        return self.started[-1]

    def run_through(self, version: int, planted: str = "", **options: Any) -> Daemon:
        """Run a process until a version is published, by it or before it, and stop it cleanly."""
        daemon = self.start(planted, **options)
        assert daemon.reaches_version(version), daemon.said
        assert daemon.stop() == 0, daemon.said
        return daemon

    def elsewhere(self, directory: Path, suffix: str = "again") -> Stage:
        """Return the same trainer of the same input with other outputs."""
        settings = self.settings
        output = settings.output.model_copy(update={"models_topic": f"{settings.output.models_topic}-{suffix}"})
        return replace(self.in_directory(directory), settings=self._in(directory).model_copy(update={"output": output}))

    def in_directory(self, directory: Path) -> Stage:
        """Return the same trainer with another checkpoint directory."""
        return replace(self, settings=self._in(directory))

    def _in(self, directory: Path) -> Settings:
        checkpoint = self.settings.checkpoint.model_copy(update={"directory": directory})
        return self.settings.model_copy(update={"checkpoint": checkpoint})

    def models(self) -> list[tuple[bytes | None, bytes | None]]:
        """Return keys and values of the models topic."""
        return published(self.connection, self.settings)

    def clear(self) -> None:
        """End every process that was started here and still runs."""
        for daemon in self.started:
            if daemon.ended() is None:
                daemon.kill()
