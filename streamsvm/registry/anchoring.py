"""Which record is version N, proved by hashes: the right to write to the models topic is not enough to change that.

The aliases topic, which fewer may write to, gives the SHA-256 of the newest version (`name@head`) and of those that
aliases name. Each version names the hashes of earlier ones (`streamsvm.model.ancestry`), so that from the newest one
the hash of every other follows; a number is *anchored* when its hash follows. The records themselves are found at the
offsets that `LINKS_HEADER` gives, or else, as in a copy of the topic in another cluster, between those of lower and
higher numbers, and are checked by the hash: O(log n) reads. Where that ends (versions of older formats name their
parents only) the topic is read from its end backwards, and the chain of parents followed.

Invariant: nothing is returned for a number whose hash does not follow, however many records are under its key, and
wherever they stand. Whether a version is retired is said by `name@retired` in the aliases topic; a tombstone, which any
writer of the models topic can write, is not believed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Final

from streamsvm.errors import ConfigurationError, InvalidMessage
from streamsvm.kafka import Cluster, DamagedBatch, Record, RecordFetcher
from streamsvm.model import message as model_codec
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.message import ChainPosition
from streamsvm.model.pointers import Alias
from streamsvm.model.version import version_key
from streamsvm.places import whole_number
from streamsvm.registry import backwards
from streamsvm.registry.aliases import Aliases, read_aliases

PARTITION: Final = 0

LEAST_DIGITS: Final = 12
"""Of a SHA-256 that names a version: fewer are a number, or too easy to make another value for."""
SHA256_DIGITS: Final = 64
SEARCH_READS: Final = 128
"""Reads after which versions are no longer looked for by their numbers: some six for each hash that leads to one of a
million. Where each version names its parent only, there are as many steps as versions, and a scan takes less time."""
AT_ONCE: Final = 64
"""Records that are looked at of each such read."""
AROUND: Final = 16
"""Offsets before a guess where it begins."""
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
    ancestors : tuple of Alias
        The versions that it names by hash, each with the offset that its header gives; -1 where it gives none.
    record : Record or None
        The record itself, where it was fetched alone.
    """

    number: int
    offset: int
    sha256: str
    ancestors: tuple[Alias, ...]
    record: Record | None = None


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
    return Seen(place.version, record.offset, model_codec.sha256(record.value), _with_offsets(place, record))


def _with_offsets(place: ChainPosition, record: Record) -> tuple[Alias, ...]:
    ancestors: tuple[Ancestor, ...] = place.ancestors
    said = dict(record.headers).get(model_codec.LINKS_HEADER, b"").split(b",")
    if len(said) != len(ancestors):
        said = [b""] * len(ancestors)
    return tuple(Alias(one.number, one.sha256, _offset(text)) for one, text in zip(ancestors, said, strict=True))


def _offset(text: bytes) -> int:
    found = whole_number(text)
    return -1 if found is None else found


class ProvenChain:
    """The hashes that follow from some roots, as far as records were shown to it.

    Parameters
    ----------
    roots : iterable of Alias
        Versions whose hashes are known; of two for one number the first counts.
    """

    def __init__(self, roots: Iterable[Alias]) -> None:
        self._known: dict[int, Alias] = {}
        self._tried: set[int] = set()
        self.add(roots)

    def add(self, found: Iterable[Alias]) -> None:
        """Take in versions whose hashes follow."""
        for alias in found:
            self._known.setdefault(alias.number, alias)

    def sha256(self, number: int) -> str | None:
        """Return the hash of a version; None if it does not follow."""
        known = self._known.get(number)
        return None if known is None else known.sha256

    def retry(self) -> None:
        """Let `descend` try again what it could not find."""
        self._tried.clear()

    def descend(self, number: int, find: Callable[[Alias], Seen | None]) -> Seen | None:
        """Go from the least version that is known and not below a number to the next, until it is that number.

        Parameters
        ----------
        number : int
        find : callable
            Returns the record of a version by its hash, None where it is not to be found.
        """
        open_ = [known for known in self._known if known >= number and known not in self._tried]
        heapify(open_)
        while open_:
            step = self._known[heappop(open_)]
            self._tried.add(step.number)
            seen = find(step)
            if seen is None:
                continue
            if step.number == number:
                return seen
            for ancestor in seen.ancestors:
                if ancestor.number >= number and ancestor.number not in self._known:
                    heappush(open_, ancestor.number)
            self.add(seen.ancestors)
        return None


@dataclass(slots=True)
class _Scan:
    """What the end of the models topic holds, read backwards in growing spans; each offset is read once."""

    cluster: Cluster
    name: str
    topic: str
    timeout_s: float
    values: dict[int, dict[str, Seen]] = field(default_factory=dict)

    def spans(self) -> Iterator[None]:
        """Read one span more at each step, until the beginning was read."""
        for records, _ in backwards.spans(self.cluster, self.topic, self.timeout_s):
            for record in records:
                self._note(record)
            yield

    def _note(self, record: Record) -> None:
        seen = seen_in(record, self.name)
        if seen is None:
            return
        of = self.values.setdefault(seen.number, {})
        if seen.sha256 not in of or seen.offset < of[seen.sha256].offset:
            of[seen.sha256] = seen

    def find(self, alias: Alias) -> Seen | None:
        """Return the record of a version by its hash, if it was read."""
        return self.values.get(alias.number, {}).get(alias.sha256)

    def beginning_with(self, digits: str) -> dict[str, Seen]:
        """Return every value that was read whose hash begins so."""
        return {sha: seen for of in self.values.values() for sha, seen in of.items() if sha.startswith(digits)}

    def said(self, number: int) -> str:
        """Name every value that was found under a number."""
        found = sorted(self.values.get(number, {}).values(), key=lambda seen: seen.offset)
        return ", ".join(f"{seen.sha256} at offset {seen.offset}" for seen in found)


@dataclass(slots=True)
class _Search:
    """Looks for versions by their numbers, which rise with the offsets but for forgeries and what is written again.

    It finds nothing wrong: a record counts by its hash. Where numbers mislead it, it gives up, and a scan follows.
    """

    cluster: Cluster
    reader: RecordFetcher
    name: str
    topic: str
    timeout_s: float
    reads_left: int = field(default_factory=lambda: SEARCH_READS)
    places: dict[int, int] = field(default_factory=dict)
    """Offsets of versions that were met, by number."""
    log: tuple[int, int] | None = None
    """First offset and end of the topic, as the first search met them."""

    def find(self, alias: Alias) -> Seen | None:
        """Return the record of a version by its number and hash; None where that does not lead to it."""
        low, high = self._around(alias.number)
        middle = False
        while low[1] < high[1] and self.reads_left > 0:
            # By turns, so that numbers that lie unevenly take no more than twice the reads of a bisection.
            guess = (low[1] + high[1]) // 2 if middle else _interpolated(low, high, alias.number)
            middle = not middle
            start = max(low[1], guess - AROUND)
            met = self._met(start, high[1])
            for seen in met:
                if seen.number == alias.number and seen.sha256 == alias.sha256:
                    return seen
            if met and met[-1].number < alias.number:
                low = (met[-1].number, met[-1].offset + 1)
            elif start > low[1] and (not met or met[0].number > alias.number):
                high = (met[0].number if met else high[0], start)
            else:
                return None  # what was read reaches from before it to behind it
        return None

    def _around(self, number: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return number and offset from where on a version stands, and before which; the log's where none is known."""
        if self.log is None:
            self.log = self.cluster.log_range(self.topic, PARTITION)
        first, end = self.log
        below = max((known for known in self.places if known < number), default=0)
        above = min((known for known in self.places if known > number), default=number)
        return (below, self.places.get(below, first)), (above, self.places.get(above, end))

    def _met(self, start: int, stop: int) -> list[Seen]:
        """Read on from an offset until versions are met, and return these; none if there is none before `stop`."""
        met = list[Seen]()
        while not met and start < stop and self.reads_left > 0:
            self.reads_left -= 1
            try:
                records = self.reader.fetch_from(self.topic, PARTITION, start, AT_ONCE, self.timeout_s)
            except DamagedBatch:
                return []
            found = ((record, seen_in(record, self.name)) for record in records)
            met = [replace(seen, record=record) for record, seen in found if seen is not None]
            start = records[-1].offset + 1 if records else stop
        self.places |= {seen.number: seen.offset for seen in (met[:1] + met[-1:])}
        return met


def _interpolated(low: tuple[int, int], high: tuple[int, int], number: int) -> int:
    """Return about where a version stands between two, by number and offset."""
    share = (number - low[0]) / max(1, high[0] - low[0])
    return low[1] + int((high[1] - low[1]) * share)


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

        Blocks for O(log n) reads of single records; where the chain's offsets end, for as many as it takes to find it.

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
        chain, scan = ProvenChain(names.roots), self._scan()
        found = self._descended(number, reader, chain)
        for _ in scan.spans() if found is None else ():
            chain.retry()
            found = chain.descend(number, scan.find)
            if found is not None:
                break
        if found is None:  # the aliases come last: whoever named a forgery once must not be believed before the chain
            chain.add(names.named.values())
            chain.retry()
            found = chain.descend(number, scan.find)
        if found is None:
            raise self._not_found(number, chain.sha256(number), scan, names)
        return found.record or self._again(reader, found)

    def _descended(self, number: int, reader: RecordFetcher, chain: ProvenChain) -> Seen | None:
        """Descend the chain by single fetches: where offsets are said, or else where numbers lead.

        Offsets of links are those of the topic that was written: in a copy of it, as mirrors make, versions stand
        elsewhere, but still in the order of their numbers.
        """
        search = _Search(self._cluster, reader, self._name, self._topic, self._timeout_s)

        def there(alias: Alias) -> Seen | None:
            return self._fetch(reader, alias) or search.find(alias)

        return chain.descend(number, there)

    def _scan(self) -> _Scan:
        return _Scan(self._cluster, self._name, self._topic, self._timeout_s)

    def _fetch(self, reader: RecordFetcher, alias: Alias) -> Seen | None:
        """Look where a version is said to be; None if that is not what is there."""
        if alias.offset < 0:
            return None
        try:
            record = reader.fetch_one(self._topic, PARTITION, alias.offset, self._timeout_s)
        except DamagedBatch:
            return None
        seen = None if record is None else seen_in(record, self._name)
        if seen is None or seen.sha256 != alias.sha256 or seen.number != alias.number:
            return None
        return Seen(seen.number, seen.offset, seen.sha256, seen.ancestors, record)

    def _again(self, reader: RecordFetcher, found: Seen) -> Record:
        seen = self._fetch(reader, Alias(found.number, found.sha256, found.offset))
        if seen is None or seen.record is None:
            raise ConfigurationError(
                f"the record of version {found.number} of {self._name} was removed during the search", "Try again."
            )
        return seen.record

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
            found = scan.beginning_with(digits)
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
