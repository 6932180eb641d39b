"""Models of transformers in Flax by name, with random weights."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import transformers as package


def transformers(name: str, **arguments: Any) -> Any:
    """Return the two functions of a model, from the values of its configuration."""
    model = getattr(package, name)
    config = model.config_class(**arguments)
    module = model.module_class(config=config)

    def others(batch: Any) -> list[Any]:
        """Return what is asked for beside words: masks, kinds and positions."""
        if batch.ndim == 4:
            return []
        mask = jnp.ones_like(batch)
        places = jnp.broadcast_to(jnp.arange(batch.shape[1]), batch.shape)
        if "GPT2" in name:
            return [mask, places]
        heads = jnp.ones((config.num_hidden_layers, config.num_attention_heads))
        return [mask, jnp.zeros_like(batch), places, heads]

    def init(key: Any, batch: Any) -> Any:
        return module.init(key, batch, *others(batch))

    def apply(variables: Any, batch: Any) -> Any:
        return dict(module.apply(variables, batch, *others(batch), return_dict=True).items())

    return init, apply
