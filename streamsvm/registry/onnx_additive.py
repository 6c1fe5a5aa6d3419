"""The part of an ONNX graph that is of one additive machine: what its curves and surfaces read.

All are sums of hats. Over the knots of a feature ramps stand side by side: one is 0 before a knot, 1 behind the next
one, and linear between them; before all of them stands one that is 1 everywhere, behind them one that is 0. The hat of
a knot is the ramp before it less the ramp behind it, so that two hats of a feature at most are not 0, as in
`streamsvm.model.additive.Hats`. A curve is a sum of hats by its values, a surface one of products of two hats.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.kernels import Float
from streamsvm.registry.onnx_graph import Graph

LARGEST: Final = float(np.finfo(np.float64).max)


def added(graph: Graph, Z: str, machine: AdditiveMachine, mark: str = "") -> str:
    """Add nodes from scaled features, shape (n, d), to what is added to the intercept, shape (n, 1).

    `mark` ends the names of the constants: each machine has its own.
    """
    places = dict[tuple[int, bytes], int]()
    feature, low, width = list[int](), list[float](), list[float]()  # of each ramp

    def first_hat(of: int, knots: Float) -> int:
        place = places.setdefault((of, knots.tobytes()), len(low))
        if place == len(low):
            feature.extend([of] * (len(knots) + 1))
            low.extend([-np.inf, *knots[:-1].tolist(), np.inf])
            width.extend([1.0, *np.diff(knots).tolist(), 1.0])
        return place

    pairs = enumerate(zip(machine.knots, machine.values, strict=True))
    curves = [(first_hat(of, knots), values) for of, (knots, values) in pairs if len(knots)]
    curves = curves or [(first_hat(0, np.array([0.0, 1.0])), np.zeros(2))]
    corners = list[NDArray[np.int64]]()  # of each cell the hats of its row and of its column, shape (2, n_cells)
    for one in machine.surfaces:
        rows = first_hat(one.first, one.rows) + np.arange(len(one.rows))
        columns = first_hat(one.second, one.columns) + np.arange(len(one.columns))
        corners.append(np.stack([np.repeat(rows, len(columns)), np.tile(columns, len(rows))]))
    weights = np.zeros((len(low) - 1, 1))  # of hats; 0 too where the ramps of one feature end and the next ones begin
    for place, values in curves:
        weights[place : place + len(values), 0] = values

    def constant(name: str, array: Any, dtype: type[Any] = np.float64) -> str:
        return graph.constant(name + mark, array, dtype)

    # A ramp of an infinite knot would not be a number at an infinite value.
    finite = graph.node("Clip", Z, constant("least", -LARGEST), constant("largest", LARGEST))
    read = graph.node("Gather", finite, constant("read_features", feature, np.int32), axis=1)
    risen = graph.node("Div", graph.node("Sub", read, constant("knots", low)), constant("widths", width))
    ramps = graph.node("Clip", risen, constant("no_part", 0.0), constant("whole_part", 1.0))
    begin, second, last, end, axis = (
        constant(name, [value], np.int64)
        for name, value in (("begin", 0), ("second", 1), ("last", -1), ("end", len(low)), ("axis", 1))
    )
    before, behind = graph.node("Slice", ramps, begin, last, axis), graph.node("Slice", ramps, second, end, axis)
    hats = graph.node("Sub", before, behind)
    total = graph.node("MatMul", hats, constant("curves", weights))
    if not corners:
        return total
    rows, columns = np.concatenate(corners, axis=1)
    products = graph.node(
        "Mul",
        graph.node("Gather", hats, constant("cell_rows", rows, np.int32), axis=1),
        graph.node("Gather", hats, constant("cell_columns", columns, np.int32), axis=1),
    )
    values = np.concatenate([one.values.ravel() for one in machine.surfaces])[:, None]
    return graph.node("Add", total, graph.node("MatMul", products, constant("surfaces", values)))
