"""Names of the parts of a training step in the graph; a profile finds them again."""

from __future__ import annotations

GRADIENTS = "gradients"
LOSS = "loss"
UPDATE = "update"
