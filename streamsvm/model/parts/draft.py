"""What the decoders of a version's parts add to its trunk, before the version is made of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from streamsvm.choices import Multiclass
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.described import Label
from streamsvm.model.fit import Audit, MachineFit
from streamsvm.model.kernels import Float
from streamsvm.model.machine import Packing
from streamsvm.model.probability import Sigmoid
from streamsvm.model.threshold import Threshold
from streamsvm.model.version import LineageTrunk, Memory


@dataclass(slots=True, kw_only=True)
class Draft:
    """A version in the making: what its trunk says, and what its parts say.

    Attributes
    ----------
    labels, names, probes : tuple of labels, tuple of str, int
        Of the trunk: the labels, the features' names, and the number of probes.
    lineage : LineageTrunk
        Of the trunk.
    scheme : "one_vs_one", "one_vs_rest" or None
        Of the part `classes`: what its machines tell apart; None of two labels, which have one machine.
    machines : int
        Number of machines.
    fits : tuple of MachineFit
        Of `classes`: how each machine was fitted.
    packing : Packing or None
        Of the part `packed`.
    additive : tuple of AdditiveMachine
        Of the part `additive`, without their intercepts; empty of other machines.
    audit : Audit or None
    audits : tuple of Audit or None
        Of each machine, of more than two labels.
    functions : tuple of Sigmoid, or None
        From the decision value of each machine.
    shares : ndarray of shape (m, n_labels), float64, or None
        The probability of each label at each probe; of two labels, of the second, shape (m, 1).
    threshold : Threshold or None
    recipe : Struct or None
    more : dict
        Further fields of the lineage.
    facts : list of Struct
        What parts of branches say, each of a class of its own.
    """

    labels: tuple[Label, ...]
    names: tuple[str, ...]
    probes: int
    lineage: LineageTrunk
    scheme: Multiclass | None = None
    machines: int = 1
    fits: tuple[MachineFit, ...] = ()
    packing: Packing | None = None
    additive: tuple[AdditiveMachine, ...] = ()
    audit: Audit | None = None
    audits: tuple[Audit | None, ...] = ()
    functions: tuple[Sigmoid, ...] | None = None
    shares: Float | None = None
    threshold: Threshold | None = None
    recipe: msgspec.Struct | None = None
    more: dict[str, Any] = field(default_factory=dict)
    facts: list[msgspec.Struct] = field(default_factory=list)

    @property
    def memory(self) -> Memory | None:
        """What the version is of, where that is not everything."""
        found: Memory | None = self.more.get("memory")
        return found
