"""A version as an ONNX model: what a runtime in any language needs for scores, and nothing of where it came from.

The graph is of plain operators in float64. Input `X`, shape (n, d): raw features in the order of the points, the scaler
is inside. Outputs: `decision_function`, shape (n,); `label`, shape (n,), the labels as they stand in the records, the
second one above the version's threshold; `probability`, shape (n,), of the second label, if the version has one. Of
more than two labels decision values and probabilities have the shape (n, n_labels), in the labels' order. An RBF graph
makes an array of n rows and as many columns as there are support vectors, an additive one of as many as a machine has
knots: score in batches.

The JSON stays the record of truth: the graph's metadata name the version and the SHA-256 of its JSON value, whose
lineage, hash and probes say whether to trust it.

Invariant: decision values are within the tolerance of `streamsvm.model.probes` of those that JSON gives. The same
version gives the same bytes with the same `onnx` library.

The package `onnx` is an extra; nothing is imported from it before it is needed.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streamsvm.errors import ConfigurationError
from streamsvm.model.additive import AdditiveMachine
from streamsvm.model.classes import AnyModel, ClassModel
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.machine import KernelMachine, LinearMachine, Machine, Scaler
from streamsvm.model.message import encode, sha256
from streamsvm.model.packing import Grid
from streamsvm.model.probability import Sigmoid
from streamsvm.model.version import Version
from streamsvm.registry import onnx_additive, onnx_classes
from streamsvm.registry.onnx_graph import Graph

OPSET: Final = 17
IR_VERSION: Final = 8
"""All of 2022 or earlier, so that runtimes older than this package load the graph."""


def export(version: Version, value_sha256: str | None = None) -> bytes:
    """Return a version as an ONNX model.

    Parameters
    ----------
    version : Version
    value_sha256 : str, optional
        SHA-256 of the version's record, for the metadata; default: of the value that `encode` gives, which is another
        one if the record is of an older format.

    Raises
    ------
    ConfigurationError
        If the extra is not installed.
    """
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ConfigurationError(
            f"the package onnx cannot be imported ({error})",
            "Install the extra: pip install '.[onnx]' in the folder of the sources.",
        ) from None
    graph = Graph()
    model, labels = version.model, np.array(version.labels, _label_dtype(version))
    outputs = {"decision_function": TensorProto.DOUBLE, "label": helper.np_dtype_to_tensor_dtype(labels.dtype)}
    if isinstance(model, ClassModel):
        _decide_classes(graph, model, labels)
        calibrated = model.probabilities is not None
    else:
        _decide(graph, "X", model.scaler, model.machine, "decision_function")
        _choose(graph, "decision_function", model.border, labels, "label")
        calibrated = model.probability is not None
        if model.probability is not None:
            _calibrate(graph, "decision_function", model.probability, "probability")
    if calibrated:
        outputs["probability"] = TensorProto.DOUBLE
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            version.name,
            [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", model.dimension])],
            [helper.make_tensor_value_info(name, kind, _shape(name, model)) for name, kind in outputs.items()],
            graph.constants,
        ),
        producer_name="streamsvm",
        producer_version=version.lineage.build.get("streamsvm", ""),
        domain="io.streamsvm",
        model_version=version.number,
        doc_string=f"{version.key} of streamsvm",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(made, _metadata(version, value_sha256 or sha256(encode(version))))
    content: bytes = made.SerializeToString(deterministic=True)
    return content


def _metadata(version: Version, value_sha256: str) -> dict[str, str]:
    named = {
        "streamsvm.name": version.name,
        "streamsvm.version": str(version.number),
        "streamsvm.sha256": value_sha256,
    }
    if version.feature_names:
        named["streamsvm.features"] = json.dumps(version.feature_names, ensure_ascii=False)
    return named


def _label_dtype(version: Version) -> type[Any]:
    kind = type(version.labels[0])
    return {bool: np.bool_, int: np.int64}.get(kind, np.object_)


def _shape(output: str, model: AnyModel) -> list[str | int]:
    if isinstance(model, ClassModel) and output in ("decision_function", "probability"):
        return ["n", model.classes]
    return ["n"]


def _decide_classes(graph: Graph, model: ClassModel, labels: NDArray[Any]) -> None:
    graph.constant("columns", [1], np.int64)
    Z = _scale(graph, "X", model.scaler)
    values = onnx_classes.decide(graph, Z, model, _kernel, "decision_function")
    onnx_classes.choose(graph, "decision_function", labels, "label")
    if model.probabilities is not None:
        onnx_classes.calibrate(graph, values, model, "probability")


def _scale(graph: Graph, X: str, scaler: Scaler) -> str:
    shifted = graph.node("Sub", X, graph.constant("mean", scaler.mean))
    return graph.node("Div", shifted, graph.constant("scale", scaler.scale))


def _decide(graph: Graph, X: str, scaler: Scaler, machine: Machine, output: str) -> None:
    """Scale, weigh and sum; of a product and a sum, not a matrix product, where that could follow the scaling.

    onnxruntime fuses a matrix product with a division by a single number, of one feature's scale for example, into an
    operator that keeps the number as float32.
    """
    graph.constant("columns", [1], np.int64)
    Z = _scale(graph, X, scaler)
    if isinstance(machine, AdditiveMachine):
        weighted = graph.node("Squeeze", onnx_additive.added(graph, Z, machine), "columns")
    elif isinstance(machine, LinearMachine):
        weighted = _weighed(graph, Z, machine.coefficients)
    elif len(machine.dual):
        column, kernel = machine.dual.reshape(-1, 1), machine.kernel
        if machine.packing is not None:
            dual = _widened(graph, "dual", column, np.float32)
            values = _kernel_in_few_bits(graph, Z, _support(graph, machine, machine.packing.grid), machine)
        else:
            values, dual = _kernel(graph, Z, machine.support, kernel), graph.constant("dual", column)
        weighted = graph.node("Squeeze", graph.node("MatMul", values, dual), "columns")
    else:
        weighted = _weighed(graph, Z, np.zeros(len(scaler.mean)))
    graph.node("Add", weighted, graph.constant("intercept", machine.intercept), output=output)


def _weighed(graph: Graph, Z: str, coefficients: Float) -> str:
    terms = graph.node("Mul", Z, graph.constant("coefficients", coefficients))
    return graph.node("ReduceSum", terms, "columns", keepdims=0)


def _kernel(graph: Graph, Z: str, vectors: Float, kernel: RbfKernel) -> str:
    """Expand the squared distance about the mean of the support vectors, as `RbfKernel.gram` does."""
    centre = vectors.mean(axis=0)
    support = vectors - centre
    A = graph.node("Sub", Z, graph.constant("centre", centre))
    rows = graph.node("Mul", A, A)
    norms = graph.node("ReduceSum", rows, "columns", keepdims=1)
    own = graph.constant("support_norms", np.square(support).sum(axis=1))
    doubled = graph.node("MatMul", A, graph.constant("twice_support", 2.0 * support.T))
    return _exponential(graph, norms, own, doubled, kernel)


def _support(graph: Graph, machine: KernelMachine, grid: Grid) -> str:
    """Add packed support vectors; return the name of their values."""
    count = len(machine.support)
    if not grid.vector_bytes:
        return graph.constant("support", machine.support)
    from onnx import TensorProto

    packed = grid.packed(machine.support)[:, :, None]
    shifted = graph.node(
        "BitShift",
        graph.constant("support", packed, np.uint8),
        graph.constant("shifts", np.arange(8), np.uint8),
        direction="RIGHT",
    )
    bits = graph.node("Mod", shifted, graph.constant("two_states", 2, np.uint8))
    flat = graph.node("Reshape", bits, graph.constant("bits_shape", [count, -1], np.int64))
    # A feature's place is what its bits add to a running sum of all: whole numbers, exact in float64.
    starts, worth = np.cumsum(grid.bits) - grid.bits, np.zeros(8 * grid.vector_bytes)
    for start, many in zip(starts.tolist(), grid.bits.tolist(), strict=True):
        worth[start : start + many] = 2.0 ** np.arange(many)
    weighed = graph.node("Mul", graph.node("Cast", flat, to=TensorProto.DOUBLE), graph.constant("worth", worth))
    axis, last = graph.constant("along_bits", 1, np.int64), len(worth) - 1
    through, before = (graph.node("CumSum", weighed, axis, exclusive=one) for one in (0, 1))
    ends = graph.constant("last_bits", np.clip(starts + grid.bits - 1, 0, last), np.int64)
    begins = graph.constant("first_bits", np.clip(starts, 0, last), np.int64)
    upto, less = graph.node("Gather", through, ends, axis=1), graph.node("Gather", before, begins, axis=1)
    step = graph.constant("step", np.where(grid.bits > 0, grid.step, 0.0))
    return graph.node("Add", graph.node("Mul", graph.node("Sub", upto, less), step), graph.constant("low", grid.low))


def _kernel_in_few_bits(graph: Graph, Z: str, vectors: str, machine: KernelMachine) -> str:
    """Do the same with vectors that are kept in few bits; the runtime works out what is constant when it loads."""
    centre, kernel = graph.constant("centre", machine.support.mean(axis=0)), machine.kernel
    support = graph.node("Sub", vectors, centre)
    A = graph.node("Sub", Z, centre)
    norms = graph.node("ReduceSum", graph.node("Mul", A, A), "columns", keepdims=1)
    own = graph.node("ReduceSum", graph.node("Mul", support, support), "columns", keepdims=0)
    twice = graph.node("Mul", graph.node("Transpose", support, perm=[1, 0]), graph.constant("two", 2.0))
    return _exponential(graph, norms, own, graph.node("MatMul", A, twice), kernel)


def _widened(graph: Graph, name: str, array: NDArray[Any], dtype: type[Any]) -> str:
    """Add an array whose numbers fit into fewer bits, in these bits; return the name of what makes them float64."""
    from onnx import TensorProto

    return graph.node("Cast", graph.constant(name, array, dtype), to=TensorProto.DOUBLE)


def _exponential(graph: Graph, norms: str, own: str, doubled: str, kernel: RbfKernel) -> str:
    squared = graph.node("Sub", graph.node("Add", norms, own), doubled)
    positive = graph.node("Max", squared, graph.constant("zero_distance", 0.0))
    return graph.node("Exp", graph.node("Mul", positive, graph.constant("minus_gamma", -kernel.gamma)))


def _choose(graph: Graph, decision: str, border: float, labels: NDArray[Any], output: str) -> None:
    above = graph.node("Greater", decision, graph.constant("zero" if border == 0.0 else "threshold", border))
    chosen = graph.constant("labels", labels, labels.dtype.type)
    graph.node("Gather", chosen, graph.integers(above), output=output)


def _calibrate(graph: Graph, decision: str, probability: Sigmoid, output: str) -> None:
    sloped = graph.node("Mul", decision, graph.constant("minus_a", -probability.a))
    shifted = graph.node("Sub", sloped, graph.constant("b", probability.b))
    graph.node("Sigmoid", shifted, output=output)
