"""Which record is version N, proved by hashes: the right to write to the models topic is not enough to change that.

The aliases topic, which fewer may write to, gives the SHA-256 of the newest version (`name@head`) and of those that
aliases name. Each version names the hashes of earlier ones (`streamsvm.model.ancestry`), so that from the newest one
the hash of every other follows; a number is *anchored* when its hash follows. The topic is read from its end backwards,
in growing spans, until what was read leads from a known hash to the version.

Invariant: nothing is returned for a number whose hash does not follow, however many records are under its key, and
wherever they stand. Whether a version is retired is said by `name@retired` in the aliases topic; a tombstone, which any
writer of the models topic can write, is not believed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from streamsvm.errors import ConfigurationError, InvalidMessage
from streamsvm.kafka import Cluster, DamagedBatch, Record, RecordFetcher
from streamsvm.model import message as model_codec
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.pointers import Alias
from streamsvm.model.version import version_key
from streamsvm.registry import backwards
from streamsvm.registry.aliases import Aliases, read_aliases

PARTITION: Final = 0

LEAST_DIGITS: Final = 12
"""Of a SHA-256 that names a version: fewer are a number, or too easy to make another value for."""
SHA256_DIGITS: Final = 64
_HASH: Final = re.compile(f"[0-9a-f]{{{LEAST_DIGITS},{SHA256_DIGITS}}}")
_NUMBER: Final = re.compile(f"[1-9][0-9]{{0,{LEAST_DIGITS - 2}}}")

logger = logging.getLogger("streamsvm.registry.subscriber")


class NotAnchored(InvalidMessage):
    """A version may be a forgery: no chain of hashes leads from a trusted hash to it."""


def reference(which: int | str) -> int | str:
    """Return what names a version: its number, or its SHA-256 in lower case, or the beginning of that.

    Raises
    ------
    ConfigurationError
        If it is neither.
    """
    text = str(which).strip().lower()
    if _NUMBER.fullmatch(text):
        return int(text)
    if _HASH.fullmatch(text):
        return text
    raise ConfigurationError(
        f"{which!r} is not a version",
        f"Give a number (1, 2, ...), or a SHA-256 or its first {LEAST_DIGITS} or more hexadecimal digits.",
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """One record of the models topic under the key of a version whose value says that it is that version.

    Attributes
    ----------
    number, offset : int
    sha256 : str
        Of its value.
    ancestors : tuple of Ancestor
        The versions that it names by hash.
    """

    number: int
    offset: int
    sha256: str
    ancestors: tuple[Ancestor, ...]


def seen_in(record: Record, name: str) -> Seen | None:
    """Return what a record of the models topic says of its place; None if it is not a version of that name."""
    if record.value is None:
        return None
    try:
        place = model_codec.place_of(record.value)
    except InvalidMessage:
        return None
    if place.name != name or record.key != version_key(name, place.version).encode():
        return None
    return Seen(place.version, record.offset, model_codec.sha256(record.value), place.ancestors)


def descend(number: int, roots: Iterable[Alias], values: Mapping[str, Seen]) -> tuple[str | None, Seen | None]:
    """Go from the least version that is known and not below a number to the next, until it is that number.

    Parameters
    ----------
    number : int
    roots : iterable of Alias
        Versions whose hashes are known; of two for one number the first counts.
    values : mapping of str to Seen
        What was read, by hash.

    Returns
    -------
    str or None
        The version's hash; None if it does not follow.
    Seen or None
        Its record; None if what was read does not lead there.
    """
    known = dict[int, str]()
    for root in roots:
        known.setdefault(root.number, root.sha256)
    waiting = [one for one in known if one >= number]
    heapify(waiting)
    while waiting:
        step = heappop(waiting)
        seen = values.get(known[step])
        if seen is None or seen.number != step:
            continue
        if step == number:
            return known[number], seen
        for ancestor in seen.ancestors:
            if ancestor.number >= number and ancestor.number not in known:
                known[ancestor.number] = ancestor.sha256
                heappush(waiting, ancestor.number)
    return known.get(number), None


@dataclass(slots=True)
class _Scan:
    """What the end of the models topic holds, read backwards in growing spans; each offset is read once."""

    cluster: Cluster
    name: str
    topic: str
    timeout_s: float
    values: dict[str, Seen] = field(default_factory=dict)
    """The first record of each value, by its hash."""

    def spans(self) -> Iterator[None]:
        """Read one span more at each step, until the beginning was read."""
        for records, _ in backwards.spans(self.cluster, self.topic, self.timeout_s):
            for record in records:
                seen = seen_in(record, self.name)
                if seen is not None and seen.offset < self.values.get(seen.sha256, seen).offset + 1:
                    self.values[seen.sha256] = seen
            yield

    def said(self, number: int) -> str:
        """Name every value that was found under a number."""
        found = sorted((seen for seen in self.values.values() if seen.number == number), key=lambda seen: seen.offset)
        return ", ".join(f"{seen.sha256} at offset {seen.offset}" for seen in found)


class Finder:
    """Finds the records of one model's versions.

    Parameters
    ----------
    cluster : Cluster
    name : str
    models_topic : str
    timeout_s : float
        Seconds to wait for the broker without progress.
    """

    def __init__(self, cluster: Cluster, name: str, models_topic: str, timeout_s: float) -> None:
        self._cluster = cluster
        self._name = name
        self._topic = models_topic
        self._timeout_s = timeout_s

    def find(self, which: int | str, names: Aliases | None = None) -> Record:
        """Return the record of a version.

        Blocks while the topic is read from its end back to the version.

        Parameters
        ----------
        which : int or str
            A number, which must be anchored; or a SHA-256, or its beginning: see `reference`.
        names : Aliases, optional
            What the aliases topic says; read by default.

        Raises
        ------
        ConfigurationError
            If there is no such version, or it is retired; or two begin with these digits. As `TopicMissing`, if there
            is no such topic.
        NotAnchored
            If its number leads to nothing that could not be forged; the message names what there is.
        TransientError
            If no broker answers, or a transaction stays open.
        """
        named = reference(which)
        names = self._names() if names is None else names
        if isinstance(named, int):
            self._require(named, names)
        with closing(self._cluster.reader()) as reader:
            return self._hashed(named, reader) if isinstance(named, str) else self._numbered(named, reader, names)

    def _names(self) -> Aliases:
        names = read_aliases(self._cluster, self._name, f"{self._topic}.aliases", self._timeout_s)
        for fault in names.faults:
            logger.warning("passed over: %s", fault)
        return names

    def _require(self, number: int, names: Aliases) -> None:
        if not names.newest:
            raise ConfigurationError(
                f"{self._name} has no version {number}; {self._topic}.aliases names no version of {self._name}"
            )
        if number > names.newest:
            raise ConfigurationError(f"{self._name} has no version {number}; the newest is {names.newest}")
        if names.is_retired(number):
            raise ConfigurationError(f"version {number} of {self._name} was retired; the newest is {names.newest}")

    def _numbered(self, number: int, reader: RecordFetcher, names: Aliases) -> Record:
        for root in names.roots:
            if root.number == number and (record := self._fetch(reader, root)) is not None:
                return record
        scan = self._scan()
        for _ in scan.spans():
            if (found := descend(number, names.roots, scan.values)[1]) is not None:
                return self._again(reader, found)
        # The aliases come last: whoever named a forgery once must not be believed before the chain.
        sha256, found = descend(number, (*names.roots, *names.named.values()), scan.values)
        if found is None:
            raise self._not_found(number, sha256, scan, names)
        return self._again(reader, found)

    def _scan(self) -> _Scan:
        return _Scan(self._cluster, self._name, self._topic, self._timeout_s)

    def _fetch(self, reader: RecordFetcher, alias: Alias) -> Record | None:
        """Look where a version is said to be; None if that is not what is there."""
        try:
            record = reader.fetch_one(self._topic, PARTITION, alias.offset, self._timeout_s)
        except DamagedBatch:
            return None
        seen = None if record is None else seen_in(record, self._name)
        if seen is None or seen.sha256 != alias.sha256 or seen.number != alias.number:
            return None
        return record

    def _again(self, reader: RecordFetcher, found: Seen) -> Record:
        record = self._fetch(reader, Alias(found.number, found.sha256, found.offset))
        if record is None:
            raise ConfigurationError(
                f"the record of version {found.number} of {self._name} was removed during the search", "Try again."
            )
        return record

    def _not_found(self, number: int, sha256: str | None, scan: _Scan, names: Aliases) -> Exception:
        key, there = version_key(self._name, number), scan.said(number)
        if not there:
            which = f", which is {sha256}," if sha256 else ""
            return ConfigurationError(
                f"{key}{which} is not in {self._topic}; the newest is {names.newest}",
                "The version was retired, or its record was removed.",
            )
        if sha256 is not None:
            return NotAnchored(
                f"{key} has the SHA-256 {sha256}, but {self._topic} no longer holds that record, only other values "
                f"under its number: {there}",
                "Another program writes to the topic. Find out with kafka-acls --list who may write there.",
            )
        return NotAnchored(
            f"{key} may be a forgery: no later version that {self._topic} still holds names its hash. Values under "
            f"its number: {there}",
            "If you know the SHA-256 of the version, give that instead of the number.",
        )

    def _hashed(self, digits: str, reader: RecordFetcher) -> Record:
        """Return the one version whose hash begins so; of all digits there can be no second to look for."""
        scan, found = self._scan(), dict[str, Seen]()
        for _ in scan.spans():
            found = {sha256: seen for sha256, seen in scan.values.items() if sha256.startswith(digits)}
            if len(found) > 1 or (found and len(digits) == SHA256_DIGITS):
                break
        if not found:
            raise ConfigurationError(
                f"{self._topic} holds no version of {self._name} with a SHA-256 that begins with {digits}",
                "`streamsvm model list --json` lists the hashes.",
            )
        if len(found) > 1:
            several = ", ".join(f"{seen.number} ({sha256}, offset {seen.offset})" for sha256, seen in found.items())
            raise ConfigurationError(
                f"the SHA-256 of several versions of {self._name} begins with {digits}: {several}",
                "Give more digits, or all 64.",
            )
        return self._again(reader, next(iter(found.values())))
