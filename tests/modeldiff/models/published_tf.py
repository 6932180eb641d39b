"""Models of transformers for TensorFlow by name, with random weights. They are of Keras 2."""

from __future__ import annotations

import os
from typing import Any

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf
import transformers as package


def transformers(name: str, **arguments: Any) -> Any:
    """Return a model, from the values of its configuration."""
    model = getattr(package, name)
    return model(model.config_class(**arguments))


class Images(tf.Module):
    """A model of images, whose channels it wants to be first."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.model = transformers(**arguments)

    def __call__(self, x: Any, training: bool = False) -> Any:
        return self.model(tf.transpose(x, [0, 3, 1, 2]), training=training)
