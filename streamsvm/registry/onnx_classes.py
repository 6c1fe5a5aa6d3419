"""The part of an ONNX graph that is of several machines: K decision values, the greatest of which is the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsvm.model.classes import (
    LEAST_PROBABILITY,
    AdditiveMachines,
    ClassModel,
    KernelMachines,
    LinearMachines,
    pairs_of,
)
from streamsvm.model.kernels import Float, RbfKernel
from streamsvm.model.probability import Sigmoid
from streamsvm.registry.onnx_additive import added
from streamsvm.registry.onnx_graph import Graph

KernelNode = Callable[[Graph, str, Float, RbfKernel], str]


def decide(graph: Graph, Z: str, model: ClassModel, kernel: KernelNode, output: str) -> str:
    """Add nodes from scaled features, shape (n, d), to the labels' decision values, shape (n, n_classes).

    With one feature it is a product, not a matrix product: see `streamsvm.registry.onnx_export`.

    Returns
    -------
    str
        The node of the machines' decision values, shape (n, n_machines).
    """
    machines, dimension = model.machine, model.dimension
    if isinstance(machines, LinearMachines):
        weights = graph.constant("coefficients", machines.coefficients.T)
        weighted = graph.node("Mul" if dimension == 1 else "MatMul", Z, weights)
    elif isinstance(machines, AdditiveMachines):
        each = [added(graph, Z, one, f"_{index}") for index, one in enumerate(machines.machines)]
        weighted = graph.node("Concat", *each, axis=1)
    else:
        weighted = _of_kernels(graph, Z, machines, dimension, kernel)
    intercepts = graph.constant("intercepts", machines.intercepts)
    if model.scheme == "one_vs_rest":
        return graph.node("Add", weighted, intercepts, output=output)
    values = graph.node("Add", weighted, intercepts)
    _count_votes(graph, values, model.classes, output)
    return values


def _count_votes(graph: Graph, values: str, classes: int, output: str) -> None:
    """Add nodes from the values of one against one to those of the labels: votes, and less than a third of one."""
    first, second = np.array(pairs_of(classes)).T
    sides = graph.constant("sides", np.eye(classes)[second] - np.eye(classes)[first])
    above = graph.node("Greater", values, graph.constant("no_value", 0.0))
    won = graph.node("Where", above, graph.constant("half_vote", 0.5), graph.constant("half_vote_less", -0.5))
    votes = graph.node("Add", graph.node("MatMul", won, sides), graph.constant("half_of_pairs", (classes - 1) / 2.0))
    sums = graph.node("MatMul", values, sides)
    three = graph.constant("three", 3.0)
    divisor = graph.node("Add", graph.node("Mul", graph.node("Abs", sums), three), three)
    graph.node("Add", votes, graph.node("Div", sums, divisor), output=output)


def _of_kernels(graph: Graph, Z: str, machines: KernelMachines, dimension: int, kernel: KernelNode) -> str:
    if len(machines.support):
        values = kernel(graph, Z, machines.support, machines.kernel)
        return graph.node("MatMul", values, graph.constant("dual", machines.dual.T))
    nothing = graph.constant("coefficients", np.zeros((dimension, len(machines.intercepts))))
    return graph.node("Mul" if dimension == 1 else "MatMul", Z, nothing)


def choose(graph: Graph, decision: str, labels: NDArray[Any], output: str) -> None:
    """Add nodes from decision values to labels, shape (n,)."""
    greatest = graph.node("ArgMax", decision, axis=1, keepdims=0)
    graph.node("Gather", graph.constant("labels", labels, labels.dtype.type), greatest, output=output)


def calibrate(graph: Graph, values: str, model: ClassModel, output: str) -> None:
    """Add nodes from the machines' decision values to the labels' probabilities, shape (n, n_classes)."""
    assert model.probabilities is not None
    own = _of_machines(graph, values, model.probabilities)
    of_labels = own if model.scheme == "one_vs_rest" else _of_pairs(graph, own, model.classes)
    total = graph.node("ReduceSum", of_labels, "columns", keepdims=1)
    positive = graph.node("Greater", total, graph.constant("no_total", 0.0))
    divisor = graph.node("Where", positive, total, graph.constant("any_total", 1.0))
    share = graph.node("Div", of_labels, divisor)
    graph.node("Where", positive, share, graph.constant("even_share", 1.0 / model.classes), output=output)


def _of_pairs(graph: Graph, probability: str, classes: int) -> str:
    first, second = np.array(pairs_of(classes)).T
    least = graph.constant("least_probability", LEAST_PROBABILITY)
    most = graph.constant("greatest_probability", 1.0 - LEAST_PROBABILITY)
    kept, one = graph.node("Min", graph.node("Max", probability, least), most), graph.constant("one", 1.0)
    parts = []
    for name, labels, own in (("second", second, kept), ("first", first, graph.node("Sub", one, kept))):
        side = graph.constant(f"{name}_labels", np.eye(classes)[labels])
        parts.append(graph.node("MatMul", graph.node("Div", one, own), side))
    inverse = graph.node("Sub", graph.node("Add", *parts), graph.constant("other_labels", float(classes - 2)))
    return graph.node("Div", one, inverse)


def _of_machines(graph: Graph, decision: str, functions: Sequence[Sigmoid]) -> str:
    slopes = graph.constant("minus_a", [-function.a for function in functions])
    shifted = graph.node("Mul", decision, slopes)
    return graph.node("Sigmoid", graph.node("Sub", shifted, graph.constant("b", [one.b for one in functions])))
