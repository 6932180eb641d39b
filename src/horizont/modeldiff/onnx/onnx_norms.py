"""Norms of an ONNX graph: one node, or the nodes that an exporter writes for a norm.

It imports nothing of Horizont.
"""

from __future__ import annotations

from collections.abc import Iterator

from .onnx_entries import Entry, Reader, Tensor, name_of

_ROLES = ("scale", "offset", "mean", "variance")


def norm(reader: Reader, number: int) -> Iterator[Entry]:
    """Read a norm that is one node."""
    node = reader.nodes[number]
    kinds = {
        "BatchNormalization": "batch norm", "LayerNormalization": "layer norm",
        "RMSNormalization": "rms norm", "GroupNormalization": "group norm",
        "InstanceNormalization": "instance norm",
    }  # fmt: skip
    found = [reader.constant(node, place) for place in range(1, 5)]
    roles = zip(_ROLES, found, strict=True)
    tensors = {role: Tensor([each]) for role, each in roles if each is not None}
    if not tensors:
        return
    settings = {"epsilon": float(node.epsilon)}
    is_plain = node.op_type == "InstanceNormalization" and all(
        each is None or (each == value).all() for each, value in zip(found, (1, 0), strict=False)
    )
    if node.op_type == "GroupNormalization":
        settings["groups"] = node.num_groups
    yield Entry(
        name_of(node, 1), kinds[node.op_type], node, tensors, (number,), number, node.input[0],
        node.output[0], settings, fixed=("groups",), is_optional=is_plain,
    )  # fmt: skip


def group_norm(reader: Reader, number: int) -> Iterator[Entry]:
    """Read a group norm: a norm of instances of reshaped images, then scale and offset.

    Or a norm of instances itself, whose scale and offset may be constants of the operator.
    """
    node = reader.nodes[number]
    before, after = reader.before(node, 0), reader.only_reader(number, "Reshape")
    if before is None or before.op_type != "Reshape" or after is None:
        yield from norm(reader, number)
        return
    channels = reader.shapes[reader.nodes[after].output[0]][1]
    axis = 1 - len(reader.shapes[reader.nodes[after].output[0]])
    scaled = reader.following(after, "Mul", channels, axis)
    moved = reader.following(scaled.number, "Add", channels, axis) if scaled else None
    if scaled is None or moved is None:
        return
    tensors = {"scale": Tensor([scaled.values]), "offset": Tensor([moved.values])}
    settings = {"epsilon": float(node.epsilon), "groups": reader.shapes[node.input[1]][0]}
    yield Entry(
        scaled.name, "group norm", node, tensors, (reader.writers[before.output[0]],),
        moved.number, before.input[0], reader.nodes[moved.number].output[0], settings,
        fixed=("groups",),
    )  # fmt: skip


def layer_norm(reader: Reader, number: int) -> Iterator[Entry]:
    """Read a layer norm from its steps, of which one divides by the root of the variance."""
    node = reader.nodes[number]
    centred, root = reader.before(node, 0), reader.before(node, 1)
    if centred is None or root is None or (centred.op_type, root.op_type) != ("Sub", "Sqrt"):
        return
    mean, variance = reader.before(centred, 1), reader.before(root, 0)
    if mean is None or variance is None or mean.op_type != "ReduceMean":
        return
    size = reader.shapes[node.output[0]][-1]
    scaled = reader.following(number, "Mul", size, -1)
    if scaled is None:
        return
    tensors, writer = {"scale": Tensor([scaled.values])}, scaled.number
    if (moved := reader.following(scaled.number, "Add", size, -1)) is not None:
        writer = moved.number
        tensors["offset"] = Tensor([moved.values])
    readers = tuple(reader.writers[each.output[0]] for each in (mean, centred))
    yield Entry(
        scaled.name, "layer norm", node, tensors, readers, writer, centred.input[0],
        reader.nodes[writer].output[0], {"epsilon": reader.number(variance)}, fixed=("epsilon",),
    )  # fmt: skip


def rms_norm(reader: Reader, number: int) -> Iterator[Entry]:
    """Read a norm by the root of the mean square from its steps, of which one is an inverse."""
    node = reader.nodes[number]
    chain = [node]
    for kind in ("Sqrt", "Add", "ReduceMean", "Pow"):
        before = reader.before(chain[-1], 0)
        if before is None or before.op_type != kind:
            return
        chain.append(before)
    power, product = chain[-1], reader.only_reader(number, "Mul")
    if product is None or power.input[0] not in reader.nodes[product].input:
        return
    cast = reader.only_reader(product, "Cast")  # from single precision to that of the model
    size = reader.shapes[power.input[0]][-1]
    scaled = reader.following(product if cast is None else cast, "Mul", size, -1)
    if scaled is None:
        return
    yield Entry(
        scaled.name, "rms norm", node, {"scale": Tensor([scaled.values])},
        (reader.writers[power.output[0]], product), scaled.number, power.input[0],
        reader.nodes[scaled.number].output[0], {"epsilon": reader.number(chain[2])},
        fixed=("epsilon",),
    )  # fmt: skip
