"""A formula as a graph of operations: read from text, without saying who is to compute it.

The same text is computed here in NumPy, step by step, and by each framework with operations and
automatic differentiation of its own.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

#: What signs stand for.
SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.MatMult: "matmul",
}

Setting = float | int


@dataclass(frozen=True)
class Node:
    """One operation.

    Attributes
    ----------
    sources
        Where its operands come from: names of nodes, of given arrays, or numbers.
    settings
        Numbers that choose the kind of operation, such as the stride of a convolution.
    """

    name: str
    operation: str
    sources: tuple[str | float, ...]
    settings: tuple[tuple[str, Setting], ...] = ()


@dataclass(frozen=True)
class Formula:
    """Operations in an order in which they can be computed; the last is the result."""

    text: str
    nodes: tuple[Node, ...]

    @property
    def result(self) -> str:
        """The name of the last node."""
        return self.nodes[-1].name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of what must be given, in the order in which they are used."""
        made = {node.name for node in self.nodes}
        named = [source for node in self.nodes for source in node.sources]
        return tuple(dict.fromkeys(n for n in named if isinstance(n, str) and n not in made))


def read_formula(text: str) -> Formula:
    """Read a formula: lines of assignments in Python's notation.

    Parameters
    ----------
    text
        For example ``h = tanh(x @ W + b)``: signs, calls of operations, numbers, and settings
        by keyword (``convolution(x, w, stride=2)``). Nothing is run.

    Raises
    ------
    ValueError
        If it holds anything else.
    """
    reader = _Reader()
    for statement in ast.parse(text.strip()).body:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            raise ValueError(f"no assignment: {ast.unparse(statement)}")
        reader.read(statement.value, statement.targets[0].id)
    return Formula("\n".join(line.strip() for line in text.strip().splitlines()), reader.made)


class _Reader:
    """Takes expressions apart; what has no name in the text is called after its operation."""

    def __init__(self) -> None:
        self.made: tuple[Node, ...] = ()

    def read(self, tree: ast.expr, name: str = "") -> str | float:
        """Add the nodes of an expression and tell where its value comes from."""
        match tree:
            case ast.Name():
                return tree.id
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -float(value)
            case ast.UnaryOp(op=ast.USub()):
                return self._add(name, "multiply", (self.read(tree.operand), -1.0))
            case ast.BinOp() if type(tree.op) in SIGNS:
                sides = (self.read(tree.left), self.read(tree.right))
                return self._add(name, SIGNS[type(tree.op)], sides)
            case ast.Call(func=ast.Name(id=operation)):
                operands = tuple(self.read(each) for each in tree.args)
                settings = tuple((str(k.arg), ast.literal_eval(k.value)) for k in tree.keywords)
                return self._add(name, operation, operands, settings)
        raise ValueError(f"not a part of a formula: {ast.unparse(tree)}")

    def _add(
        self,
        name: str,
        operation: str,
        sources: tuple[str | float, ...],
        settings: tuple[tuple[str, Setting], ...] = (),
    ) -> str:
        name = name or f"{operation}_{len(self.made) + 1}"
        self.made = (*self.made, Node(name, operation, sources, settings))
        return name
