"""Graphs of ONNX, written node by node, with a fault at each argument that is given."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET = 21


class Writer:
    """A graph to which nodes are added, each with one output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.generator = np.random.default_rng(3)

    def weight(self, name: str, *shape: int, around: float = 0.0) -> str:
        """Add random weights."""
        values = around + self.generator.normal(size=shape) / 4
        return self.constant(name, np.abs(values) if around else values)

    def constant(self, name: str, value: Any) -> str:
        """Add a tensor to the file, numbers in single precision."""
        array = np.asarray(value)
        self.weights[name] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = f"{kind.lower()}_{len(self.nodes)}"
        name = attributes.pop("name", output)
        outputs = attributes.pop("outputs", [output])
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name, **attributes))
        return output

    def model(
        self, output: str, *inputs: tuple[str, int, tuple[int, ...]], domain: str = ""
    ) -> ModelProto:
        """Return the model with these inputs."""
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info(*each) for each in inputs],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)] + (
            [helper.make_opsetid(domain, 1)] * bool(domain)
        )
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def images(
    folded: bool = True,
    padding: int = 1,
    epsilon: float = 1e-5,
    activation: str = "Relu",
    is_gelu_a_node: bool = True,
    channels_last: bool = False,
) -> ModelProto:
    """Return what an exporter writes of `torch_models.Images`."""
    graph = Writer()
    x = "images"
    if channels_last:
        x = graph.node("Transpose", x, perm=[0, 3, 1, 2])
    kernel = graph.weight("conv1.weight", 8, 3, 3, 3)
    bias = [graph.weight("conv1.bias", 8)] if folded else []
    x = graph.node("Conv", x, kernel, *bias, pads=[padding] * 4, strides=[2, 2])
    if not folded:
        roles = [
            graph.weight(f"norm.{role}", 8, around=1.0)
            for role in ("weight", "bias", "mean", "var")
        ]
        x = graph.node("BatchNormalization", x, *roles, epsilon=epsilon)
    x = graph.node(activation, x)
    kernel = graph.weight("conv2.weight", 6, 8, 3, 3)
    x = graph.node("Conv", x, kernel, graph.weight("conv2.bias", 6), pads=[1] * 4)
    x = graph.node("Gelu", x) if is_gelu_a_node else _gelu(graph, x)
    x = graph.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = graph.node("Reshape", x, graph.constant("shape", np.array([0, -1])))
    features = 6 * (((16 + 2 * padding - 3) // 2 + 1) // 2) ** 2
    x = graph.node("MatMul", x, graph.weight("dense1.weight", features, 16))
    x = graph.node("Add", graph.weight("dense1.bias", 16), x)
    x = graph.node("Tanh", x)
    kernel = graph.weight("dense2.weight", 5, 16)
    x = graph.node("Gemm", x, kernel, graph.weight("dense2.bias", 5), transB=1)
    shape = (4, 16, 16, 3) if channels_last else (4, 3, 16, 16)
    return graph.model(x, ("images", TensorProto.FLOAT, shape))


def _gelu(graph: Writer, x: str) -> str:
    """Return GELU as nodes, with the constants that a file has in single precision."""
    y = graph.node("Erf", graph.node("Div", x, graph.constant("root", np.float32(2**0.5))))
    y = graph.node("Mul", x, graph.node("Add", y, graph.constant("one", np.float32(1.0))))
    return graph.node("Mul", y, graph.constant("half", np.float32(0.5)))


def half() -> ModelProto:
    """Return `images` with weights, constants and input of 16 bits."""
    model = images()
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def two_inputs() -> ModelProto:
    """Return a graph that adds two inputs."""
    graph = Writer()
    shape = (TensorProto.FLOAT, (2, 3))
    return graph.model(graph.node("Add", "left", "right"), ("left", *shape), ("right", *shape))


def foreign() -> ModelProto:
    """Return a graph with an operator of ONNX Runtime."""
    graph = Writer()
    x = graph.node("FusedGelu", "x", domain="com.microsoft")
    return graph.model(x, ("x", TensorProto.FLOAT, (2, 3)), domain="com.microsoft")
