"""`streamsvm model follow --exec CMD`: runs a command for each published version, in their order, at least once.

The record `name@head` of the aliases topic names the newest version; those between it and the one that was done last
are found by their numbers, proven by hashes as for any reader (`streamsvm.registry.anchoring`). A file keeps the number
and the hash of the version that was done last. It is replaced after the command ended with status 0, so a kill in
between runs the command once more, and never leaves a version out. A command that fails is tried again, ever later, and
the versions after it wait: a reader of what the command writes sees no gap.

A version that was retired, or that cannot be trusted, is logged and passed over.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from streamsvm.errors import ConfigurationError, StateError, TopicMissing, TransientError
from streamsvm.kafka import Backoff, Cluster, OffsetOutOfRange, Record
from streamsvm.model.message import GATE_HEADER
from streamsvm.model.message import sha256 as sha256_of
from streamsvm.model.version import version_key
from streamsvm.registry.aliases import PARTITION, Aliases, AliasTable
from streamsvm.registry.anchoring import Finder, NotAnchored
from streamsvm.registry.loading import READ_TIMEOUT_S, RefusedMessage, check
from streamsvm.registry.signing import TrustedKeys

POLL_S: Final = 0.2
BATCH_RECORDS: Final = 500
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
PATIENCE_S: Final = 30.0
"""How long a record that its head names is waited for, as a subscriber does."""

Say = Callable[[str], None]


class LastDone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The version that was done last, and of which topic."""

    models_topic: str
    model: str
    version: int
    sha256: str


def read_position(file: Path, name: str, models_topic: str) -> LastDone | None:
    """Return what a file says was done last; None if there is no file.

    Raises
    ------
    ConfigurationError
        If it cannot be read, or is of another model.
    """
    try:
        found = msgspec.json.decode(file.read_bytes(), type=LastDone)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(
            f"the position file {file} cannot be read: {error}", "Give another --position, or remove the file."
        ) from None
    if (found.models_topic, found.model) != (models_topic, name):
        raise ConfigurationError(
            f"the position file {file} is of {found.model} in {found.models_topic}, not of {name} in {models_topic}",
            "Give each model its own --position.",
        )
    return found


def write_position(file: Path, position: LastDone) -> None:
    """Replace the file; after a power failure it is the old one or the new one.

    Raises
    ------
    ConfigurationError
        If it cannot be written.
    """
    beside = file.with_name(f"{file.name}.new")
    try:
        with beside.open("wb") as new:
            new.write(msgspec.json.encode(position) + b"\n")
            new.flush()
            os.fsync(new.fileno())
        beside.replace(file)
    except OSError as error:
        raise ConfigurationError(
            f"the position file {file} cannot be written: {error.strerror}", "Give --position a place that can be."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Runs a command for each version.

    Attributes
    ----------
    cluster : Cluster
    name, models_topic : str
    command : str
        For the shell. On its standard input is the version's record; the environment has `MODEL_NAME`, `MODEL_VERSION`,
        `MODEL_SHA256` and `MODEL_GATE`.
    file : Path
        Keeps the position.
    begin : int or None
        First version where there is no file; None: the newest at that time.
    trusted : TrustedKeys or None
    stop : Event
    say : callable
        Takes lines for people.
    wait_s : float
        Before a failed command is tried again for the first time.
    """

    cluster: Cluster
    name: str
    models_topic: str
    command: str
    file: Path
    begin: int | None
    trusted: TrustedKeys | None
    stop: threading.Event
    say: Say
    wait_s: float = FIRST_WAIT_S

    def run(self) -> None:
        """Follow until stopped; blocks. If a broker does not answer, the call is repeated.

        Raises
        ------
        ConfigurationError
            If the topics do not exist, or the file cannot be used.
        StateError
            If the topic is another one than that of which the file is.
        """
        position, backoff = read_position(self.file, self.name, self.models_topic), Backoff(0.1, 5.0)
        known = position is None
        while not self.stop.is_set():
            try:
                for names in self._names():
                    if position is not None and not known:
                        self._require_same(names, position)
                    known, position = True, self._do_up_to(names, position)
                    backoff.reset()
            except (TransientError, OffsetOutOfRange) as error:
                self.say(f"waiting for the broker: {error.what}")
                self.stop.wait(backoff.next_s(random.random()))

    def _names(self) -> Iterator[Aliases]:
        """Yield what the topic says once its head is known, and at each newer head, until stopped."""
        topic, table = f"{self.models_topic}.aliases", AliasTable(self.name)
        place, _ = self.cluster.log_range(topic, PARTITION)
        for record in self.cluster.read_to_end(topic, PARTITION, start=place, timeout_s=READ_TIMEOUT_S):
            table.note(record)
            place = record.offset + 1
        newest = None
        with closing(self.cluster.tail(topic, PARTITION, place)) as tail:
            while not self.stop.is_set():
                names = table.aliases
                if names.head is not None and names.head != newest:
                    newest = names.head
                    yield names
                for record in tail.poll(BATCH_RECORDS, POLL_S):
                    table.note(record)

    def _require_same(self, names: Aliases, done: LastDone) -> None:
        """Refuse a topic whose version of that number is another one, or that does not come so far."""
        found: Record | str = "no such version"
        if names.newest >= done.version:
            found = self._look(done.version)
        if isinstance(found, Record):
            found = sha256_of(found.value or b"")
            if not done.sha256 or found == done.sha256:
                return
        elif names.newest >= done.version:
            return  # retired, or removed: nobody can tell
        raise StateError(
            f"{self.file} says that version {done.version} with the SHA-256 {done.sha256[:12]} was done, but the topic "
            f"{self.models_topic} has {found[:15]}, and its newest is {names.newest}: it is another topic now",
            f"Remove {self.file} to begin with the newest version.",
        )

    def _do_up_to(self, names: Aliases, done: LastDone | None) -> LastDone | None:
        """Run the command for each version after the one done last; return which is done last now."""
        head = names.head
        assert head is not None
        first = (self.begin or head.number) if done is None else done.version + 1
        for number in range(first, head.number + 1):
            found = self._look(number)
            deadline = time.monotonic() + PATIENCE_S
            # Of the newest version the head may be read a moment before the record.
            while isinstance(found, str) and number == head.number and time.monotonic() < deadline:
                self.stop.wait(POLL_S)
                found = self._look(number)
            if self.stop.is_set() or (isinstance(found, Record) and not self._ran(found, number)):
                return done
            if isinstance(found, str):
                self.say(f"{version_key(self.name, number)} is passed over: {found}")
            sha256 = "" if isinstance(found, str) else sha256_of(found.value or b"")
            done = LastDone(models_topic=self.models_topic, model=self.name, version=number, sha256=sha256)
            write_position(self.file, done)
        return done

    def _look(self, number: int) -> Record | str:
        """Return the record of a version, or why it cannot be had."""
        try:
            record = Finder(self.cluster, self.name, self.models_topic, READ_TIMEOUT_S).find(number)
            check(record, self.name, number, trusted=self.trusted)
        except TopicMissing:
            raise
        except (NotAnchored, RefusedMessage, ConfigurationError) as error:
            return error.what
        return record

    def _ran(self, record: Record, number: int) -> bool:
        """Run the command until it succeeds; False if stopped before it did."""
        key, value = version_key(self.name, number), record.value or b""
        gate = dict(record.headers).get(GATE_HEADER, b"").decode(errors="replace")
        own = {"MODEL_NAME": self.name, "MODEL_VERSION": str(number), "MODEL_SHA256": sha256_of(value)}
        environment = {**os.environ, **own, "MODEL_GATE": gate.replace("\0", "")}
        waits = Backoff(self.wait_s, max(self.wait_s, LONGEST_WAIT_S))
        while not self.stop.is_set():
            # A person's own command line, for the person's own shell; nothing of the topic is a part of it.
            ran = subprocess.run(self.command, shell=True, input=value, env=environment, check=False)  # noqa: S602
            if ran.returncode == 0:
                self.say(f"{key} is done")
                return True
            wait_s = waits.next_s(random.random())
            self.say(f"{key}: the command ended with status {ran.returncode}, and is run again in {wait_s:.0f} s")
            self.stop.wait(wait_s)
        return False
