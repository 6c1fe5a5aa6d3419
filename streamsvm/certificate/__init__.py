"""How far a linear machine can be from the best one over all rows: bounds that are proven, not estimated.

One look at every row is enough. Its sum of hinge losses is the machine's objective, an upper bound of the optimum. For
the lower bound the rows nearest the margin are kept, and all others are added up in strata (label, side of the margin,
distance from it). The hinge loss of a stratum's mean, times its weight, is at most the sum of its rows' losses, for
every machine (Jensen), so that any feasible dual solution over kept rows and means bounds the optimum over all rows
from below. Both hold for the real arithmetic of the rows as float64 holds them: every rounding is bounded and paid for.

Invariant: what a survey comes to is a pure function of the rows' order, never of how they were cut into batches.
"""

from streamsvm.certificate.certifying import KEEP, Certificate, Certifier
from streamsvm.certificate.gap import percent

__all__ = [
    "KEEP",
    "Certificate",
    "Certifier",
    "percent",
]
