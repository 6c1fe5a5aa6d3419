"""A version made again from the rows of its input and from its own lineage, never from anybody's options."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol

import msgspec
from pydantic import ValidationError

from streamsvm.certificate import Certifier, over_columns
from streamsvm.config import ModelConfig
from streamsvm.config.model import Earlier
from streamsvm.coreset.buckets import Learned
from streamsvm.errors import StateError
from streamsvm.learning import naming
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import CutFact, Made, Origin, make, version_of
from streamsvm.learning.recipe_changes import carried, columns_between, cut_of, history_of
from streamsvm.learning.tuning import Tuning, tune
from streamsvm.model import message as model_codec
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.classes import ClassModel
from streamsvm.model.recipes import Columns
from streamsvm.model.version import Lineage, Memory, PartitionCut, Version, positions
from streamsvm.points import Points, Position, Positions, Rows, precedes
from streamsvm.supports import CERTIFICATE, LABELS, require


class NotRecomputable(StateError):
    """The log does not hold, or no longer holds, what a version was made from."""


class RowsLeftOut(NotRecomputable):
    """A version is of rows that must be left out since, so nobody may make it again."""


class OtherLog(CutFact, Protocol):
    """A log beside the input that versions are made from; equal ones are of versions that follow one another."""

    @property
    def topic(self) -> str:
        """Its topic."""

    def missing(self, version: Version, topic_id: str | None, log: Mapping[int, tuple[int, int]]) -> str:
        """Say what it no longer holds of what a version was made from, or nothing; parameters as of `missing_input`."""


def tuned_before(lineage: Lineage) -> bool:
    """Return whether a version names a cut before its own, of partitions that it knows, as that of its tuning."""
    if lineage.tuned_at is None or lineage.tuned_at == lineage.cut:
        return False
    tuned, base = positions(lineage.tuned_at), positions(lineage.base)
    reaches = all(base.get(partition, at) <= at for partition, at in tuned.items())
    return reaches and tuned.keys() <= base.keys() and precedes(tuned, positions(lineage.cut))


class Recomputation:
    """One learner that goes through an incarnation's input once and stops at each version's cut.

    Versions of one incarnation differ in what they are trained with, not in what is learned: each is made with the
    options that its own lineage names.

    A version that was tuned at an earlier cut needs what was chosen there: if that is not known, `tuning_cut` names the
    cut, and `tune` is to be called there first.

    Parameters
    ----------
    version : Version
        The first one to recompute.
    topic_id : str
        The input topic's id now.
    log : mapping of partition to (int, int), optional
        First offset and end of each partition now. Where the beginning is gone, a version that forgets is made from the
        oldest row that it depends on; what was learned before that row is then taken from its lineage.
    certifier : Certifier, optional
        Looks at what is learned.
    others : sequence of OtherLog
        The logs beside the input.

    Raises
    ------
    NotRecomputable
        If the lineage's configuration is not one that this build can run.
    """

    def __init__(
        self,
        version: Version,
        topic_id: str,
        log: Mapping[int, tuple[int, int]] = MappingProxyType({}),
        certifier: Certifier | None = None,
        others: Sequence[OtherLog] = (),
    ) -> None:
        lineage = version.lineage
        last = configuration_of(lineage)
        self.topic = lineage.topic
        self._topic_id = topic_id
        self._of = lineage.topic, lineage.topic_id
        self.others = tuple(others)
        self._certifier = certifier
        base = positions(lineage.base)
        first = positions(lineage.tuned_at or ()) if tuned_before(lineage) else base
        self._base = {partition: at for partition, at in base.items() if partition in first}
        begun = {partition: begin for partition, begin in _beginnings(lineage, log).items() if partition in first}
        start = {partition: at for partition, (at, _) in begun.items()}
        changes = iter(last.earlier)  # columns that ended before the first row are passed over
        self.config = next((one for one in history_of(last) if not _is_past(next(changes, None), start)), last)
        self._columns = _columns_to(last, self.config)
        before = {partition: learned for partition, (_, learned) in begun.items() if learned is not None}
        span = self.config.coreset.span_rows
        if any(span and learned.rows % span for learned in before.values()):
            raise NotRecomputable("the version's lineage.memory begins where no span does")
        self._learner = _learner(self.config, start, before)
        self._show(self._base)
        self._tunings: dict[tuple[str, tuple[PartitionCut, ...]], Tuning] = {}  # by configuration and cut
        self.input_rows = 0

    @property
    def positions(self) -> dict[int, Position]:
        """The next row to learn of each partition."""
        return self._learner.positions

    def admits(self, version: Version, others: Sequence[OtherLog] = ()) -> bool:
        """Return whether a version can be reached from here: of the same logs and base, and not behind."""
        lineage = version.lineage
        base, cut = positions(lineage.base), positions(lineage.cut)
        return (
            self._of == (lineage.topic, lineage.topic_id)
            and self._leads_to(lineage)
            and self.others == tuple(others)
            and base.keys() == cut.keys()
            and all(base.get(partition) == at for partition, at in self._base.items())
            and precedes(self.positions, cut)
            and self._can_tune(lineage)
        )

    def _leads_to(self, lineage: Lineage) -> bool:
        """Return whether a version's columns are those of now, or become so after rows that are still to be learned."""
        found = self._later(lineage)
        return bool(found) and all(self.positions[p] <= at for p, at in self._until(found).items())

    def _later(self, lineage: Lineage) -> list[ModelConfig]:
        """Return the configurations that led to a version from the present one on; none where that is none of them."""
        found, own = history_of(configuration_of(lineage)), self.config.learned_sha256()
        at = next((at for at, one in enumerate(found) if one.learned_sha256() == own), len(found))
        return found[at:]

    def _until(self, later: Sequence[ModelConfig]) -> dict[int, Position]:
        """Return where the columns of now end; empty where they do not."""
        cut = cut_of(later[1].earlier[-1]) if len(later) > 1 else {}
        return {partition: cut[partition] for partition in self.positions if partition in cut}

    def change_cut(self, version: Version) -> dict[int, Position] | None:
        """Return the cut at which `change` must be called on the way to a version; None if there is none."""
        found = self._later(version.lineage)
        if len(found) <= 1:
            return None
        until = self._until(found)  # where retention took more, a partition begins behind it
        return {partition: max(at, until.get(partition, at)) for partition, at in self.positions.items()}

    def change(self, version: Version) -> None:
        """Go on with the next columns, once the cut is reached at which records became these.

        Raises
        ------
        NotRecomputable
            If the log never stood there.
        """
        cut = self.change_cut(version)
        assert cut is not None
        self._require_standing(cut)
        self._learner.show_open()
        before, self.config = self._later(version.lineage)[:2]
        state = carried(self._learner.state(), before, self.config)
        self._learner, self._columns = _learner(self.config, self.positions), self._columns[1:]
        self._learner.restore(state)
        self._show(self._base)

    def _can_tune(self, lineage: Lineage) -> bool:
        """Return whether its tuning is known, or its cut still to be reached, with the partitions of then."""
        if not tuned_before(lineage) or self._in_force(lineage):
            return True
        tuned = positions(lineage.tuned_at or ())
        return self._base.keys() == tuned.keys() and precedes(self.positions, tuned)

    def tuning_cut(self, version: Version) -> dict[int, Position] | None:
        """Return the earlier cut at which `tune` must be called; None if there is none, or it was called there."""
        lineage = version.lineage
        if not tuned_before(lineage) or self._in_force(lineage):
            return None
        return None if configuration_of(lineage).svm.tune is None else positions(lineage.tuned_at or ())

    def tune(self, version: Version) -> None:
        """Choose again what was chosen at the cut that a version names, once that is reached.

        Raises
        ------
        NotRecomputable
            If the log never stood there.
        """
        assert version.lineage.tuned_at is not None
        self._require_standing(positions(version.lineage.tuned_at))
        self._remember(version.lineage, tune(self._learner.cut(), configuration_of(version.lineage)).tuning)

    def _remember(self, lineage: Lineage, tuning: Tuning | None) -> None:
        at = naming.tuned_at(tuning)
        if at is not None and tuning is not None:
            self._tunings[lineage.configuration_sha256, at] = tuning

    def _in_force(self, lineage: Lineage) -> Tuning | None:
        """Return the tuning that a version names, if it is one of an earlier cut and known."""
        known = self._tunings.get((lineage.configuration_sha256, lineage.tuned_at or ()))
        return known if tuned_before(lineage) else None

    def aim(self, version: Version) -> dict[int, Position]:
        """Take in partitions that were added since, and return where each must go."""
        base = positions(version.lineage.base)
        if base.keys() != self._base.keys():
            added = {partition: at for partition, at in base.items() if partition not in self._base}
            self._learner.extend(added)
            self._base = base
            self._show(added)
        return positions(version.lineage.cut)

    def learn(self, rows: Rows, until: Position) -> Rows:
        """Learn rows of one partition up to a cut, and return those that lie behind it."""
        known = rows.index_of(self.positions[rows.partition])
        done = self._learner.learn(rows, until)
        self.input_rows += max(0, done - known)
        return rows.slice(done, len(rows))

    def _show(self, partitions: Iterable[int]) -> None:
        """Let the certifier see what is learned of these partitions."""
        certifier = self._certifier
        if certifier is not None:
            self._learner.show({partition: partial(self._look, certifier, partition) for partition in partitions})

    def _look(self, certifier: Certifier, partition: int, came: Points, learned: Points) -> None:
        """Show points as they stand in the columns of the version."""
        for columns in self._columns:
            came, learned = (replace(one, X=columns.of(one.X)) for one in (came, learned))
        certifier.look(partition, came, learned)

    def show_open(self) -> None:
        """Let the certifier see the rest, once the version's cut is reached; nothing may be learned after that."""
        self._learner.show_open()

    def made(self, version: Version) -> Made:
        """Return everything that a version is made of, once its cut is reached.

        Raises
        ------
        NotRecomputable
            If the log never stood at its cut, or has fewer rows up to there than it had then.
        """
        self.require_all(version)
        made = make(self._learner.cut(), configuration_of(version.lineage), self._in_force(version.lineage))
        self._remember(version.lineage, made.tuning)
        return made

    def encoded(self, made: Made, version: Version, lineage: Lineage, facts: tuple[msgspec.Struct, ...] = ()) -> bytes:
        """Return the value that a version must have, of what was made; another build's stays named as its own.

        Parameters
        ----------
        made : Made
        version : Version
        lineage : Lineage
            What names its predecessors: the parent and the links of this one are taken.
        facts : tuple of Struct
            As of `Origin`.
        """
        origin = Origin(
            name=version.name,
            number=version.number,
            parent=lineage.parent,
            links=lineage.links,
            topic=self.topic,
            topic_id=self._topic_id,
            base=self._base,
            build=version.lineage.build,
            facts=facts,
            of_cut=self.others,
        )
        return model_codec.encode(version_of(made, configuration_of(version.lineage), origin))

    def require_all(self, version: Version) -> None:
        """See that all rows of a version were learned, once its cut is reached.

        Raises
        ------
        NotRecomputable
            If the log never stood at its cut, or has fewer rows up to there than it had then.
        """
        self._require_standing(positions(version.lineage.cut))
        rows = sum(learned.rows for learned in self._learner.learned().values())
        if rows < version.stream.rows:
            raise NotRecomputable(
                f"{self.topic} holds {rows:,} rows up to the version's cut, but the version was made from "
                f"{version.stream.rows:,}: records in between were removed; an input topic must not be compacted"
            )

    def _require_standing(self, cut: Positions) -> None:
        for partition, at in self.positions.items():
            if at != cut[partition]:
                raise NotRecomputable(
                    f"no record of {self.topic}[{partition}] ends at the version's cut, offset "
                    f"{cut[partition].offset} row {cut[partition].row}, but at offset {at.offset} row {at.row}: "
                    "records in between were removed; an input topic must not be compacted"
                )


def _is_past(change: Earlier | None, start: Positions) -> bool:
    """Return whether records had become other columns before the rows that are still to be learned."""
    return change is not None and all(cut_of(change).get(partition, at) <= at for partition, at in start.items())


def _columns_to(last: ModelConfig, config: ModelConfig) -> list[Columns]:
    """Return how columns follow from one another, from those of a configuration in a history to the last ones."""
    later = history_of(last)[len(config.earlier) :]
    return [columns_between(*pair) for pair in pairwise(later)]


def certifier_of(version: Version, keep: int) -> Certifier | None:
    """Return what looks at the rows of a version for its certificate; None if no configuration makes such a version.

    Parameters
    ----------
    version : Version
    keep : int

    Raises
    ------
    ConfigurationError
        If the version's kernel has no certificate, or it has too many columns, or is not of all rows alike.
    NotRecomputable
        If this build does not know its configuration.
    """
    config, model, fit = configuration_of(version.lineage), version.model, version.fit
    if model.dimension != config.points.dimension or not 0.0 < fit.C < math.inf:
        return None
    own = {LABELS: config.points.classes, "coreset.memory": config.coreset.memory}
    require({CERTIFICATE: True, **own}, {LABELS: version.key})
    assert not isinstance(model, ClassModel)
    if isinstance(model.machine, AdditiveMachine) and over_columns(model.machine) is None:
        return None
    partitions = [part.partition for part in version.lineage.cut]
    return Certifier(model, fit, partitions, config.points.numpy_dtype, keep, config.svm.margin_loss)


def _learner(config: ModelConfig, base: Positions, before: Mapping[int, Learned] | None = None) -> Learner:
    """Return a learner to which no cut falls due: the publisher has decided when they fell due."""
    return Learner(config, base, sys.maxsize, before=before)


def _beginnings(lineage: Lineage, log: Mapping[int, tuple[int, int]]) -> dict[int, tuple[Position, Learned | None]]:
    """Return where learning a version must begin, and what is taken for granted there; None: it is the base."""
    found: dict[int, tuple[Position, Learned | None]] = {
        partition: (at, None) for partition, at in positions(lineage.base).items()
    }
    if isinstance(lineage.memory, Memory):
        for coverage in lineage.memory.partitions:
            oldest = Position(*coverage.oldest)
            at, _ = found.get(coverage.partition, (oldest, None))
            if coverage.partition in log and log[coverage.partition][0] > at.offset and oldest > at:
                found[coverage.partition] = oldest, naming.learned_of(coverage.before)
    return found


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
    except ValueError as error:
        raise NotRecomputable(f"this build cannot run the version's configuration: {error}") from None


def missing_input(version: Version, topic_id: str | None, log: Mapping[int, tuple[int, int]]) -> str:
    """Return which part of a version's input the log does not hold, or nothing.

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
    gone, begun = [], _beginnings(lineage, log)
    for partition in sorted(partition for partition in cut if cut[partition] != base[partition]):
        if partition not in log:
            gone.append(f"partition {partition} does not exist")
            continue
        first, end = log[partition]
        begin, _ = begun[partition]
        if first > begin.offset:
            gone.append(f"partition {partition}: offsets {begin.offset:,}-{first - 1:,} were removed")
        if cut[partition] > Position(end):
            gone.append(f"partition {partition} ends at offset {end:,}: the topic was truncated")
    return f"{lineage.topic}: {'; '.join(gone)}" if gone else ""
