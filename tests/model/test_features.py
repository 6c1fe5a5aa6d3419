"""What may be scored: rows of finite numbers, by position or by name; anything else is refused in plain words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamsvm.model.features import InvalidFeatures
from streamsvm.model.kernels import RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Model, Scaler
from streamsvm.model.probability import Sigmoid

NAMES = ("mean", "width", "skew")
ROW = [1.0, -2.0, 4.0]
SCALER = Scaler(np.array([0.5, 0.0, 1.0]), np.array([1.0, 2.0, 0.5]))
LINEAR = Model(SCALER, LinearMachine(np.array([1.0, -3.0, 0.25]), 0.5), Sigmoid(-1.0, 0.0), NAMES)
RBF = Model(SCALER, KernelMachine(RbfKernel(0.5), np.eye(3), np.array([1.0, -1.0, 0.5]), 0.1), None, NAMES)
NAMELESS = Model(SCALER, LINEAR.machine)
MODELS = [LINEAR, RBF, NAMELESS]
EXPECTED = LINEAR.decision_function(np.array([ROW]))[0]


class Frame:
    """What pandas offers, as far as it is used: columns by name, and rows by `__array__`."""

    def __init__(self, columns: dict[Any, list[Any]]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: Any) -> Any:
        return np.array(self._columns[name])

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(list(self._columns.values()), dtype=dtype).T


def columns(*names: str, rows: int = 1) -> dict[Any, list[Any]]:
    return {name: [ROW[NAMES.index(name)]] * rows for name in names}


def polars(**changes: Any) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(columns(*NAMES) | changes)


def pandas(**changes: Any) -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns(*NAMES) | changes)


GOOD: dict[str, Callable[[], Any]] = {
    "a list of lists": lambda: [ROW],
    "a tuple of tuples": lambda: (tuple(ROW),),
    "float32": lambda: np.array([ROW], np.float32),
    "integers": lambda: np.array([[1, -2, 4]]),
    "unsigned and strided": lambda: np.array([ROW, ROW], order="F")[::2],
    "objects that are numbers": lambda: np.array([[1, Decimal(-2), 4.0]], dtype=object),
    "a memoryview": lambda: memoryview(np.array([ROW])),
    "a mapping of numbers": lambda: {"width": -2, "skew": 4, "mean": 1},
    "a mapping of columns": lambda: {"width": [-2], "skew": np.array([4]), "mean": (1,)},
    "a list of mappings": lambda: [{"width": -2.0, "skew": 4.0, "mean": 1.0}],
    "a data frame": lambda: Frame(columns(*NAMES)),
    "a data frame in another order": lambda: Frame(columns("skew", "mean", "width")),
    "a table of pyarrow": lambda: pa.table({"skew": [4.0], "width": [-2], "mean": [1.0]}),
    "a record array": lambda: np.array([(4.0, 1.0, -2.0)], dtype=[("skew", "f8"), ("mean", "f4"), ("width", "f8")]),
    "a data frame of polars": polars,
    "a data frame of pandas": pandas,
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD.keys())
def test_what_can_be_read_is_scored_alike(given: Callable[[], Any]) -> None:
    """By position or by name, of whatever type and order."""
    found = LINEAR.decision_function(given())
    assert found.tolist() == [EXPECTED]
    assert LINEAR.predict_sign(given()).tolist() == [1]
    assert LINEAR.predict_proba(given()).shape == (1, 2)


def test_columns_without_names_are_read_by_position() -> None:
    """As pandas has them where none were given."""
    for model in MODELS:
        frame = Frame({0: [1.0, 1.0], 1: [-2.0, -2.0], 2: [4.0, 4.0]})
        assert model.decision_function(frame).tolist() == model.decision_function([ROW, ROW]).tolist()


@pytest.mark.parametrize("given", [[], np.empty((0, 3)), np.empty((0, 3), np.float32), {name: [] for name in NAMES}])
def test_of_no_rows_there_are_no_scores(given: Any) -> None:
    """An empty batch is one."""
    assert LINEAR.decision_function(given).shape == (0,)
    assert RBF.decision_function(given).shape == (0,)
    assert LINEAR.predict_proba(given).shape == (0, 2)


NAN = [[1.0, 2.0, 3.0], [1.0, math.nan, 3.0]]
BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "one column": (lambda: [[5.0]], r"3 features expected, 1 given: X has the shape \(1, 1\)"),
    "a column": (lambda: np.ones((3, 1)), "3 features expected, 1 given"),
    "one too many": (lambda: np.ones((1, 4)), "3 features expected, 4 given"),
    "no columns": (lambda: np.ones((2, 0)), "3 features expected, 0 given"),
    "a number": (lambda: 5.0, r"X has the shape \(\).*For a single point x pass \[x\]"),
    "a point": (lambda: ROW, r"X has the shape \(3,\).*For a single point x pass \[x\]"),
    "three axes": (lambda: np.ones((1, 3, 1)), r"X has the shape \(1, 3, 1\)"),
    "rows of two lengths": (lambda: [[1, 2, 3], [1, 2]], "different numbers of features: 2, 3"),
    "NaN": (lambda: NAN, "row 1: 'width' is nan; a feature must be a finite number"),
    "NaN in float32": (lambda: np.array(NAN, np.float32), "row 1: 'width' is nan"),
    "infinity": (lambda: [[1, 2, -math.inf]], "row 0: 'skew' is -inf"),
    "None": (lambda: [[1, None, 2]], "row 0: 'width' is None, not a number"),
    "text": (lambda: [["1", "2", "3"]], "row 0: 'mean' is '1', not a number"),
    "text among numbers": (lambda: np.array([[1, 2, "3"]], dtype=object), "row 0: 'skew' is '3', not a number"),
    "text in a list": (lambda: [[1, 2, 3], [1, "a", 3]], "row 1: 'width' is 'a', not a number"),
    "bytes": (lambda: np.array([[b"1", b"2", b"3"]]), "is b'1', not a number"),
    "complex": (lambda: np.array([ROW], complex), "not a number"),
    "times": (lambda: np.array([["2026-01-01"] * 3], "datetime64[D]"), "not a number"),
    "a masked array": (lambda: np.ma.masked_equal(np.array([ROW]), 4.0), "masked entries"),
    "an object": (lambda: object(), "X is a object"),
    "an iterator": (lambda: iter([ROW]), "X is a list_iterator"),
    "a set": (lambda: {1.0, 2.0}, "X is a set"),
    "a name missing": (
        lambda: {"mean": 1, "skew": 2},
        "the names do not match the version's 3 features: missing 'width'",
    ),
    "a name too many": (lambda: dict.fromkeys((*NAMES, "id"), 1.0), "unknown 'id'.*remove all others"),
    "a misspelt name": (lambda: {"mean": 1, "widht": 1, "skew": 2}, "missing 'width'; unknown 'widht'"),
    "NaN by name": (lambda: {"mean": 1, "width": math.nan, "skew": 2}, "row 0: 'width' is nan"),
    "text by name": (lambda: {"mean": 1, "width": "2", "skew": 2}, "row 0: 'width' is '2', not a number"),
    "None by name": (lambda: {"mean": 1, "width": None, "skew": 2}, "row 0: 'width' is None"),
    "columns of two lengths": (lambda: {"mean": [1, 2], "width": [1], "skew": [1, 2]}, "'mean' 2, 'width' 1, 'skew' 2"),
    "a number beside columns": (lambda: {"mean": [1], "width": 1, "skew": [1]}, r"'width' has the shape \(\)"),
    "a frame that lacks one": (lambda: Frame(columns("mean", "skew")), "the columns do not match .* missing 'width'"),
    "a frame with a label": (lambda: Frame(columns(*NAMES) | {"y": [1]}), "unknown 'y'"),
    "a frame with NaN": (lambda: Frame(columns(*NAMES) | {"skew": [math.nan]}), "row 0: 'skew' is nan"),
    "a frame with text": (lambda: Frame(columns(*NAMES) | {"skew": ["4"]}), "row 0: 'skew' is '4'"),
    "a null of pyarrow": (
        lambda: pa.table({"mean": [1], "width": pa.array([None], pa.int64()), "skew": [1]}),
        "'width' is n",
    ),
    "a null of polars": (lambda: polars(skew=[None]), "'skew' is "),
    "a null of pandas": (lambda: pandas(skew=[None]), "'skew' is "),
    "another list of mappings": (lambda: [dict(zip(NAMES, ROW, strict=True)), {"mean": 1}], "missing 'width', 'skew'"),
}


@pytest.mark.parametrize(("given", "words"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("model", [LINEAR, RBF], ids=["linear", "rbf"])
def test_what_cannot_be_scored_is_refused(given: Callable[[], Any], words: str, model: Model) -> None:
    """As a ValueError of ours, by every method; nothing is broadcast, parsed or passed over."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in (model.decision_function, model.predict_sign):
            with pytest.raises(ValueError, match=words) as refusal:
                method(given())
            assert isinstance(refusal.value, InvalidFeatures)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("rows", [1, 2, 50])
def test_what_the_model_does_not_look_at_must_be_finite_too(order: Any, entry: float, rows: int) -> None:
    """A coefficient of 0 times NaN is NaN, in whatever order the linear algebra goes through it."""
    ignoring = Model(SCALER, LinearMachine(np.array([1.0, 0.0, 0.25]), 0.5))
    X = np.array([ROW] * rows, order=order)
    X[rows // 2, 1] = entry
    for model in (ignoring, RBF):
        with pytest.raises(ValueError, match=f"row {rows // 2}: "):
            model.decision_function(X)


@pytest.mark.parametrize("given", [{"mean": 1}, Frame(columns(*NAMES)), [{"mean": 1}]])
def test_a_version_without_names_takes_none(given: Any) -> None:
    """A name that nobody checks is an order that nobody checks."""
    with pytest.raises(ValueError, match="has no feature names"):
        NAMELESS.decision_function(given)
    with pytest.raises(ValueError, match=r"x\[1\] is nan"):
        NAMELESS.decision_function([[0.0, math.nan, 0.0]])


def test_two_features_of_one_name_are_not_told_apart() -> None:
    """An array still says which is which."""
    alike = Model(SCALER, LINEAR.machine, None, ("a", "a", "b"))
    with pytest.raises(ValueError, match="have the same name"):
        alike.decision_function({"a": 1.0, "b": 2.0})
    assert alike.decision_function([ROW]).tolist() == [EXPECTED]


def test_features_as_large_as_numbers_go() -> None:
    """Finite features are scored even where their squares are not finite; where the score is no number, no label is."""
    large = [[1e200, 0.0, 0.0], [-1e200, 0.0, 0.0]]
    assert LINEAR.predict_sign(large).tolist() == [1, -1]
    tiny = Model(Scaler(np.zeros(2), np.full(2, 1e-300)), LinearMachine(np.array([1.0, -1.0]), 0.0))
    with np.errstate(all="ignore"):
        assert math.isnan(tiny.decision_function([[1e300, 1e300]])[0])
        with pytest.raises(ValueError, match="row 0 has no score, because a feature is too large"):
            tiny.predict_sign([[1e300, 1e300]])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(over="ignore", invalid="ignore"):
        yield
