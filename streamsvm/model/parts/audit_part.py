"""The part `info_audit`: the estimate of the model's objective over the whole stream."""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.fit import Audit
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An estimate with its 95 % interval, by so many points."""

    objective: float
    low: float
    high: float
    points: int


class AuditPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="info_audit"):
    """The estimate of all machines together and, of more than two labels, of each; null where there is none."""

    whole: Estimate | None
    machines: tuple[Estimate | None, ...]


def encode(version: Version) -> AuditPart | None:
    """Return the part; None where nothing is estimated."""
    machines = tuple(_encoded(fit.audit) for fit in version.machines)
    if version.audit is None and not any(machines):
        return None
    return AuditPart(_encoded(version.audit), machines)


def decode(part: AuditPart, draft: Draft) -> None:
    """Add the estimates.

    Raises
    ------
    InvalidMessage
        If an estimate lies outside its interval, is of no points, or there are not as many as machines.
    """
    if len(part.machines) != (draft.machines if draft.scheme else 0):
        raise InvalidMessage(f"info_audit.machines has {len(part.machines)} entries for {draft.machines} machines")
    draft.audit = _decoded(part.whole)
    draft.audits = tuple(map(_decoded, part.machines))


def _encoded(audit: Audit | None) -> Estimate | None:
    return None if audit is None else Estimate(audit.objective, audit.low, audit.high, audit.points)


def _decoded(part: Estimate | None) -> Audit | None:
    if part is None:
        return None
    if not part.low <= part.objective <= part.high or part.points < 1:
        raise InvalidMessage(
            f"the audit of {part.points} points is inconsistent: objective {part.objective}, interval {part.low} to "
            f"{part.high}"
        )
    return Audit(part.objective, part.low, part.high, part.points)


PART: Final = MessagePart(AuditPart, encode, decode)
