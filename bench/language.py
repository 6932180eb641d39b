"""LSTM language models of each framework's own layers: two layers of 200 units."""

from __future__ import annotations

from typing import Any

from bench.cases import CLIP_NORM, RATE, WORDS, Loop

UNITS = 200


def torch_lstm(ready: list[Any]) -> Loop:
    """Train PyTorch's two-layer LSTM, the state carried from batch to batch."""
    import torch
    from torch import nn

    class Model(nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, UNITS)
            self.lstm = nn.LSTM(UNITS, UNITS, num_layers=2, batch_first=True)
            self.head = nn.Linear(UNITS, WORDS)

        def forward(self, words: Any, state: Any) -> Any:
            outputs, state = self.lstm(self.embedding(words), state)
            return self.head(outputs), state

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    criterion = nn.CrossEntropyLoss()

    def train() -> None:
        state = None
        for words, targets in ready:
            optimizer.zero_grad()
            scores, state = model(words, state)
            state = tuple(part.detach() for part in state)
            criterion(scores.flatten(0, 1), targets.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()

    return train


def keras_lstm(ready: list[Any]) -> Loop:
    """Train Keras' LSTM layers, which carry their state themselves, by `fit`."""
    import keras
    import tensorflow as tf

    words, targets = (tf.concat(parts, axis=0) for parts in zip(*ready, strict=True))
    rows, time_steps = ready[0][0].shape
    model = keras.Sequential(
        [
            keras.layers.Input(batch_shape=(rows, time_steps), dtype="int64"),
            keras.layers.Embedding(WORDS, UNITS),
            keras.layers.LSTM(UNITS, return_sequences=True, stateful=True),
            keras.layers.LSTM(UNITS, return_sequences=True, stateful=True),
            keras.layers.Dense(WORDS),
        ]
    )
    model.compile(
        keras.optimizers.SGD(RATE, global_clipnorm=CLIP_NORM),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )

    def fit() -> None:
        model.fit(words, targets, batch_size=rows, shuffle=False, verbose=0)

    return fit


def gluon_lstm(ready: list[Any]) -> Loop:
    """Train Gluon's two-layer LSTM, the state carried from batch to batch."""
    import mxnet as mx

    gluon = mx.gluon
    rows = ready[0][0].shape[0]

    class Model(gluon.HybridBlock):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = gluon.nn.Embedding(WORDS, UNITS)
            self.lstm = gluon.rnn.LSTM(UNITS, num_layers=2, layout="NTC", input_size=UNITS)
            self.head = gluon.nn.Dense(WORDS, in_units=UNITS, flatten=False)

        def hybrid_forward(self, F: Any, words: Any, hidden: Any, cell: Any) -> Any:
            del F
            outputs, after = self.lstm(self.embedding(words), [hidden, cell])
            return self.head(outputs), *after

    model = Model()
    model.initialize(mx.init.Xavier())
    model.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": RATE})
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()

    def train() -> None:
        states = [mx.nd.zeros((2, rows, UNITS)) for _ in range(2)]
        for words, targets in ready:
            with mx.autograd.record():
                scores, *states = model(words, *states)
                loss = criterion(scores, targets)
            loss.backward()
            states = [state.detach() for state in states]
            gradients = [parameter.grad() for parameter in model.collect_params().values()]
            gluon.utils.clip_global_norm(gradients, CLIP_NORM * rows, check_isfinite=False)
            trainer.step(rows)
        mx.nd.waitall()

    return train


def jax_lstm(ready: list[Any]) -> Loop:
    """Train two LSTM layers, each a scan over the time steps; the state carried by hand."""
    import jax
    import jax.numpy as jnp
    import optax

    rows = ready[0][0].shape[0]
    initialize = jax.nn.initializers.glorot_uniform()
    shapes = [(WORDS, UNITS), *[(UNITS, 4 * UNITS)] * 4, (UNITS, WORDS)]
    keys = jax.random.split(jax.random.key(0), len(shapes))
    matrices = [initialize(key, shape) for key, shape in zip(keys, shapes, strict=True)]
    biases = [jnp.zeros(4 * UNITS), jnp.zeros(4 * UNITS), jnp.zeros(WORDS)]
    optimizer = optax.chain(optax.clip_by_global_norm(CLIP_NORM), optax.sgd(RATE))

    def lstm(inward: Any, recurrent: Any, bias: Any, values: Any, state: Any) -> Any:
        def cell(state: Any, gates: Any) -> Any:
            hidden, memory = state
            i, f, c, o = jnp.split(gates + hidden @ recurrent, 4, axis=-1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(c)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
            return (hidden, memory), hidden

        state, outputs = jax.lax.scan(cell, state, (values @ inward + bias).swapaxes(0, 1))
        return outputs.swapaxes(0, 1), state

    def loss(weights: Any, states: Any, words: Any, targets: Any) -> Any:
        (embedding, *layers, head), (*layer_biases, head_bias) = weights
        values, after = embedding[words], []
        for number, (bias, state) in enumerate(zip(layer_biases, states, strict=True)):
            values, final = lstm(*layers[2 * number : 2 * number + 2], bias, values, state)
            after.append(final)
        losses = optax.softmax_cross_entropy_with_integer_labels(values @ head + head_bias, targets)
        return losses.sum(axis=1).mean(), after

    def step(weights: Any, state: Any, states: Any, words: Any, targets: Any) -> Any:
        (value, states), gradients = jax.value_and_grad(loss, has_aux=True)(
            weights, states, words, targets
        )
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, states, value

    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    weights = (matrices, biases)
    trained = [weights, optimizer.init(weights)]

    def train() -> None:
        zeros = [tuple(jnp.zeros((rows, UNITS)) for _ in range(2)) for _ in range(2)]
        states: Any = zeros
        for words, targets in ready:
            trained[0], trained[1], states, value = compiled(*trained, states, words, targets)
        value.block_until_ready()

    return train
