"""Losses and optimizers of a framework: ``recorded_training.py PREFIX RECORDER RUNNER FOLDER``.

It writes, for each optimizer, the rules that were read, and weights before and after updates; for
each loss, what it computes of a result.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 4


def of_torch() -> dict[str, Any]:
    import torch

    def build(name: str, **settings: Any) -> Any:
        def made() -> Any:
            model = torch.nn.Linear(8, 3)
            return model, getattr(torch.optim, name)(model.parameters(), **settings)

        return made

    def in_groups() -> Any:
        model = torch.nn.Linear(8, 3)
        groups = [
            {"params": [model.weight], "weight_decay": 0.1},
            {"params": [model.bias], "weight_decay": 0.0},
        ]
        return model, torch.optim.AdamW(groups, lr=0.01)

    def forgotten() -> Any:
        model = torch.nn.Linear(8, 3)
        return model, torch.optim.SGD([model.weight], lr=0.1)

    class Uncorrected(torch.optim.Optimizer):
        """Adam without bias correction."""

        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-6})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for group in self.param_groups:
                first, second = group["betas"]
                for parameter in group["params"]:
                    state, gradient = self.state[parameter], parameter.grad
                    state["mean"] = first * state.get("mean", 0) + (1 - first) * gradient
                    square = second * state.get("square", 0) + (1 - second) * gradient**2
                    state["square"] = square
                    parameter.sub_(group["lr"] * state["mean"] / (square.sqrt() + group["eps"]))

    def of_a_user() -> Any:
        model = torch.nn.Linear(8, 3)
        return model, Uncorrected(model.parameters())

    return {
        "SGD": build("SGD", lr=0.1),
        "momentum": build("SGD", lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
        "Nesterov": build("SGD", lr=0.1, momentum=0.9, nesterov=True),
        "Adam": build("Adam", lr=0.01, betas=(0.8, 0.95), weight_decay=0.1),
        "AMSGrad": build("Adam", lr=0.01, amsgrad=True),
        "maximized": build("SGD", lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True),
        "AdamW": build("AdamW", lr=0.01, eps=1e-5),
        "groups": in_groups,
        "forgotten": forgotten,
        "of a user": of_a_user,
        "RMSprop": build("RMSprop", lr=0.01, momentum=0.5),
        "centered": build("RMSprop", lr=0.01, alpha=0.9, centered=True),
        "Adagrad": build("Adagrad", lr=0.1, initial_accumulator_value=0.2),
        "unknown": build("NAdam", lr=0.1),
    }


def of_keras() -> dict[str, Any]:
    import keras

    def build(name: str, exclude: str = "", **settings: Any) -> Any:
        def made() -> Any:
            model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
            optimizer = getattr(keras.optimizers, name)(**settings)
            if exclude:
                optimizer.exclude_from_weight_decay(var_names=[exclude])
            model.compile(optimizer=optimizer)
            return model

        return made

    decaying = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    return {
        "SGD": build("SGD", learning_rate=0.1, momentum=0.9, nesterov=True),
        "decay": build("SGD", "bias", learning_rate=0.1, weight_decay=0.1),
        "Adam": build("Adam", learning_rate=0.01, beta_1=0.8, clipvalue=0.5),
        "AdamW": build("AdamW", learning_rate=0.01, global_clipnorm=0.5, amsgrad=True),
        "RMSprop": build("RMSprop", learning_rate=0.01, momentum=0.5, clipnorm=0.5),
        "centered": build("RMSprop", learning_rate=0.01, centered=True),
        "Adagrad": build("Adagrad", learning_rate=0.1),
        "unknown": build("SGD", learning_rate=decaying),
    }


def of_mxnet() -> dict[str, Any]:
    from mxnet import gluon

    def build(name: str, **settings: Any) -> Any:
        def made() -> Any:
            block = gluon.nn.Dense(3)
            block.initialize()
            return block, gluon.Trainer(block.collect_params(), name, settings)

        return made

    return {
        "SGD": build("sgd", learning_rate=0.1, momentum=0.9, wd=0.1),
        "Nesterov": build("nag", learning_rate=0.1, momentum=0.9),
        "Adam": build("adam", learning_rate=0.01, clip_gradient=0.5),
        "unknown": build("signum", learning_rate=0.1),
    }


def of_jax() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import optax

    def init(key: Any) -> Any:
        del key
        return {"kernel": jnp.ones((8, 3)), "bias": jnp.zeros(3)}

    def apply(parameters: Any, batch: Any) -> Any:
        return batch @ parameters["kernel"] + parameters["bias"]

    def matrices(parameters: Any) -> Any:
        return jax.tree.map(lambda value: value.ndim > 1, parameters)

    optimizers = {
        "SGD": optax.sgd(0.1, momentum=0.9, nesterov=True),
        "coupled": optax.chain(optax.add_decayed_weights(0.1), optax.adam(0.01)),
        "AdamW": optax.adamw(0.01, weight_decay=0.1, mask=matrices),
        "clipped": optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1)),
        "RMSprop": optax.rmsprop(0.01, initial_scale=0.3),
        "Adagrad": optax.adagrad(0.1),
        "unknown": optax.lion(0.01),
    }
    return {name: lambda o=each: (init, apply, o) for name, each in optimizers.items()}


def torch_losses() -> dict[str, Any]:
    import torch
    import torch.nn.functional as F

    def build(loss: Any) -> Any:
        return lambda: (torch.nn.Linear(8, 3), loss)

    def of_steps(result: Any, classes: Any) -> Any:
        rows, labels = result.flatten(0, 1), classes.flatten()
        return F.cross_entropy(rows, labels, ignore_index=0, reduction="sum") / len(result)

    def counted(result: Any, classes: Any) -> Any:
        rows, labels = result.flatten(0, 1), classes.flatten()
        return F.cross_entropy(rows, labels, ignore_index=0, reduction="sum") / len(rows)

    weights = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    return {
        "plain": build(torch.nn.CrossEntropyLoss()),
        "sum": build(torch.nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.1)),
        "ignored": build(torch.nn.CrossEntropyLoss(ignore_index=0)),
        "twice": build(lambda result, classes: F.cross_entropy(result.softmax(-1), classes)),
        "logarithms": build(torch.nn.NLLLoss()),
        "own": build(lambda result, classes: F.nll_loss(result.log(), classes)),
        "squared": build(torch.nn.MSELoss()),
        "steps": build(of_steps),
        "counted steps": build(counted),
        "weighted": build(torch.nn.CrossEntropyLoss(weight=weights)),
        "weighted sum": build(torch.nn.CrossEntropyLoss(weight=weights, reduction="sum")),
        "number": build(torch.nn.MSELoss()),
        "number, absolute": build(torch.nn.L1Loss(reduction="sum")),
        "number, binary": build(torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))),
        "number, probability": build(torch.nn.BCELoss()),
        "unknown": build(torch.nn.MultiMarginLoss()),
    }


def keras_losses() -> dict[str, Any]:
    import keras

    def build(loss: Any) -> Any:
        def made() -> Any:
            model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
            model.compile(loss=loss)
            return model

        return made

    kinds = keras.losses
    return {
        "plain": build(kinds.SparseCategoricalCrossentropy(from_logits=True)),
        "by name": build("sparse_categorical_crossentropy"),
        "smoothed": build(kinds.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2)),
        "sum": build(kinds.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")),
        "squared": build("mse"),
        "binary": build(kinds.BinaryCrossentropy(from_logits=True)),
        "steps": build(kinds.SparseCategoricalCrossentropy(from_logits=True)),
        "number": build("mse"),
        "number, binary": build(kinds.BinaryCrossentropy(from_logits=True, label_smoothing=0.2)),
        "number, probability": build("binary_crossentropy"),
        "unknown": build("hinge"),
    }


def mxnet_losses() -> dict[str, Any]:
    from mxnet import gluon

    def build(loss: Any) -> Any:
        def made() -> Any:
            block = gluon.nn.Dense(3)
            block.initialize()
            return block, loss

        return made

    return {
        "plain": build(gluon.loss.SoftmaxCrossEntropyLoss()),
        "one for each class": build(gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False)),
        "logarithms": build(gluon.loss.SoftmaxCrossEntropyLoss(from_logits=True)),
        "squared": build(gluon.loss.L2Loss()),
        "number": build(gluon.loss.L1Loss()),
        "number, binary": build(gluon.loss.SigmoidBinaryCrossEntropyLoss()),
        "unknown": build(gluon.loss.HingeLoss()),
    }


def jax_losses() -> dict[str, Any]:
    import jax.numpy as jnp
    import optax

    def init(key: Any) -> Any:
        del key
        return {"kernel": jnp.ones((8, 3)), "bias": jnp.zeros(3)}

    def apply(parameters: Any, batch: Any) -> Any:
        return batch @ parameters["kernel"] + parameters["bias"]

    def smoothed(result: Any, classes: Any) -> Any:
        shares = optax.smooth_labels(jnp.eye(result.shape[-1])[classes], 0.1)
        return optax.softmax_cross_entropy(result, shares)

    losses = {
        "plain": optax.softmax_cross_entropy_with_integer_labels,
        "one for each class": optax.softmax_cross_entropy,
        "smoothed": smoothed,
        "squared": optax.squared_error,
        "number": optax.squared_error,
        "number, binary": optax.sigmoid_binary_cross_entropy,
    }
    return {name: lambda loss=each: (init, apply, loss) for name, each in losses.items()}


def main() -> None:
    prefix, recorder, runner_file, folder = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("runner", runner_file)
    assert spec is not None
    assert spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    module = runner.load_recorder(recorder)
    functions = runner.load_own("functions")
    cases = {"torch": of_torch, "keras": of_keras, "mxnet": of_mxnet, "jax": of_jax}[prefix]()
    losses = {"torch": torch_losses, "keras": keras_losses, "mxnet": mxnet_losses}
    losses["jax"] = jax_losses
    for name, build in losses[prefix]().items():
        recorded = module.Recorder(build, {}, np.ones((4, 8)), "float64", functions)
        kind = next((kind for kind in ("step", "number") if kind in name), "row")
        with np.load(Path(folder, f"{kind}s.npz")) as file:
            result, classes = file["result"], file["classes"]
        if kind == "number":
            classes = one_hot = classes.astype(float)
        else:
            one_hot = np.eye(result.shape[-1])[classes]
        loss, gradient = recorded.loss(result, classes, one_hot)
        np.savez(Path(folder, f"loss of {name}.npz"), loss=loss, gradient=gradient)
    rules = {}
    generator = np.random.default_rng(0)
    for name, build in cases.items():
        recorded = module.Recorder(build, {}, generator.normal(size=(4, 8)), "float64", functions)
        weights = recorded.weights()
        start = {key: generator.normal(size=value.shape) for key, value in weights.items()}
        gradients = [
            {
                key: generator.normal(size=value.shape)
                * 10 ** generator.uniform(-5, 0.5, size=value.shape)
                for key, value in weights.items()
            }
            for _ in range(STEPS)
        ]
        rules[name] = recorded.optimizer.rules()
        after = recorded.optimizer.update(start, gradients)
        unchanged = recorded.weights()
        assert all(np.array_equal(unchanged[key], value) for key, value in weights.items())
        arrays = {f"start|{key}": value for key, value in start.items()}
        arrays |= {f"after|{key}": value for key, value in after.items()}
        for step, each in enumerate(gradients):
            arrays |= {f"{step}|{key}": value for key, value in each.items()}
        np.savez(Path(folder, f"{name}.npz"), **arrays)
    Path(folder, "rules.json").write_text(json.dumps(rules), encoding="utf-8")


if __name__ == "__main__":
    main()
