"""A version's place among its neighbours: numbers without a gap, parents, links, and cuts that go forward."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from streamsvm.config.model import learned_part
from streamsvm.learning.tuning import is_due
from streamsvm.model.ancestry import Ancestor, chosen
from streamsvm.model.version import Lineage, positions, version_key
from streamsvm.points import Position, Positions, precedes
from streamsvm.verification.recomputation import NotRecomputable, configuration_of, tuned_before
from streamsvm.verification.version_survey import INCARNATION_HEADER, VersionSurvey


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """What a version says about its place.

    Attributes
    ----------
    number, offset : int
    incarnation : int or None
        From its header; None if there is none that can be read.
    lineage : Lineage
    rows : int
        Rows of the input up to its cut.
    """

    number: int
    offset: int
    incarnation: int | None
    lineage: Lineage
    rows: int

    @property
    def cut(self) -> dict[int, Position]:
        """Up to where it was learned."""
        return positions(self.lineage.cut)

    @property
    def base(self) -> dict[int, Position]:
        """From where its incarnation was learned."""
        return positions(self.lineage.base)


class ChainCheck:
    """Follows the versions of a topic in log order and says where one does not follow from those before it.

    Parameters
    ----------
    survey : VersionSurvey
    """

    def __init__(self, survey: VersionSurvey) -> None:
        self._survey = survey
        self._newest = 0
        self._before: ChainLink | None = None
        self._tuned: ChainLink | None = None

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

    def faults(self, link: ChainLink) -> list[str]:
        """Check a version against those before it; call `number_faults` first."""
        faults = [*self._parent_faults(link), *self._link_faults(link), *self._shape_faults(link.base, link.cut)]
        before, self._before = self._before, link
        if link.incarnation is None:
            faults.append(f"the record has no numeric header {INCARNATION_HEADER}")
        elif before is not None and before.incarnation is not None:
            faults += self._order_faults(before, link, link.incarnation, before.incarnation)
        with suppress(NotRecomputable):  # a configuration that this build does not know is said when it is recomputed
            faults += self._tuning_faults(link, before)
        return faults

    def _tuning_faults(self, link: ChainLink, last: ChainLink | None) -> list[str]:
        """Check that it was tuned where it had to be, else by the tuning of the versions before it."""
        tuned_at, own = link.lineage.tuned_at, link.lineage.cut
        before, self._tuned = self._tuned, link if tuned_at == own else self._tuned
        if tuned_at is None:
            return []
        if tuned_at != own and not tuned_before(link.lineage):
            return ["the version names a cut of tuning that does not lie before its own cut"]
        known = last is not None and (last.number, last.incarnation) == (link.number - 1, link.incarnation)
        if last is not None and known and last.lineage.configuration != link.lineage.configuration:
            changed = "its options of training are new, so that it should have been tuned at its own cut, and was not"
            return [] if tuned_at == own else [changed]
        first = link.number if before is None else before.number
        between = any(first < number < link.number for number in self._survey.retired)
        if before is None or before.incarnation != link.incarnation or between:
            return []
        in_force = f"the tuning in force was made at the cut of {self._key(before.number)}"
        if is_due(link.rows, before.rows, configuration_of(link.lineage)):
            return (
                []
                if tuned_at == own
                else [f"{in_force}; this version should have been tuned at its own cut, and was not"]
            )
        return [] if tuned_at == before.lineage.cut else [f"{in_force}, but this version names another"]

    def _missing(self, number: int) -> str:
        absent = [one for one in range(self._newest + 1, number) if not self._survey.is_retired(one)]
        if not absent:
            return ""
        first, last = self._key(absent[0]), self._key(absent[-1])
        return f"{first} is" if first == last else f"{first} to {last} are"

    def _parent_faults(self, link: ChainLink) -> list[str]:
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

    def _link_faults(self, link: ChainLink) -> list[str]:
        """Check the hashes that it names besides its parent's, and that none is left out that its parent knew."""
        faults = []
        for ancestor in link.lineage.links:
            known = self._survey.hashes(ancestor.number)
            if known and ancestor.sha256 not in known:
                named = f"the version links to {self._key(ancestor.number)} as {ancestor.sha256}"
                faults.append(f"{named}, but that version has the SHA-256 {', '.join(sorted(known))}")
        before = self._before
        if before is None or before.number != link.number - 1:
            return faults
        found, due = ([ancestor.number for ancestor in links] for links in (link.lineage.links, links_after(before)))
        if found != due:
            faults.append(f"the version links to the versions {found}; besides its parent it must link to {due}")
        return faults

    def _shape_faults(self, base: Positions, cut: Positions) -> list[str]:
        if base.keys() != cut.keys():
            return [f"the version's base names the partitions {sorted(base)}, but its cut names {sorted(cut)}"]
        return [] if precedes(base, cut) else ["the version's cut lies before its base"]

    def _order_faults(self, before: ChainLink, link: ChainLink, incarnation: int, earlier: int) -> list[str]:
        if incarnation < earlier:
            return [
                f"the version's incarnation is {incarnation}, but {self._key(before.number)} before it has {earlier}"
            ]
        if incarnation > earlier:
            return []
        faults = []
        old, new = before.lineage, link.lineage
        if not precedes(before.cut, link.cut):
            faults.append(f"the version's cut lies behind that of {self._key(before.number)} in some partition")
        elif before.cut == link.cut and old.configuration == new.configuration:
            faults.append(f"the version has the same cut as {self._key(before.number)}")
        if any(link.base.get(partition) != at for partition, at in before.base.items()):
            faults.append(
                f"the version's base differs from that of {self._key(before.number)}, which has the same incarnation"
            )
        (was, now) = ((one.topic, one.topic_id, learned_part(one.configuration)) for one in (old, new))
        if was != now:
            faults.append(
                f"the version's input, or what decides what is learned, differs from that of "
                f"{self._key(before.number)}, which has the same incarnation"
            )
        return faults

    def _key(self, number: int) -> str:
        return version_key(self._survey.name, number)


def links_after(parent: ChainLink) -> tuple[Ancestor, ...]:
    """Return what the version after another links to."""
    lineage, before = parent.lineage, parent.number - 1
    known = [(link.number, link) for link in lineage.links]
    if lineage.parent is not None:
        known.append((before, Ancestor(before, lineage.parent)))
    return chosen(parent.number + 1, known)
