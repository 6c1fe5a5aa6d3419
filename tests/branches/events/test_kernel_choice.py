"""Which kernel is proposed for events, and by which figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamsvm import CoresetSVC
from streamsvm.branches.events import events_in, recipe_from
from streamsvm.branches.events.csv_columns import CsvColumns
from streamsvm.branches.events.event_files import untyped_in
from streamsvm.branches.events.kernel_choice import chosen_kernel

CHANCE = np.random.default_rng(3)
X = CHANCE.normal(size=(3_000, 3))
NOISE = 0.5 * CHANCE.normal(size=len(X))
FEATURES = dict.fromkeys("abc", "number")
TWO = recipe_from(FEATURES, {"label": {"field": "y", "negative": [False], "positive": [True]}})
THREE = recipe_from(FEATURES, {"label": {"field": "y", "labels": [0, 1, 2]}})


def events(labels: Any) -> list[dict[str, Any]]:
    return [{**dict(zip("abc", row, strict=True)), "y": y} for row, y in zip(X.tolist(), labels.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("name", "scores"),
    [("additive", X[:, 0] ** 2 - 1), ("linear", X[:, 0] - X[:, 1]), ("linear", (X[:, 0] - X[:, 1]) / 4)],
    ids=["curve", "plane", "noisy plane, of which an additive machine takes a smaller C"],
)
def test_the_better_kernel_is_proposed(name: str, scores: Any) -> None:
    """By the area under the curve of the last fifth, beside the error that DeLong's matrix of pairs gives."""
    y = scores + NOISE > 0
    found = chosen_kernel([{"y": None}, *events(y)], TWO, "float64", "none")
    assert found == chosen_kernel(events(y), TWO, "float64", "none")
    kernel, figures, why = found
    assert kernel == name
    assert figures.startswith("Learned from 2,400 events, on the 600 after them: linear AUC ")
    in_order = []
    for one in ("linear", "additive"):
        machine: Any = CoresetSVC(kernel=one).fit(X[:2_400], y[:2_400])
        decision = machine.decision_function(X[2_400:])
        in_order.append(decision[y[2_400:], None] > decision[~y[2_400:]])
        said = f"{one} AUC {in_order[-1].mean():.4f} and accuracy {np.mean((decision > 0) == y[2_400:]):.4f}"
        assert said in figures
    pairs = in_order[1] * 1.0 - in_order[0]
    error = np.sqrt(sum(pairs.mean(axis=axis).var(ddof=1) / pairs.shape[1 - axis] for axis in (0, 1)))
    sign = "" if name == "additive" else "not "
    assert why == f"AUC of additive minus linear: {pairs.mean():+.4f}, {sign}above its standard error {error:.4f}"


def test_of_more_labels_balanced_accuracy_decides() -> None:
    kernel, figures, why = chosen_kernel(
        events(np.digitize(X[:, 0] ** 2 + NOISE, [0.3, 1.5])), THREE, "float32", "none"
    )
    assert kernel == "additive"
    assert " linear balanced accuracy 0.3" in figures
    assert why.startswith("balanced accuracy of additive minus linear: +0.")


def test_too_few_events_of_a_label_propose_nothing() -> None:
    """Held out, or learned: labels in their order leave the last events without one."""
    y = X[:, 0] > 0
    few = "fewer than 20"
    assert chosen_kernel(events(np.sort(y)), TWO, "float64", "none") == (
        (None, "", f"of the last 600 events 0 are False, {few}")
    )
    late = y & (np.arange(len(y)) >= 2_390)
    why = chosen_kernel(events(late), TWO, "float64", "balanced")[2]
    assert why == f"of the 2,400 before the last 600 events {int(late[:2_400].sum())} are True, {few}"


def test_cells_are_read_as_evaluate_reads_them(tmp_path: Any) -> None:
    """Codes with zeros in front, numbers with strays, labels that look like numbers."""
    path = tmp_path / "a.csv"
    path.write_text("a,b,c,y\n1.5,007,2024-01-01,1\nerror,7,x,0\n,NA,,01\n")
    features: dict[str, dict[str, Any]] = {"a": {"as": "number", "missing": {"constant": 0.0}}}
    features["b"] = {"as": "category", "values": ["007", "7"], "missing": "indicator"}
    features["c"] = {"as": "time", "missing": "indicator"}
    recipe = recipe_from(features, {"label": {"field": "y", "negative": ["0"], "positive": ["1"]}})
    assert CsvColumns.of(recipe).events(untyped_in(path, "csv")) == list(events_in(path, "csv", recipe))
