"""The order of a check: which records to decode, what to compute again, and the finding about each version.

`consumers.verify.verify` reads the models topic twice. The first time it only notes where everything is
(`streamsvm.verification.version_survey`). The second time it gives each record of a version to `Auditor.open`, which
checks what needs no recomputation: hash, key, and the version's place among its neighbours
(`streamsvm.verification.chain`). If the version is wanted, the caller makes it again from the input
(`streamsvm.verification.recomputation`), compares the bytes, and gives the result to `Auditor.close`.

Invariant: nothing here does I/O, and nothing trusts a version's own word where the topic shows something else: a
predecessor's hash, for example, is that of the record that stands there (`placed`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from streamsvm.build import build
from streamsvm.certificate import Certificate
from streamsvm.errors import InvalidMessage, UnknownFormat
from streamsvm.model import message as model_codec
from streamsvm.model.ancestry import Ancestor
from streamsvm.model.version import Lineage, Version, version_key, version_number
from streamsvm.places import whole_number
from streamsvm.verification.chain import ChainCheck, ChainLink
from streamsvm.verification.report import Outcome, RecordFinding
from streamsvm.verification.version_survey import INCARNATION_HEADER, VersionSurvey


class Auditor:
    """Judges the records of versions, one after the other in log order; the caller reads the topics.

    Parameters
    ----------
    survey : VersionSurvey
    only : int or None
        The one number to recompute; None: all.
    """

    def __init__(self, survey: VersionSurvey, only: int | None = None) -> None:
        self._survey = survey
        self._only = only
        self._chain = ChainCheck(survey)
        self._rows: list[RecordFinding] = []

    @property
    def rows(self) -> tuple[RecordFinding, ...]:
        """The findings so far, and those about versions of which only the tombstone is left."""
        gone = [
            RecordFinding(number, offset, Outcome.RETIRED, note="only its tombstone is left")
            for number, offset in sorted(self._survey.retired.items())
            if number not in self._survey.found
        ]
        nothing = sorted(self._survey.gone - self._survey.retired.keys() - self._survey.found.keys())
        gone += [RecordFinding(number, -1, Outcome.RETIRED, note="only the audit trail knows it") for number in nothing]
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
        faults += self._chain.faults(
            ChainLink(
                number=number,
                offset=offset,
                incarnation=incarnation_in(headers),
                lineage=version.lineage,
                rows=version.stream.rows,
            )
        )
        if version.passed_over:
            unknown = ", ".join(version.passed_over)
            return number, None, tuple(faults), f"the message has parts that this build does not know: {unknown}"
        return number, version, tuple(faults), ""

    def wants(self, number: int) -> bool:
        """Return whether a version is to be recomputed."""
        return (self._only is None or number == self._only) and number not in self._survey.retired

    def placed(self, version: Version) -> Lineage:
        """Return a version's lineage with the hashes of its predecessors' records; its own where those are gone."""
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
        certificate: Certificate | None = None,
        left_out: bool = False,
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
        certificate : Certificate, optional
        left_out : bool
            Whether there was none because rows of it must be left out since.
        """
        outcome = Outcome.LEFT_OUT if left_out else self._outcome(number, parts)
        if outcome is Outcome.RETIRED:
            note = f"by the tombstone at offset {self._survey.retired[number]}"
        if parts and version is not None and version.lineage.build != build():
            outcome, note = Outcome.FOREIGN, "; ".join([*_foreign(version.lineage.build), *parts])
        elif parts:
            faults = (*faults, *parts)
        self._rows.append(
            RecordFinding(number, offset, Outcome.DIFFERS if faults else outcome, faults, note, certificate)
        )

    def _outcome(self, number: int, parts: tuple[str, ...] | None) -> Outcome:
        if number in self._survey.retired:
            return Outcome.RETIRED
        if not self.wants(number):
            return Outcome.PASSED
        return Outcome.UNAVAILABLE if parts is None else Outcome.IDENTICAL

    def notes(self) -> list[str]:
        """Return which numbers the topic does not hold at its beginning."""
        first = min((*self._survey.found, *self._survey.retired, *self._survey.gone), default=1)
        if first == 1:
            return []
        oldest = version_key(self._survey.name, first)
        return [f"the models topic begins at {oldest}: the {first - 1} versions before it cannot be checked"]


def incarnation_in(headers: Mapping[str, bytes]) -> int | None:
    """Return the incarnation that a version's headers name, None if there is none that can be read."""
    return whole_number(headers.get(INCARNATION_HEADER, b""))


def _foreign(theirs: Mapping[str, str]) -> list[str]:
    own = build()
    return [
        f"{part} was {theirs.get(part, 'unknown')}, here it is {own.get(part, 'unknown')}"
        for part in sorted(own.keys() | theirs.keys())
        if own.get(part) != theirs.get(part)
    ]
