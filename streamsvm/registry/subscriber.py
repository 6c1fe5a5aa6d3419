"""Follows a model: the version that an alias names is fetched, checked, and then swapped in as a whole.

This is what an application uses to have the current version (`streamsvm.ModelSubscriber`), and what the scorer uses.
The subscriber has a thread of its own; every property answers at once, from what that thread has done.

Two topics are read, both in partition 0, and no consumer group is joined. The aliases topic says which version is
`name@current`: the one that the pin `name@current#pin` names if there is a pin (set by people, removed by a tombstone),
otherwise the one that the trainer published last and the gate passed. The alias contains the version's number, the
offset of its record in the models topic, and the SHA-256 of the record's value; exactly that record is fetched.

Alternatively the subscriber loads one version by its number or its SHA-256, whatever aliases name.
`streamsvm.registry.anchoring` then finds the version's record, and does not accept another record under the same
number.

If public keys are given (`streamsvm.registry.signing`), only versions that one of them signed are accepted.

Invariants
----------
- The version in use is one immutable object behind one reference, so no reader ever sees half of a new version.
- A record that is damaged, foreign or unfit never replaces the version in use.
- Only the newest record of an alias counts: versions that were superseded before they were fetched are skipped.

To read: `_run` (the thread), `_settle` (when a version is loaded, and when not), `_fetch`. Checks of a record are in
`streamsvm.registry.loading`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final, Self, TypeVar

from streamsvm.errors import StreamsvmError, TopicMissing, TransientError
from streamsvm.kafka import Backoff, Cluster, Connection, DamagedBatch, OffsetOutOfRange, Option, Record, Tail
from streamsvm.model.classes import AnyModel
from streamsvm.model.pointers import Alias
from streamsvm.model.version import version_key, version_number
from streamsvm.registry.anchoring import Finder, reference
from streamsvm.registry.loading import (
    PARTITION,
    READ_TIMEOUT_S,
    Followed,
    Loaded,
    NoModel,
    RefusedMessage,
    aliases_topic,
    check,
    load_version,
    loaded_from,
)
from streamsvm.registry.signing import TrustedKeys

__all__ = ["Loaded", "ModelSubscriber", "NoModel", "RefusedMessage", "load_version"]

logger = logging.getLogger("streamsvm.registry.subscriber")

POLL_S: Final = 0.2
"""How long the thread waits for new aliases; also how late it notices `close`."""
BATCH_RECORDS: Final = 500
FETCH_TIMEOUT_S: Final = 10.0
CLOSE_TIMEOUT_S: Final = 10.0
FIRST_RETRY_S: Final = 0.1
LONGEST_RETRY_S: Final = 5.0
T = TypeVar("T")
MOST_REMEMBERED: Final = 1_000
"""How many refused messages are remembered, so that each is counted once. Beyond that some may be counted again."""


class ModelSubscriber:
    """Keeps the version that an alias names loaded, in its own thread.

    Thread-safe. Can be used as a context manager: entering starts the subscriber, leaving closes it.

    Parameters
    ----------
    connection : Connection, or mapping of librdkafka's options
    name : str
        Name of the model.
    models_topic : str
        Topic of versions; the aliases are in the topic with this name + `.aliases`.
    alias : str
        The alias to follow; `current` is the version that the trainer published last and the gate passed.
    version : int or str, optional
        Load this version instead of following an alias: its number, or its SHA-256 (the first 12 or more hexadecimal
        digits). If the version does not exist, is unfit, or may be a forgery, the subscriber ends with an error.
    trusted : TrustedKeys, optional
        Accept only versions that one of these public keys signed. Default: accept any version.
    callback : callable, optional
        Called with each `Loaded` after it was swapped in, in the subscriber's thread: no newer version is loaded while
        the callback runs. Exceptions of the callback are logged.
    on_waiting : callable, optional
        Called with `missing` whenever it changes, likewise; with the empty text once nothing is missing.
    check : callable, optional
        Called with each `Loaded` before it is swapped in, likewise; if it raises, the version is refused, with the
        exception's text, and the one in use stays.
    quiet_s : float
        Seconds without a broker after which `missing` says so; the version in use stays.
    dimension : int, optional
        Number of features that a version must have; other versions are refused. Default: any number.
    patience_s : float
        Seconds after which a version whose record is missing counts as refused. The subscriber keeps looking for the
        record.
    clock : callable
        Seconds since the epoch.

    Raises
    ------
    ConfigurationError
        If `alias` or `version` is not valid.
    """

    def __init__(
        self,
        connection: Connection | Mapping[str, Option],
        name: str,
        *,
        models_topic: str = "models",
        alias: str = "current",
        version: int | str | None = None,
        trusted: TrustedKeys | None = None,
        callback: Callable[[Loaded], None] | None = None,
        on_waiting: Callable[[str], None] | None = None,
        check: Callable[[Loaded], None] | None = None,
        dimension: int | None = None,
        patience_s: float = 30.0,
        quiet_s: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = Cluster(connection)
        self._name = name
        self._models_topic = models_topic
        self._aliases_topic = aliases_topic(models_topic)
        self._aliases = Followed(name, alias)
        self._version = None if version is None else reference(version)
        self._trusted = trusted
        self._callback, self._on_waiting, self._check = callback, on_waiting, check
        self._dimension = dimension
        self._patience_s, self._quiet_s = patience_s, quiet_s
        self._clock = clock
        self._heard_at = time.monotonic()
        self._last_heard: float | None = None
        self._quiet = ""
        self._changed = threading.Condition()
        self._loaded: Loaded | None = None
        self._missing = "the subscriber was not started"
        self._fault: BaseException | None = None
        self._tail: Tail | None = None
        self._wanted: _Wanted | None = None
        self._refusals = _Refusals()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"subscriber-{name}", daemon=True)

    def start(self) -> None:
        """Begin to follow; returns at once. Call it once.

        It waits for brokers, topics and the first version for as long as it takes: `missing` says what for. If the
        broker refuses this client, the subscriber ends with an error.
        """
        self._missing = f"reading {self._aliases_topic}"
        self._heard_at = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        """Stop following; the loaded version stays. Blocks until the thread ends, at most 10 s."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---------------------------------------------------------------- answers

    @property
    def loaded(self) -> Loaded | None:
        """The version in use, None before the first; never blocks.

        Read it once, and score a whole batch with it. If an error ended the subscriber, the error is raised.
        """
        self._raise_fault()
        return self._loaded

    @property
    def model(self) -> AnyModel:
        """The model of the version in use; never blocks. Raises `NoModel` before the first version."""
        return self._require().version.model

    @property
    def age_s(self) -> float | None:
        """Seconds since the version in use was loaded, None before the first."""
        loaded = self._loaded
        return None if loaded is None else max(0.0, self._clock() - loaded.loaded_at)

    @property
    def model_age_s(self) -> float | None:
        """Seconds since the version in use was made, by its record's header; None if there is no version or header."""
        loaded = self._loaded
        made = None if loaded is None else loaded.published_at
        return None if made is None else max(0.0, self._clock() - made)

    @property
    def connected(self) -> bool:
        """Whether aliases are followed and a broker connection was up a moment ago, or a fixed version is loaded."""
        if self._version is not None:
            return self._loaded is not None and self._fault is None
        tail = self._tail
        return tail is not None and self._fault is None and tail.connected()

    @property
    def last_heard(self) -> float | None:
        """When a broker was last connected, seconds since the epoch; None before the first time."""
        return self._last_heard

    @property
    def missing(self) -> str:
        """Why the wanted version is not in use, or may not be, for people; empty if it is."""
        return self._quiet or self._missing

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models in the aliases topic, sorted, as far as it was read; never blocks."""
        return tuple(sorted(self._aliases.table.models))

    @property
    def refused(self) -> int:
        """Number of refused messages, each counted once."""
        with self._changed:
            return self._refusals.by_reason.total()

    @property
    def refusals(self) -> dict[str, int]:
        """Number of refused messages by reason (`REASONS`)."""
        with self._changed:
            return dict(self._refusals.by_reason)

    def wait_ready(self, timeout_s: float) -> Loaded:
        """Wait until a version is loaded, and return it; blocks at most `timeout_s`.

        Raises
        ------
        NoModel
            If no version was loaded in time; the message says why.
        StreamsvmError
            The error that ended the subscriber, if one did.
        """
        return self._wait(lambda loaded: True, timeout_s)  # noqa: ARG005

    def wait_for(self, number: int, timeout_s: float) -> Loaded:
        """Wait until version `number` or a later one is loaded, and return it; blocks at most `timeout_s`.

        Raises the errors of `wait_ready`.
        """
        return self._wait(lambda loaded: loaded.version.number >= number, timeout_s, f" {number}")

    def updates(self, timeout_s: float | None = None) -> Iterator[Loaded]:
        """Iterate over the version in use and each version swapped in after it; every step blocks.

        A reader that is slower than the swaps gets the newest version, not every one. The iterator ends when no version
        came for `timeout_s` (default: never), and when the subscriber is closed. If an error ended the subscriber, the
        error is raised.
        """
        seen: Loaded | None = None
        while (newest := self._newer(seen, timeout_s)) is not None:
            yield newest
            seen = newest

    def _newer(self, seen: Loaded | None, timeout_s: float | None) -> Loaded | None:
        with self._changed:
            self._changed.wait_for(lambda: self._loaded is not seen or self._over, timeout_s)
            newest = self._loaded
        self._raise_fault()
        return None if newest is seen else newest

    @property
    def _over(self) -> bool:
        return self._fault is not None or self._stopping.is_set()

    def _wait(self, fits: Callable[[Loaded], bool], timeout_s: float, which: str = "") -> Loaded:
        def ready() -> bool:
            return self._over or (self._loaded is not None and fits(self._loaded))

        with self._changed:
            self._changed.wait_for(ready, timeout_s)
            loaded = self._loaded
        self._raise_fault()
        if loaded is not None and fits(loaded):
            return loaded
        ended = "before the subscriber was closed" if self._stopping.is_set() else f"within {timeout_s:g} s"
        serving = f"; {loaded.version.key} serves" if loaded else ""
        why = f": {self._missing}" if self._missing else ""
        raise NoModel(f"no version{which} of {self._name} was loaded {ended}{serving}{why}")

    def _require(self) -> Loaded:
        loaded = self.loaded
        if loaded is None:
            raise NoModel(f"no version of {self._name} is loaded yet: {self._missing}", "Call wait_ready first.")
        return loaded

    def _raise_fault(self) -> None:
        fault = self._fault
        if fault is not None:
            raise fault.with_traceback(None)

    # ----------------------------------------------------------------- thread

    def _run(self) -> None:
        """Follow until closed; start over after temporary errors."""
        backoff, said = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S), ""
        try:
            while not self._stopping.is_set():
                try:
                    for topic in (self._models_topic, self._aliases_topic):
                        self._cluster.describe(topic)
                    self._listen(heard=True)
                    if self._version is not None:
                        self._hold(self._version)
                        return
                    with closing(self._catch_up()) as self._tail:
                        said = ""
                        backoff.reset()
                        self._follow(self._tail)
                except (TransientError, TopicMissing, OffsetOutOfRange) as error:
                    level = logging.DEBUG if error.what == said else logging.WARNING
                    logger.log(level, "waiting for %s, trying again: %s", self._aliases.key, error)
                    said = error.what
                    self._lack(str(error))
                    self._listen(heard=False)
                finally:
                    # Before the pause: while there is no follower, `connected` must be false.
                    self._tail = None
                self._stopping.wait(backoff.next_s(random.random()))
        except BaseException as error:  # noqa: BLE001 - kept, and raised by the next call of the application
            self._end(error)

    def _end(self, error: BaseException) -> None:
        unexpected = not isinstance(error, StreamsvmError)
        logger.error("following %s stopped: %s", self._aliases_topic, error, exc_info=error if unexpected else None)
        with self._changed:
            self._fault = error
            self._changed.notify_all()

    def _hold(self, version: int | str) -> None:
        """Load one version, and keep it until closed."""
        self._lack(f"reading {self._models_topic}")
        record = Finder(self._cluster, self._name, self._models_topic, READ_TIMEOUT_S).find(version)
        number = version_number(record.key, self._name) or 0
        found = check(record, self._name, number, dimension=self._dimension, trusted=self._trusted)
        self._swap(self._checked(loaded_from(record, found, self._clock())))
        self._stopping.wait()

    def _catch_up(self) -> Tail:
        """Read the aliases topic to its end, and return a follower that continues from there."""
        # The topic is always read from its beginning, with an empty table: it may have been recreated in the meantime,
        # and it is compacted, so that it is short.
        topic = self._aliases_topic
        self._aliases.table.forget()
        self._wanted = None
        position, _ = self._cluster.log_range(topic, PARTITION)
        for record in self._cluster.read_to_end(topic, PARTITION, start=position, timeout_s=READ_TIMEOUT_S):
            self._note(record)
            position = record.offset + 1
        return self._cluster.tail(topic, PARTITION, position)

    def _follow(self, tail: Tail) -> None:
        while not self._stopping.is_set():
            # Once after all records of a poll, so that versions which were superseded within it are never fetched.
            self._settle()
            for record in tail.poll(BATCH_RECORDS, POLL_S):
                self._note(record)
            self._listen(heard=tail.connected())

    def _listen(self, *, heard: bool) -> None:
        """Note whether a broker is there, and say once that it has been away for long."""
        now = time.monotonic()
        if heard:
            self._heard_at, self._last_heard = now, self._clock()
        is_quiet = now - self._heard_at > self._quiet_s
        if is_quiet == bool(self._quiet):
            return
        serving = f"; {self._loaded.version.key} serves on" if self._loaded else ""
        why = f"no broker answered at {self._cluster.connection.servers} for {self._quiet_s:g} s{serving}"
        self._quiet = why if is_quiet else ""
        logger.log(logging.WARNING if is_quiet else logging.INFO, why if is_quiet else "brokers answer again")
        self._tell(self._on_waiting, self.missing)

    def _note(self, record: Record) -> None:
        if fault := self._aliases.note(record):
            self._refuse(f"{record.topic}[{record.partition}]@{record.offset}", "alias_unreadable", fault)

    def _settle(self) -> None:
        """Load the version that the alias names, unless it is in use, was refused, or its next attempt is not due."""
        alias = self._aliases.wanted
        if alias is None:
            self._lack(f"{self._aliases_topic} {self._aliases.missing}")
            return
        if self._wanted is None or self._wanted.alias != alias:
            self._wanted = _Wanted(alias, time.monotonic(), settled=_names(alias, self._loaded))
            if self._wanted.settled:
                self._lack("")
        wanted = self._wanted
        if wanted.settled or time.monotonic() < wanted.retry_at:
            return
        try:
            self._swap(self._fetch(alias))
            wanted.settled = True
        except RefusedMessage as error:
            self._lack(str(error))
            # A record that is there and bad stays bad: it is not tried again. One that is missing may still arrive:
            # two topics are not always copied or recovered in step.
            wanted.settled = error.reason != "record_missing"
            if wanted.settled or wanted.waited_s > self._patience_s:
                self._refuse(self._place(alias), error.reason, str(error))
            wanted.postpone()
        except (TransientError, TopicMissing) as error:
            self._lack(str(error))
            if not wanted.tries:
                logger.warning("%s could not be fetched, trying again: %s", self._place(alias), error)
            wanted.postpone()

    def _fetch(self, alias: Alias) -> Loaded:
        try:
            record = self._cluster.record(self._models_topic, alias.offset, FETCH_TIMEOUT_S)
        except DamagedBatch as error:
            raise RefusedMessage("undecodable", str(error)) from error
        if record is None:
            raise RefusedMessage("record_missing", f"there is no record at {self._place(alias)}")
        version = check(record, self._name, alias.number, alias.sha256, self._dimension, self._trusted)
        return self._checked(loaded_from(record, version, self._clock()))

    def _checked(self, loaded: Loaded) -> Loaded:
        """Return a version unless the application's own check raises."""
        if self._check is not None:
            try:
                self._check(loaded)
            except Exception as error:
                raise RefusedMessage("not_wanted", f"refused {loaded.version.key}: {error}") from error
        return loaded

    def _swap(self, loaded: Loaded) -> None:
        # One assignment of one reference: a reader in another thread has the old version or the new one, and needs no
        # lock.
        with self._changed:
            self._loaded = loaded
            waited, self._missing = bool(self._missing), ""
            self._changed.notify_all()
        logger.info("loaded %s from %s[%d]@%d", loaded.version.key, self._models_topic, PARTITION, loaded.offset)
        if waited:
            self._tell(self._on_waiting, self.missing)
        self._tell(self._callback, loaded)

    def _refuse(self, place: str, reason: str, what: str) -> None:
        """Count and log a bad message, once."""
        with self._changed:
            if not self._refusals.add(place, reason):
                return
        serving = self._loaded
        kept = f"{serving.version.key} stays in use" if serving else "no version is loaded yet"
        logger.warning("refused the message at %s (%s): %s; %s", place, reason, what, kept)

    def _lack(self, why: str) -> None:
        changed, self._missing = why != self._missing, why
        if changed and not self._quiet:
            self._tell(self._on_waiting, why)

    def _tell(self, callback: Callable[[T], None] | None, what: T) -> None:
        """Call a function of the application, whose failure is its own."""
        if callback is None:
            return
        try:
            callback(what)
        except Exception:
            logger.exception("a callback of the subscriber of %s failed", self._name)

    def _place(self, alias: Alias) -> str:
        key = version_key(self._name, alias.number)
        return f"{self._models_topic}[{PARTITION}]@{alias.offset}, named as {key}"


class _Refusals:
    """Counts refused messages by reason, each message once."""

    def __init__(self) -> None:
        self.by_reason: Counter[str] = Counter()
        self._places: set[str] = set()

    def add(self, place: str, reason: str) -> bool:
        """Count a message; return False if it was counted before."""
        if place in self._places:
            return False
        if len(self._places) >= MOST_REMEMBERED:
            self._places.clear()
        self._places.add(place)
        self.by_reason[reason] += 1
        return True


class _Wanted:
    """The version that should be in use, and the attempts to load it."""

    def __init__(self, alias: Alias, since: float, *, settled: bool) -> None:
        self.alias = alias
        self.settled = settled
        self.tries = 0
        self.retry_at = since
        self._since = since

    @property
    def waited_s(self) -> float:
        """Seconds since the version was first wanted."""
        return time.monotonic() - self._since

    def postpone(self) -> None:
        """Wait longer after each attempt."""
        self.retry_at = time.monotonic() + min(FIRST_RETRY_S * 2**self.tries, LONGEST_RETRY_S)
        self.tries = min(self.tries + 1, 30)


def _names(alias: Alias, loaded: Loaded | None) -> bool:
    return loaded is not None and alias.place == (loaded.version.number, loaded.sha256, loaded.offset)
