"""The part of a model message that holds an audit: the estimate of an objective over the whole stream."""

from __future__ import annotations

import msgspec

from streamsvm.errors import InvalidMessage
from streamsvm.model.fit import Audit


class AuditPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An estimate with its 95 % interval, by so many points."""

    objective: float
    low: float
    high: float
    points: int


def encode_audit(audit: Audit | None) -> AuditPart | None:
    """Return an audit as a part of a message; null stands for none."""
    return None if audit is None else AuditPart(audit.objective, audit.low, audit.high, audit.points)


def decode_audit(part: AuditPart | None) -> Audit | None:
    """Return the audit of a part.

    Raises
    ------
    InvalidMessage
        If the estimate lies outside its interval, or is of no points.
    """
    if part is None:
        return None
    if not part.low <= part.objective <= part.high or part.points < 1:
        raise InvalidMessage(
            f"the audit of {part.points} points is inconsistent: objective {part.objective}, interval {part.low} to "
            f"{part.high}"
        )
    return Audit(part.objective, part.low, part.high, part.points)
