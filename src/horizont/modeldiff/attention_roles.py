"""Which layer has the queries, keys or values of attention: names say it where shapes do not.

The three have equal shapes and inputs, and models execute them in different orders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from horizont.modeldiff.recording import Layer

_ROLE = re.compile(
    r"(?:^|[./\[])(?:to_|w|linear_)?(q|k|v|query|key|value)(?:_?(?:proj|lin|linear|dense))?(?=$|[./\]])"
)


def _role(layer: Layer) -> str:
    """Return the first letter of a role, "" if the name has none."""
    found = _ROLE.findall(layer.name)
    return found[-1][0] if found else ""


def with_equal_roles(
    partner: Mapping[int, int], a: Sequence[Layer], b: Sequence[Layer]
) -> dict[int, int]:
    """Return partners with those exchanged in each attention that have each other's role.

    Parameters
    ----------
    partner
        Numbers of layers of side B by those of side A, in equal kinds and shapes.
    """
    found = dict(partner)
    for block in _blocks(sorted(partner), a):
        others = {_role(b[partner[number]]): partner[number] for number in block}
        shapes = {(a[number].kind, tuple(a[number].shapes.items())) for number in block}
        if others.keys() == {_role(a[number]) for number in block} and len(shapes) == 1:
            found |= {number: others[_role(a[number])] for number in block}
    return found


def _blocks(numbers: Sequence[int], layers: Sequence[Layer]) -> Iterator[list[int]]:
    """Yield the layers of each attention, each role once."""
    block: dict[str, int] = {}
    for number in numbers:
        role = _role(layers[number])
        if block and (not role or role in block):
            yield list(block.values())
            block = {}
        if role:
            block[role] = number
    if block:
        yield list(block.values())
