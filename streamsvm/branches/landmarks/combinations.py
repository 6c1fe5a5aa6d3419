"""What landmarks do not go with: rows of `streamsvm.supports`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streamsvm.supports import MORE_LABELS, REMOVE, SMALL, Combinations, Kind, Row, Term, given, other


def _rows() -> Iterator[Row]:
    landmarks = given("coreset.landmarks")
    without: tuple[tuple[Term, str, Kind], ...] = (
        (MORE_LABELS, "one pilot of two labels is written down over landmarks", "not built"),
        (other("svm.kernel", "rbf"), "landmarks stand for the support vectors of an RBF pilot", "nature"),
        (other("coreset.reducer", "calibrated"), "only `calibrated` has a pilot", "nature"),
        (other("coreset.structure", "chain"), "landmarks screen the leaves of a chain only", "not built"),
        (other("coreset.memory", "all"), "landmarks screen where nothing is forgotten", "not built"),
    )
    for term, why, kind in without:
        yield Row(axis=SMALL, feature=landmarks, without=term, why=why, remedy=REMOVE, kind=kind)


ROWS: Final = Combinations(before=SMALL, rows=tuple(_rows()))
