"""What a stranger needs to see that a version's bounds follow: rows and totals, the machine, and multipliers.

That these are the rows of the log only the log shows: `verify` makes a proof from it. What follows from them is checked
by `deploy/proof/check_proof.py` and `check_proof.mjs`, which know nothing of this package. Notation is that of
`streamsvm.learning.proving` and `streamsvm.coreset.totals`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streamsvm.model.certified import Certified

FORMAT: Final = 1


class ProofEpoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Strata of rows that are held no more, over the features and the machine of then.

    Attributes
    ----------
    rows : int
    centre, inverse_scale : tuple of d floats
        Features of then are (x - centre) * inverse_scale.
    machine : tuple of d + 1 floats
        Coefficients over these, then the intercept.
    factor : tuple of tuple of float
        Rows of the upper triangular P, from the diagonal on; of one number, that multiple of the unit matrix.
    label : tuple of int
        -1 or +1, of each stratum.
    active : tuple of bool
        Whether its rows were on the side of the kink where the hinge is not 0.
    weight, length, nearest : tuple of float
        Of each stratum; `nearest` is 0 where the length is.
    sums : tuple of tuple of float
        Of each stratum, weighted sums of the features of then.
    error : tuple of d floats
        What rounding may have moved the sums of all strata by, together.
    """

    rows: int
    centre: tuple[float, ...]
    inverse_scale: tuple[float, ...]
    machine: tuple[float, ...]
    factor: tuple[tuple[float, ...], ...]
    label: tuple[int, ...]
    active: tuple[bool, ...]
    weight: tuple[float, ...]
    length: tuple[float, ...]
    nearest: tuple[float, ...]
    sums: tuple[tuple[float, ...], ...]
    error: tuple[float, ...]


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Both bounds of a version, and all that they follow from. It carries rows of the stream.

    Attributes
    ----------
    format : int
    version : str
        Its key.
    sha256 : str
        Of the version's message.
    claim : Certified
    C : float
    class_weight : tuple of (float, float)
        Of the labels -1 and +1.
    mean, scale : tuple of d floats
        The version's features are (x - mean) / scale.
    coefficients : tuple of d floats
    intercept : float
    X : tuple of tuple of float
        Held rows as they came.
    y : tuple of int
        Their labels, -1 or +1.
    weight : tuple of float
        Those that they came with.
    epochs : tuple of ProofEpoch
    unit : float
        Of the multipliers.
    multipliers : tuple of int
        Of the held rows, then of the strata, epoch after epoch: dual variables in units. Empty where nothing is proven
        from below.
    """

    format: int = FORMAT
    version: str
    sha256: str
    claim: Certified
    C: float
    class_weight: tuple[float, float]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float
    X: tuple[tuple[float, ...], ...]
    y: tuple[int, ...]
    weight: tuple[float, ...]
    epochs: tuple[ProofEpoch, ...]
    unit: float
    multipliers: tuple[int, ...]


def encode(proof: Proof) -> bytes:
    """Return the JSON of a proof: the same proof gives the same bytes."""
    return msgspec.json.encode(proof, order="deterministic")


def decode(data: bytes) -> Proof:
    """Return a proof of its JSON; raises `msgspec.DecodeError` where it lacks anything."""
    return msgspec.json.decode(data, type=Proof)
