"""An ONNX graph that grows node by node. The package `onnx` is imported when a graph is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto


class Graph:
    """Nodes and constants in the order in which they are added; names are numbered."""

    def __init__(self) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._integer = TensorProto.INT64
        self._make = helper.make_node
        self._from_array = numpy_helper.from_array

    def constant(self, name: str, array: Any, dtype: type[Any] = np.float64) -> str:
        """Add an array, or a number, under a name, and return the name."""
        self.constants.append(self._from_array(np.array(array, dtype, order="C"), name))
        return name

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        made = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(self._make(operator, list(inputs), [made], **attributes))
        return made

    def integers(self, truth: str) -> str:
        """Turn false and true into 0 and 1."""
        return self.node("Cast", truth, to=self._integer)
