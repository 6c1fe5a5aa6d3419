"""Whether published versions are what the log makes of them: records in, findings out; no I/O, no clock, no threads.

A version is recomputed from the rows of its input and from its own lineage, never from anybody's options, and its whole
value is compared byte for byte. Its place is checked beside that: numbers without a gap and none twice, each version's
parent, cuts that go forward, and the aliases.

Invariant: what was not recomputed is never called clean. A version that differs but was made by another build, or on
another CPU target, proves nothing either way, so it counts as not checked: else a changed version would only have to
name another build.

Source: the sections on lineage and recovery of `streamsvm.model.message` and `streamsvm.delivery`, whose promises these
checks are.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from streamsvm.build import build
from streamsvm.config import ModelConfig
from streamsvm.errors import InvalidMessage, StateError, UnknownFormat
from streamsvm.learning import naming
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import Origin, make, version_of
from streamsvm.learning.tuning import Tuning, is_due, tune
from streamsvm.model import message as model_codec
from streamsvm.model.ancestry import Ancestor, chosen
from streamsvm.model.message import Head, Lineage, PartitionCut, Retired, Version, positions, version_number
from streamsvm.points import Position, Positions, Rows, precedes
from streamsvm.registry.aliases import Aliases

INCARNATION_HEADER: Final = "streamsvm.incarnation"

EXIT_CLEAN: Final = 0
EXIT_DIFFERS: Final = 1
EXIT_INCOMPLETE: Final = 3

PARTS_SHOWN: Final = 6
"""Differing parts of a version that are named one by one."""


class Outcome(StrEnum):
    """What was found out about one record of a version."""

    IDENTICAL = "identical"
    OLDER_FORMAT = "older_format"
    DIFFERS = "differs"
    FOREIGN = "foreign"
    UNAVAILABLE = "unavailable"
    RETIRED = "retired"
    PASSED = "passed"


MEANINGS: Final[Mapping[Outcome, str]] = {
    Outcome.IDENTICAL: "recomputed, and identical to the last byte",
    Outcome.OLDER_FORMAT: "recomputed, and identical in everything that its older message format holds",
    Outcome.DIFFERS: "contradicts its lineage, its place in the topic or its own hash",
    Outcome.FOREIGN: "recomputed and different, but made by another build or for another CPU, so no verdict is "
    "possible",
    Outcome.UNAVAILABLE: "not recomputed: the log no longer holds its input, or this build cannot recompute it",
    Outcome.RETIRED: "retired, not recomputed",
    Outcome.PASSED: "not requested: its place in the topic was checked, its content was not",
}
"""Every outcome, for people."""


class NotRecomputable(StateError):
    """The log does not hold, or no longer holds, what a version was made from."""


@dataclass(frozen=True, slots=True)
class Row:
    """The finding about one record.

    Attributes
    ----------
    number : int
    offset : int
        Of the record in the models topic.
    outcome : Outcome
    faults : tuple of str
        What is wrong; none unless it `DIFFERS`.
    note : str
        Why it was not checked, or what differs on another build.
    """

    number: int
    offset: int
    outcome: Outcome
    faults: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a verification found.

    Attributes
    ----------
    name, models_topic : str
    rows : tuple of Row
        In the order of the models topic.
    faults : tuple of str
        What is wrong with the topic as a whole, and with its aliases.
    notes : tuple of str
        What could not be checked besides single versions.
    input_rows : int
        Rows of the input that were learned.
    seconds : float
        Wall time of it all.
    """

    name: str
    models_topic: str
    rows: tuple[Row, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    input_rows: int
    seconds: float

    @property
    def differs(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.faults) or any(row.faults for row in self.rows)

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for could be checked."""
        unchecked = {Outcome.FOREIGN, Outcome.UNAVAILABLE}
        return not self.notes and not any(row.outcome in unchecked for row in self.rows)

    @property
    def clean(self) -> bool:
        """Whether everything was checked and nothing is wrong."""
        return self.complete and not self.differs

    @property
    def exit_status(self) -> int:
        """0: clean; 1: something is wrong; 3: nothing is, but not everything could be checked."""
        if self.differs:
            return EXIT_DIFFERS
        return EXIT_CLEAN if self.complete else EXIT_INCOMPLETE

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many versions came to each outcome."""
        found = Counter(row.outcome for row in self.rows)
        return {outcome: found[outcome] for outcome in Outcome if found[outcome]}

    def lines(self) -> Iterator[str]:
        """Say each finding in a line; versions in a row that share a reason share its line."""
        for fault in self.faults:
            yield fault
        for row in self.rows:
            for fault in row.faults:
                yield f"{model_codec.version_key(self.name, row.number)} (offset {row.offset}): {fault}"
        yield from self.notes
        noted = [row for row in self.rows if row.note]
        for (outcome, note), group in groupby(noted, key=lambda row: (row.outcome, row.note)):
            yield f"{self._span([row.number for row in group])}: {MEANINGS[outcome]}: {note}"

    def _span(self, numbers: Sequence[int]) -> str:
        first = model_codec.version_key(self.name, numbers[0])
        return first if len(numbers) == 1 else f"{first} to {model_codec.version_key(self.name, numbers[-1])}"

    def plain(self) -> dict[str, Any]:
        """Return the whole report as a plain JSON value."""
        return {
            "name": self.name,
            "models_topic": self.models_topic,
            "clean": self.clean,
            "exit_status": self.exit_status,
            "counts": {outcome.value: count for outcome, count in self.counts.items()},
            "faults": list(self.faults),
            "notes": list(self.notes),
            "versions": [msgspec.to_builtins(row) for row in self.rows],
            "input_rows": self.input_rows,
            "seconds": round(self.seconds, 6),
        }


class _Retirement(msgspec.Struct):
    """What is read of an entry of the audit trail."""

    event: str
    name: str = ""
    versions: tuple[int, ...] = ()


def retired_in(entry: bytes | None, name: str) -> tuple[int, ...]:
    """Return the versions of a model that one record of the audit trail says are retired, whatever else it is."""
    try:
        said = msgspec.json.decode(entry or b"", type=_Retirement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    return said.versions if said.event == "version_retired" and said.name == name else ()


@dataclass(slots=True, kw_only=True)
class Survey:
    """Where every version stands, from one reading of the models topic that decodes nothing.

    Attributes
    ----------
    name : str
    found : dict of int to list of (int, str)
        Offset and SHA-256 of each record of a number; more than one is a fault.
    retired : dict of int to int
        Offset of the first tombstone of a number.
    end : int
        Offset after the last record seen.
    gone : set of int
        Numbers that the audit trail says are retired: compaction removes the record, and then the tombstone, too.
    forged : dict of int to int
        Offset of the first tombstone of a number that nothing else says is retired.
    """

    name: str
    found: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    retired: dict[int, int] = field(default_factory=dict)
    end: int = 0
    gone: set[int] = field(default_factory=set)
    forged: dict[int, int] = field(default_factory=dict)

    def note_retired(self, entry: bytes | None) -> None:
        """Take in one record of the audit trail, whatever it is of."""
        self.gone.update(retired_in(entry, self.name))

    def doubt(self, retired: Retired | None) -> None:
        """Believe no tombstone that neither the aliases topic nor the audit trail, both read since, knows of."""
        said = {number for number in self.retired if retired is not None and number in retired}
        self.forged = {number: at for number, at in self.retired.items() if number not in said | self.gone}
        self.retired = {number: at for number, at in self.retired.items() if number not in self.forged}

    @property
    def faults(self) -> list[str]:
        """Name the tombstones that are not believed."""
        return [
            f"a tombstone at offset {offset} says that {model_codec.version_key(self.name, number)} is retired, but "
            f"neither {model_codec.retired_key(self.name)} nor the audit trail does: streamsvm did not write the "
            "tombstone"
            for number, offset in sorted(self.forged.items())
        ]

    @property
    def has_gaps(self) -> bool:
        """Whether a number below the newest has neither a record nor a tombstone."""
        return len(self.found.keys() | self.retired.keys()) < self.newest

    def is_retired(self, number: int) -> bool:
        """Tell whether a number was retired, as its tombstone says, or the audit trail."""
        return number in self.retired or number in self.gone

    def note(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        """Take in one record, in the order of the log."""
        self.end = offset + 1
        number = version_number(key, self.name)
        if number is None:
            return
        if value is None:
            self.retired.setdefault(number, offset)
        else:
            self.found.setdefault(number, []).append((offset, model_codec.sha256(value)))

    @property
    def newest(self) -> int:
        """The greatest number, 0 if there is none."""
        return max((*self.found, *self.retired, *self.gone), default=0)

    def hashes(self, number: int) -> set[str]:
        """Return the SHA-256 of every record of a number."""
        return {sha256 for _, sha256 in self.found.get(number, ())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What a version says about its place.

    Attributes
    ----------
    number, offset : int
    incarnation : int or None
        From its header; None if there is none that can be read.
    lineage : Lineage
    rows : int
        Rows of the input up to its cut.
    form : str
        The format of its message.
    """

    number: int
    offset: int
    incarnation: int | None
    lineage: Lineage
    rows: int
    form: str = model_codec.FORMAT

    @property
    def cut(self) -> dict[int, Position]:
        """Up to where it was learned."""
        return positions(self.lineage.cut)

    @property
    def base(self) -> dict[int, Position]:
        """From where its incarnation was learned."""
        return positions(self.lineage.base)


class Chain:
    """Follows the versions of a topic in log order and says where one does not follow from those before it.

    Parameters
    ----------
    survey : Survey
    """

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._newest = 0
        self._before: Link | None = None
        self._tuned: Link | None = None

    def number_faults(self, number: int, offset: int) -> list[str]:
        """Check a record's number, which its key says even where its value is damaged."""
        faults = []
        others = [other for other, _ in self._survey.found[number] if other != offset]
        if others:
            faults.append(f"the version's number is published twice: also at offset {', '.join(map(str, others))}")
        elif number < self._newest:
            faults.append(f"the version comes after {self._key(self._newest)}, which has a higher number")
        elif self._newest and (missing := self._missing(number)):
            faults.append(f"the numbers have a gap: {missing} missing before it")
        retired = self._survey.retired.get(number)
        if retired is not None and retired < offset:
            faults.append(f"the version's number was used again after it was retired at offset {retired}")
        self._newest = max(self._newest, number)
        return faults

    def faults(self, link: Link) -> list[str]:
        """Check a version against those before it; call `number_faults` first."""
        faults = [*self._parent_faults(link), *self._link_faults(link), *self._shape_faults(link.base, link.cut)]
        before, self._before = self._before, link
        if link.incarnation is None:
            faults.append(f"the record has no numeric header {INCARNATION_HEADER}")
        elif before is not None and before.incarnation is not None:
            faults += self._order_faults(before, link, link.incarnation, before.incarnation)
        with suppress(NotRecomputable):  # a configuration that this build does not know is said when it is recomputed
            faults += self._tuning_faults(link)
        return faults

    def _tuning_faults(self, link: Link) -> list[str]:
        """Check that it was tuned where it had to be, else by the tuning of the versions before it."""
        tuned_at, own = link.lineage.tuned_at, link.lineage.cut
        before, self._tuned = self._tuned, link if tuned_at == own else self._tuned
        if tuned_at is None:
            return []
        if tuned_at != own and not tuned_before(link.lineage):
            return ["the version names a cut of tuning that does not lie before its own cut"]
        if before is None or before.incarnation != link.incarnation or self._any_retired(before.number, link.number):
            return []
        in_force = f"the tuning in force was made at the cut of {self._key(before.number)}"
        if is_due(link.rows, before.rows, configuration_of(link.lineage)):
            return (
                []
                if tuned_at == own
                else [f"{in_force}; this version should have been tuned at its own cut, and was not"]
            )
        return [] if tuned_at == before.lineage.cut else [f"{in_force}, but this version names another"]

    def _any_retired(self, first: int, last: int) -> bool:
        return any(first < number < last for number in self._survey.retired)

    def _missing(self, number: int) -> str:
        absent = [one for one in range(self._newest + 1, number) if not self._survey.is_retired(one)]
        if not absent:
            return ""
        first, last = self._key(absent[0]), self._key(absent[-1])
        return f"{first} is" if first == last else f"{first} to {last} are"

    def _parent_faults(self, link: Link) -> list[str]:
        parent = link.lineage.parent
        if parent is None:
            return [] if link.number == 1 else ["the version does not name a parent, but it is not the first version"]
        if link.number == 1:
            return [f"this is the first version, but it names the parent {parent}"]
        known = self._survey.hashes(link.number - 1)
        if known and parent not in known:
            return [
                (
                    f"the version names the parent {parent}, but {self._key(link.number - 1)} has the SHA-256 "
                    f"{', '.join(sorted(known))}"
                )
            ]
        return []

    def _link_faults(self, link: Link) -> list[str]:
        """Check the hashes that it names besides its parent's, and that none is left out that its parent knew."""
        faults = []
        for ancestor in link.lineage.links:
            known = self._survey.hashes(ancestor.number)
            if known and ancestor.sha256 not in known:
                named = f"the version links to {self._key(ancestor.number)} as {ancestor.sha256}"
                faults.append(f"{named}, but that version has the SHA-256 {', '.join(sorted(known))}")
        before = self._before
        if before is None or before.number != link.number - 1 or link.form in model_codec.WITHOUT_LINKS:
            return faults
        found, due = ([ancestor.number for ancestor in links] for links in (link.lineage.links, links_after(before)))
        if found != due:
            faults.append(f"the version links to the versions {found}; besides its parent it must link to {due}")
        return faults

    def _shape_faults(self, base: Positions, cut: Positions) -> list[str]:
        if base.keys() != cut.keys():
            return [f"the version's base names the partitions {sorted(base)}, but its cut names {sorted(cut)}"]
        return [] if precedes(base, cut) else ["the version's cut lies before its base"]

    def _order_faults(self, before: Link, link: Link, incarnation: int, earlier: int) -> list[str]:
        if incarnation < earlier:
            return [
                f"the version's incarnation is {incarnation}, but {self._key(before.number)} before it has {earlier}"
            ]
        if incarnation > earlier:
            return []
        faults = []
        if not precedes(before.cut, link.cut):
            faults.append(f"the version's cut lies behind that of {self._key(before.number)} in some partition")
        elif before.cut == link.cut:
            faults.append(f"the version has the same cut as {self._key(before.number)}")
        if any(link.base.get(partition) != at for partition, at in before.base.items()):
            faults.append(
                f"the version's base differs from that of {self._key(before.number)}, which has the same incarnation"
            )
        old, new = before.lineage, link.lineage
        if (old.configuration_sha256, old.topic, old.topic_id) != (new.configuration_sha256, new.topic, new.topic_id):
            faults.append(
                f"the version's input or configuration differs from that of {self._key(before.number)}, which has "
                "the same incarnation"
            )
        return faults

    def _key(self, number: int) -> str:
        return model_codec.version_key(self._survey.name, number)


def links_after(parent: Link) -> tuple[Ancestor, ...]:
    """Return what the version after another links to."""
    if parent.form in model_codec.WITHOUT_LINKS:
        return ()
    lineage, before = parent.lineage, parent.number - 1
    known = [(link.number, link) for link in lineage.links]
    if lineage.parent is not None:
        known.append((before, Ancestor(before, lineage.parent)))
    return chosen(parent.number + 1, known)


def tuned_before(lineage: Lineage) -> bool:
    """Tell whether a version names a cut before its own, of partitions that it knows, as that of its tuning."""
    if lineage.tuned_at is None or lineage.tuned_at == lineage.cut:
        return False
    tuned, base = positions(lineage.tuned_at), positions(lineage.base)
    reaches = all(base.get(partition, at) <= at for partition, at in tuned.items())
    return reaches and tuned.keys() <= base.keys() and precedes(tuned, positions(lineage.cut))


class Recomputation:
    """One learner that goes through an incarnation's input once and stops at each version's cut.

    A version that was tuned at an earlier cut needs what was chosen there: if that is not known, `tuning_cut` names the
    cut, and `tune` is to be called there first.

    Parameters
    ----------
    version : Version
        The first one to recompute.
    topic_id : str
        The input topic's id now.

    Raises
    ------
    NotRecomputable
        If the lineage's configuration is not one that this build can run.
    """

    def __init__(self, version: Version, topic_id: str) -> None:
        lineage = version.lineage
        self.config = configuration_of(lineage)
        self.topic = lineage.topic
        self._topic_id = topic_id
        self._of = (lineage.topic, lineage.topic_id, lineage.configuration_sha256)
        base = positions(lineage.base)
        first = positions(lineage.tuned_at or ()) if tuned_before(lineage) else base
        self._base = {partition: at for partition, at in base.items() if partition in first}
        self._learner = _learner(self.config, self._base)
        self._tunings: dict[tuple[PartitionCut, ...], Tuning] = {}
        self.input_rows = 0

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return self._learner.positions

    def admits(self, version: Version) -> bool:
        """Tell whether a version can be reached from here: of the same input and base, and not behind."""
        lineage = version.lineage
        base, cut = positions(lineage.base), positions(lineage.cut)
        return (
            self._of == (lineage.topic, lineage.topic_id, lineage.configuration_sha256)
            and base.keys() == cut.keys()
            and all(base.get(partition) == at for partition, at in self._base.items())
            and precedes(self.positions, cut)
            and self._can_tune(lineage)
        )

    def _can_tune(self, lineage: Lineage) -> bool:
        """Tell whether its tuning is known, or its cut still to be reached, with the partitions of then."""
        if not tuned_before(lineage) or lineage.tuned_at in self._tunings:
            return True
        tuned = positions(lineage.tuned_at or ())
        return self._base.keys() == tuned.keys() and precedes(self.positions, tuned)

    def tuning_cut(self, version: Version) -> dict[int, Position] | None:
        """Return the earlier cut at which `tune` must be called; None if there is none, or it was called there."""
        lineage = version.lineage
        if self.config.svm.tune is None or not tuned_before(lineage) or lineage.tuned_at in self._tunings:
            return None
        return positions(lineage.tuned_at or ())

    def tune(self, version: Version) -> None:
        """Choose again what was chosen at the cut that a version names, once that is reached.

        Raises
        ------
        NotRecomputable
            If the log never stood there.
        """
        assert version.lineage.tuned_at is not None
        self._require_standing(positions(version.lineage.tuned_at))
        self._remember(tune(self._learner.cut(), self.config).tuning)

    def _remember(self, tuning: Tuning | None) -> None:
        at = naming.tuned_at(tuning)
        if at is not None and tuning is not None:
            self._tunings[at] = tuning

    def _in_force(self, version: Version) -> Tuning | None:
        """Return the tuning that a version names, if it is one of an earlier cut."""
        known = self._tunings.get(version.lineage.tuned_at or ())
        return known if tuned_before(version.lineage) else None

    def aim(self, version: Version) -> dict[int, Position]:
        """Take in partitions that were added since, and return where each must go."""
        base = positions(version.lineage.base)
        if base.keys() != self._base.keys():
            grown = _learner(self.config, base)
            grown.restore(self._learner.state())
            self._learner, self._base = grown, base
        return positions(version.lineage.cut)

    def learn(self, rows: Rows, until: Position) -> Rows:
        """Learn rows of one partition up to a cut, and return those that lie behind it."""
        known = rows.index_of(self.positions[rows.partition])
        done = self._learner.learn(rows, until)
        self.input_rows += max(0, done - known)
        return rows.slice(done, len(rows))

    def value(self, version: Version, lineage: Lineage) -> bytes:
        """Return the value that a version must have, once its cut is reached; another build's stays named as its own.

        Parameters
        ----------
        version : Version
        lineage : Lineage
            What names its predecessors: the parent and the links of this one are taken.

        Raises
        ------
        NotRecomputable
            If the log never stood at its cut, or has fewer rows up to there than it had then.
        """
        self._require_standing(positions(version.lineage.cut))
        cut = self._learner.cut()
        if cut.rows < version.stream.rows:
            raise NotRecomputable(
                f"{self.topic} holds {cut.rows:,} rows up to the version's cut, but the version was made from "
                f"{version.stream.rows:,}: records in between were removed; an input topic must not be compacted"
            )
        made = make(cut, self.config, self._in_force(version))
        self._remember(made.tuning)
        origin = Origin(
            name=version.name,
            number=version.number,
            parent=lineage.parent,
            links=lineage.links,
            topic=self.topic,
            topic_id=self._topic_id,
            base=self._base,
            build=version.lineage.build,
        )
        return model_codec.encode(version_of(made, self.config, origin))

    def _require_standing(self, cut: Positions) -> None:
        for partition, at in self.positions.items():
            if at != cut[partition]:
                raise NotRecomputable(
                    f"no record of {self.topic}[{partition}] ends at the version's cut, offset "
                    f"{cut[partition].offset} row {cut[partition].row}, but at offset {at.offset} row {at.row}: "
                    "records in between were removed; an input topic must not be compacted"
                )


def _learner(config: ModelConfig, base: Positions) -> Learner:
    """Return a learner to which no cut falls due: when they fell due is the business of whoever published."""
    return Learner(config, base, every_leaves=sys.maxsize)


def configuration_of(lineage: Lineage) -> ModelConfig:
    """Return the configuration that a version was made with, by its own word.

    Raises
    ------
    NotRecomputable
        If this build does not know it.
    """
    try:
        return ModelConfig.of_canonical(lineage.configuration)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise NotRecomputable(f"this build cannot run the version's configuration: {where}: {first['msg']}") from None


def missing_input(version: Version, topic_id: str | None, log: Mapping[int, tuple[int, int]]) -> str:
    """Say which part of a version's input the log does not hold, or nothing.

    Parameters
    ----------
    version : Version
    topic_id : str or None
        Of the input topic now; None where there is no such topic.
    log : mapping of partition to (int, int)
        First offset and end of each partition.
    """
    lineage = version.lineage
    if topic_id is None:
        return f"the topic {lineage.topic} no longer exists"
    if topic_id != lineage.topic_id:
        return (
            f"the topic {lineage.topic} was recreated: its id is {topic_id or 'unknown'}, but the version was made "
            f"from the id {lineage.topic_id or 'unknown'}"
        )
    base, cut = positions(lineage.base), positions(lineage.cut)
    if base.keys() != cut.keys() or not all(Position(0) <= base[partition] <= cut[partition] for partition in cut):
        return "the version's base and cut do not fit together"
    gone = []
    for partition in sorted(partition for partition in cut if cut[partition] != base[partition]):
        if partition not in log:
            gone.append(f"partition {partition} does not exist")
            continue
        first, end = log[partition]
        if first > base[partition].offset:
            gone.append(f"partition {partition}: offsets {base[partition].offset:,}-{first - 1:,} were removed")
        if cut[partition] > Position(end):
            gone.append(f"partition {partition} ends at offset {end:,}: the topic was truncated")
    return f"{lineage.topic}: {'; '.join(gone)}" if gone else ""


def differences(published: bytes, recomputed: bytes, form: str = model_codec.FORMAT) -> tuple[str, ...]:
    """Name the parts in which two values of versions differ; none if they are the same bytes.

    What was published in an older format `form`, which lacks what the newest says, is compared in what it holds.
    """
    if published == recomputed:
        return ()
    if form != model_codec.FORMAT:
        published, recomputed = model_codec.as_format(published, form), model_codec.as_format(recomputed, form)
        if published == recomputed:
            return ()
    was, found = dict(_leaves(json.loads(published))), dict(_leaves(json.loads(recomputed)))
    parts = [path for path in dict.fromkeys([*found, *was]) if _exact(was, path) != _exact(found, path)]
    if not parts:
        return ("the bytes, but not their meaning: the version was encoded in another way",)
    shown = [
        f"{path}: published {_shown(was, path)}, recomputed {_shown(found, path)}"
        for path in sorted(parts, key=_weight)[:PARTS_SHOWN]
    ]
    if len(parts) > PARTS_SHOWN:
        rest = Counter(path.split("[")[0] for path in sorted(parts, key=_weight)[PARTS_SHOWN:])
        shown.append("and " + ", ".join(f"{path} ({count})" for path, count in rest.items()))
    return tuple(shown)


_FIRST: Final = ("lineage.training_set_sha256", "stream", "features", "training.C", "model", "training")


def _weight(path: str) -> int:
    """Order parts from cause to consequence."""
    return next((rank for rank, part in enumerate(_FIRST) if path.startswith(part)), len(_FIRST))


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for index, part in enumerate(value):
            yield from _leaves(part, f"{path}[{index}]")
    else:
        yield path, value


_ABSENT: Final = object()


def _exact(leaves: Mapping[str, object], path: str) -> str:
    """Return a value as text that tells 0.0 from -0.0 and 1 from 1.0."""
    return repr(leaves.get(path, _ABSENT))


def _shown(leaves: Mapping[str, object], path: str) -> str:
    if path not in leaves:
        return "nothing"
    text = json.dumps(leaves[path])
    return text if len(text) <= 80 else f"{text[:77]}..."


def alias_faults(
    before: Aliases,
    newest_after: int,
    survey: Survey,
    versions: Mapping[int, Version],
    incarnation: int | None = None,
) -> list[str]:
    """Check what the aliases name, as read before the models topic was.

    Parameters
    ----------
    before : Aliases
    newest_after : int
        The head's number as read again behind it: a trainer may have gone on meanwhile.
    survey : Survey
    versions : mapping of int to Version
        The version that the head names, if it is there and in one piece.
    incarnation : int, optional
        What the header of that version says, if it can be read.
    """
    faults = [*before.faults]
    head, name = before.head, survey.name
    if head is None:
        faults.append(f"the head record {model_codec.head_key(name)} is missing, but there are versions")
    else:
        faults += _head_faults(head, newest_after, survey, versions.get(head.number))
        if incarnation not in (None, head.incarnation):
            version_key = model_codec.version_key(name, head.number)
            faults.append(
                f"{model_codec.head_key(name)} gives incarnation {head.incarnation}, but the header "
                f"{INCARNATION_HEADER} of {version_key} says {incarnation}"
            )
    if model_codec.current_key(name) not in before.named:
        faults.append(f"the alias {model_codec.current_key(name)} is missing, but there are versions")
    for key, alias in sorted(before.named.items()):
        faults += _named_faults(key, alias.number, alias.sha256, alias.offset, survey)
    return faults


def _head_faults(head: Head, newest_after: int, survey: Survey, version: Version | None) -> list[str]:
    key, newest = model_codec.head_key(survey.name), survey.newest
    if not head.number <= newest <= max(newest_after, head.number):
        newest_key = model_codec.version_key(survey.name, newest)
        return [f"{key} names version {head.number}, but the newest is {newest_key}"]
    faults = _named_faults(key, head.number, head.sha256, head.offset, survey)
    if version is not None:
        lineage = version.lineage
        said = (head.cut, head.training_set_sha256, head.build)
        if said != (lineage.cut, lineage.training_set_sha256, lineage.build):
            faults.append(f"{key} gives another cut, training set or build than the message of {version.key}")
        with suppress(NotRecomputable):
            faults += _tuning_faults(key, head, version)
    return faults


def _tuning_faults(key: str, head: Head, version: Version) -> list[str]:
    """Check that what the next version would be trained by is what this one was."""
    tuning = naming.tuning_of(head)
    if naming.tuned_at(tuning) != version.lineage.tuned_at:
        return [f"{key} names another cut of tuning than the message of {version.key}"]
    if tuning is None:
        return []
    penalty = tuning.applied(configuration_of(version.lineage).svm).penalty(version.stream.weight)
    if penalty != version.fit.C or tuning.gamma not in (None, version.fit.gamma):
        return [f"{key} gives another C or gamma in force than {version.key} was trained with"]
    return []


def _named_faults(key: str, number: int, sha256: str, offset: int, survey: Survey) -> list[str]:
    if survey.is_retired(number) and number not in survey.found:
        return []
    if (offset, sha256) in survey.found.get(number, ()):
        return []
    there = ", ".join(f"{found} at offset {at}" for at, found in survey.found.get(number, ())) or "not in the topic"
    version = model_codec.version_key(survey.name, number)
    return [f"{key} names {version} as {sha256} at offset {offset}, but that version is {there}"]


class Auditor:
    """Judges one record of a version after the other, in log order; whoever reads the topics drives it.

    Parameters
    ----------
    survey : Survey
    only : int or None
        The one number to recompute; None: all.
    """

    def __init__(self, survey: Survey, only: int | None = None) -> None:
        self._survey = survey
        self._only = only
        self._chain = Chain(survey)
        self._rows: list[Row] = []

    @property
    def rows(self) -> tuple[Row, ...]:
        """The findings so far, and those about versions of which only the tombstone is left."""
        gone = [
            Row(number, offset, Outcome.RETIRED, note="only its tombstone is left")
            for number, offset in sorted(self._survey.retired.items())
            if number not in self._survey.found
        ]
        nothing = sorted(self._survey.gone - self._survey.retired.keys() - self._survey.found.keys())
        gone += [Row(number, -1, Outcome.RETIRED, note="only the audit trail knows it") for number in nothing]
        return (*self._rows, *gone)

    def open(
        self, key: bytes, value: bytes, offset: int, headers: Mapping[str, bytes]
    ) -> tuple[int, Version | None, tuple[str, ...], str]:
        """Check all of a record that needs no recomputation.

        Returns
        -------
        (number, version, faults, note)
            None in place of the version if it is damaged, or of a format that this build does not read: then the note
            says so.
        """
        number = version_number(key, self._survey.name)
        assert number is not None
        faults = self._chain.number_faults(number, offset)
        claimed = headers.get(model_codec.SHA256_HEADER)
        if claimed is None:
            faults.append(f"the record has no header {model_codec.SHA256_HEADER}")
        elif claimed.decode(errors="replace") != model_codec.sha256(value):
            faults.append(
                f"the value has the SHA-256 {model_codec.sha256(value)}, but its header says "
                f"{claimed.decode(errors='replace')}"
            )
        try:
            version = model_codec.decode(value)
        except UnknownFormat as error:
            return number, None, tuple(faults), str(error)
        except InvalidMessage as error:
            return number, None, (*faults, str(error)), ""
        if version.key.encode() != key:
            faults.append(f"the value says that it is {version.key}")
        form = model_codec.format_of(value)
        faults += self._chain.faults(
            Link(
                number=number,
                offset=offset,
                incarnation=incarnation_in(headers),
                lineage=version.lineage,
                rows=version.stream.rows,
                form=form,
            )
        )
        return number, version, tuple(faults), ""

    def wants(self, number: int) -> bool:
        """Tell whether a version is to be recomputed."""
        return (self._only is None or number == self._only) and number not in self._survey.retired

    def placed(self, version: Version) -> Lineage:
        """Return a version's lineage with the hashes that its predecessors have; its own word where they are gone."""
        lineage = version.lineage
        parent = None if lineage.parent is None else self._right(version.number - 1, lineage.parent)
        if parent is None and (known := self._survey.hashes(version.number - 1)):
            parent = min(known)
        links = tuple(Ancestor(link.number, self._right(link.number, link.sha256)) for link in lineage.links)
        return msgspec.structs.replace(lineage, parent=parent, links=links)

    def _right(self, number: int, named: str) -> str:
        known = self._survey.hashes(number)
        return named if not known or named in known else min(known)

    def close(
        self,
        number: int,
        offset: int,
        faults: tuple[str, ...],
        *,
        version: Version | None = None,
        parts: tuple[str, ...] | None = None,
        note: str = "",
        form: str = model_codec.FORMAT,
    ) -> None:
        """Write the finding down.

        Parameters
        ----------
        number, offset : int
        faults : tuple of str
            Those of `open`.
        version : Version, optional
        parts : tuple of str, optional
            In what it differs from its recomputation; None if there was none.
        note : str
            Why there was none.
        form : str
            The format of its message.
        """
        outcome = self._outcome(number, parts)
        if outcome is Outcome.IDENTICAL and form != model_codec.FORMAT:
            outcome, note = Outcome.OLDER_FORMAT, form
        if outcome is Outcome.RETIRED:
            note = f"by the tombstone at offset {self._survey.retired[number]}"
        if parts and version is not None and version.lineage.build != build():
            outcome, note = Outcome.FOREIGN, "; ".join([*_foreign(version.lineage.build), *parts])
        elif parts:
            faults = (*faults, *parts)
        self._rows.append(Row(number, offset, Outcome.DIFFERS if faults else outcome, faults, note))

    def _outcome(self, number: int, parts: tuple[str, ...] | None) -> Outcome:
        if number in self._survey.retired:
            return Outcome.RETIRED
        if not self.wants(number):
            return Outcome.PASSED
        return Outcome.UNAVAILABLE if parts is None else Outcome.IDENTICAL

    def notes(self) -> list[str]:
        """Say which numbers the topic does not hold at its beginning."""
        first = min((*self._survey.found, *self._survey.retired, *self._survey.gone), default=1)
        if first == 1:
            return []
        oldest = model_codec.version_key(self._survey.name, first)
        return [f"the models topic begins at {oldest}: the {first - 1} versions before it cannot be checked"]


def incarnation_in(headers: Mapping[str, bytes]) -> int | None:
    """Return the incarnation that a version's headers name, None if there is none that can be read."""
    text = headers.get(INCARNATION_HEADER, b"")
    return int(text) if text.isdigit() else None


def _foreign(theirs: Mapping[str, str]) -> list[str]:
    own = build()
    return [
        f"{part} was {theirs.get(part, 'unknown')}, here it is {own.get(part, 'unknown')}"
        for part in sorted(own.keys() | theirs.keys())
        if own.get(part) != theirs.get(part)
    ]
