"""Accounts of all rows: nothing that is learned depends on whether somebody keeps them."""

from __future__ import annotations

import pytest

from streamsvm.config import CoresetConfig, ModelConfig, PointsConfig
from streamsvm.coreset.accounting import Accounting
from streamsvm.learning import accounts
from streamsvm.learning.cutting import Cut
from streamsvm.learning.learner import Learner
from streamsvm.learning.recipe import make
from streamsvm.learning.tasks import task_of
from streamsvm.points import Position
from tests.sizes import sized
from tests.streams import DIMENSION, gaussian, rows_of

CONFIG = ModelConfig(
    points=PointsConfig(dimension=DIMENSION),
    coreset=sized(leaf_rows=32, bucket_points=24, train_points=200, max_leverage=0.1),
)


def cut() -> Cut:
    learner = Learner(CONFIG, {0: Position(0)}, every_leaves=1 << 30)
    learner.learn(rows_of(gaussian(500)))
    return learner.cut()


def test_without_accounts_the_same_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is plugged in a version has no bounds, and is otherwise what it is with them."""
    before = make(cut(), CONFIG)
    monkeypatch.setattr(accounts, "accounting", lambda: None)
    plain = cut()
    assert plain.ledger is None
    after = make(plain, CONFIG)
    assert after.certified is None
    assert after.training_set_sha256 == before.training_set_sha256
    assert repr(after.model) == repr(before.model)


def test_only_one_branch_keeps_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would each want to be what a bucket carries along."""
    monkeypatch.setattr(accounts, "plugged", lambda socket, kind: ("one", "other"))
    with pytest.raises(ValueError, match="2 branches keep accounts"):
        accounts.accounting.__wrapped__()


def test_no_accounts_of_several_labels() -> None:
    """And none where the option says so; the type at the socket is what the trunk knows."""
    several = CONFIG.model_copy(update={"points": PointsConfig(dimension=DIMENSION, labels=(0, 1, 2))})
    assert accounts.accounting_of(several, task_of(several)) is None
    off = CONFIG.model_copy(update={"coreset": CoresetConfig(totals=False)})
    assert accounts.accounting_of(off, task_of(off)) is None
    found = accounts.accounting()
    assert found is None or isinstance(found, Accounting)
