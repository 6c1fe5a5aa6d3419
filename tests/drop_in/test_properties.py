"""The table of properties holds, and cases find what is broken on purpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from streamsvm.drop_in import base, linear
from streamsvm.drop_in.base import DropIn
from streamsvm.drop_in.recheck import Recheck
from streamsvm.learning import training
from streamsvm.model.machine import Scaler
from tests.drop_in import properties

pytestmark = pytest.mark.filterwarnings("ignore::streamsvm.estimators.stream.CoresetWarning")
CASES = 60
"""In which a planted defect is found."""


@pytest.mark.parametrize("name", properties.PROPERTIES)
def test_every_cell_is_as_it_should_be(name: str) -> None:
    """Two cases of each machine."""
    cells = [properties.looked_at(name, machine, 2) for machine in properties.MACHINES]
    assert not [cell for cell in cells if not cell.expected]


@pytest.mark.parametrize("cell", properties.REASONS)
def test_what_does_not_hold_is_seen_not_to_hold(cell: tuple[str, str]) -> None:
    """A reason without a case would hide a property that holds."""
    assert properties.looked_at(*cell, CASES).holds is False


def _trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recheck, "within", lambda *_: True)


def _decide_uncentred(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = DropIn._publish

    def forgetful(self: Any, centres: Any) -> None:
        publish(self, centres)
        self._centred = None

    monkeypatch.setattr(DropIn, "_publish", forgetful)


def _sum_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def summed(X: Any) -> Any:
        if sparse.issparse(X):
            X = X.tocsr()
            X.sum_duplicates()
        return X

    monkeypatch.setattr(base, "canonical_rows", summed)
    monkeypatch.setattr(linear, "canonical_rows", summed)


def _leave_sparse_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "canonical_rows", lambda X: X)


def _keep_the_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "scaler_of", lambda moments, _: Scaler.identity(len(moments.mean)))


def _keep_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsvm.drop_in.fitted.forget", lambda _: None)


def _count_weights_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = DropIn._checked_weight
    monkeypatch.setattr(DropIn, "_checked_weight", lambda *given: np.sign(checked(*given)))


@pytest.mark.parametrize(
    ("plant", "name", "machine"),
    [
        (_trust, "ended", "STDASVC poly"),
        (_trust, "ended", "STDASVC rbf"),
        (_decide_uncentred, "translation", "STDASVC linear"),
        (_decide_uncentred, "translation", "STDASVR linear"),
        (_sum_in_place, "dense and sparse", "STDASVC rbf"),
        (_sum_in_place, "dense and sparse", "STDALinearSVR"),
        (_leave_sparse_as_it_is, "dense and sparse", "STDASVR rbf"),
        (_keep_the_origin, "translation", "CoresetSVC sampled"),
        (_keep_what_failed, "failed fit", "STDASVC poly"),
        (_count_weights_once, "weights for copies", "STDAOneClassSVM rbf"),
    ],
)
def test_planted_defects_are_found(monkeypatch: pytest.MonkeyPatch, plant: Any, name: str, machine: str) -> None:
    """Each by the property that it breaks."""
    plant(monkeypatch)
    cell = properties.looked_at(name, machine, CASES)
    assert not cell.expected, cell.says
