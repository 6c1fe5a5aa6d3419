"""The part `classes`: of more than two labels, what each machine separates and how each was fitted.

Invariant: there are as many fits as the labels have machines under the scheme, in their order.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.choices import Multiclass
from streamsvm.errors import InvalidMessage
from streamsvm.model.classes import ClassModel, machines_of
from streamsvm.model.fit import MachineFit
from streamsvm.model.parts.draft import Draft
from streamsvm.model.parts.part import MessagePart
from streamsvm.model.version import Version


class FitOfMachine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How one machine was fitted."""

    support_vectors: int
    objective: float
    dual_objective: float | None
    kkt_gap: float | None
    iterations: int
    converged: bool


class ClassesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="part", tag="classes"):
    """The scheme, and the fit of each machine."""

    scheme: Multiclass
    machines: tuple[FitOfMachine, ...]


def encode(version: Version) -> ClassesPart | None:
    """Return the part; None of two labels."""
    if not isinstance(version.model, ClassModel):
        return None
    fits = (
        FitOfMachine(**{name: getattr(fit, name) for name in FitOfMachine.__struct_fields__})
        for fit in version.machines
    )
    return ClassesPart(version.model.scheme, tuple(fits))


def decode(part: ClassesPart, draft: Draft) -> None:
    """Add the scheme and the fits.

    Raises
    ------
    InvalidMessage
        If there are two labels, or another number of fits than of machines.
    """
    count = len(draft.labels)
    if count < 3:
        raise InvalidMessage(f"the part 'classes' is for more than two labels, but there are {count}")
    draft.scheme, draft.machines = part.scheme, machines_of(count, part.scheme)
    if len(part.machines) != draft.machines:
        raise InvalidMessage(
            f"classes.machines has {len(part.machines)} entries, but {count} labels have {draft.machines} machines"
        )
    draft.fits = tuple(MachineFit(**msgspec.structs.asdict(fit)) for fit in part.machines)


PART: Final = MessagePart(ClassesPart, encode, decode)
