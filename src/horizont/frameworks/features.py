"""What an installed framework offers, asked in a process of its own.

``python -m horizont.frameworks.features FRAMEWORK`` prints one JSON object: ``version``, and by
feature whether it is there (``has``) and what was asked (``asked``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from horizont.config.system import FRAMEWORKS, installed_version
from horizont.errors import MissingFramework, UserError

#: What is there, and what was asked to know it.
Answer = dict[str, Any]
Answers = dict[str, Answer]


def framework_features(framework: str) -> dict[str, Any]:
    """Load a framework into this process and ask it for its features.

    Raises
    ------
    UserError
        If there is no such framework, or it is not installed.
    """
    if framework not in FEATURE_QUERIES:
        raise UserError("framework", framework, sorted(FEATURE_QUERIES))
    version = installed_version(framework)
    if version is None:
        raise MissingFramework(framework)
    answers = FEATURE_QUERIES[framework]()
    CONVOLUTION_STEPS[framework]()
    return {"framework": framework, "version": version, "features": answers}


def _names_exist(root: Any, *paths: str) -> Answer:
    """Look names up; all of them must be there."""
    return {"has": all(_resolves(root, path) for path in paths), "asked": ", ".join(paths)}


def _resolves(root: Any, path: str) -> bool:
    for name in path.split(".")[1:]:
        try:
            root = getattr(root, name)
        except AttributeError:
            return False
    return True


def _answer(available: object, query: str) -> Answer:
    return {"has": bool(available), "asked": query}


def _tensorflow() -> Answers:
    import tensorflow as tf

    ring = "tf.distribute.MultiWorkerMirroredStrategy"
    servers = "tf.distribute.ParameterServerStrategy"
    layers = ("tf.keras.layers.Dense", "tf.keras.layers.Conv2D", "tf.keras.layers.LSTM")
    return {
        "generic": _names_exist(tf, *layers),
        "machines": _names_exist(tf, ring),
        "data_parallel": _names_exist(tf, ring, servers),
        "model_parallel": _names_exist(tf, "tf.keras.distribution.ModelParallel"),
        "sync": _names_exist(tf, ring),
        "async": _names_exist(tf, servers),
        "cpus": _names_exist(tf, "tf.config.threading.set_intra_op_parallelism_threads"),
        "gpus": _answer(tf.test.is_built_with_cuda(), "tf.test.is_built_with_cuda()"),
    }


def _torch() -> Answers:
    import torch
    import torch.distributed.tensor.parallel

    layers = ("torch.nn.Linear", "torch.nn.Conv2d", "torch.nn.LSTM")
    return {
        "generic": _names_exist(torch, *layers),
        "machines": _answer(
            torch.distributed.is_gloo_available(), "torch.distributed.is_gloo_available()"
        ),
        "data_parallel": _names_exist(torch, "torch.nn.parallel.DistributedDataParallel"),
        "model_parallel": _names_exist(
            torch, "torch.distributed.tensor.parallel.parallelize_module"
        ),
        "sync": _names_exist(torch, "torch.nn.parallel.DistributedDataParallel"),
        "async": _answer(False, "torch has no asynchronous trainer of its own"),
        "cpus": _names_exist(torch, "torch.set_num_threads"),
        "gpus": _answer(torch.version.cuda, "torch.version.cuda"),
    }


def _mxnet() -> Answers:
    mx = import_module("horizont.frameworks.mxnet.compat").mx
    built = mx.runtime.Features()

    def enabled(name: str) -> Answer:
        return _answer(built.is_enabled(name), f"mx.runtime.Features().is_enabled({name!r})")

    layers = ("mx.gluon.nn.Dense", "mx.gluon.nn.Conv2D", "mx.gluon.rnn.LSTM")
    return {
        "generic": _names_exist(mx, *layers),
        "machines": enabled("DIST_KVSTORE"),
        "data_parallel": _names_exist(mx, "mx.kv.create", "mx.gluon.Trainer"),
        "model_parallel": _names_exist(mx, "mx.AttrScope"),
        "sync": enabled("DIST_KVSTORE"),
        "async": enabled("DIST_KVSTORE"),
        "cpus": enabled("OPENMP"),
        "gpus": enabled("CUDA"),
    }


def _convolve_tensorflow() -> None:
    import tensorflow as tf

    def step(images: Any, kernel: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            loss = tf.reduce_sum(tf.nn.conv2d(images, kernel, 1, "SAME"))
        return tape.gradient(loss, kernel)

    tf.function(step)(tf.ones((8, 32, 32, 16)), tf.ones((3, 3, 16, 16)))


def _convolve_torch() -> None:
    import torch

    layer = torch.nn.Conv2d(16, 16, 3)
    layer(torch.ones(8, 16, 32, 32)).sum().backward()


def _convolve_mxnet() -> None:
    mx = import_module("horizont.frameworks.mxnet.compat").mx
    layer = mx.gluon.nn.Conv2D(16, 3, in_channels=16)
    layer.initialize()
    with mx.autograd.record():
        loss = layer(mx.nd.ones((8, 16, 32, 32))).sum()
    loss.backward()
    mx.nd.waitall()


FEATURE_QUERIES: dict[str, Callable[[], Answers]] = {
    "tensorflow": _tensorflow,
    "pytorch": _torch,
    "mxnet": _mxnet,
}

#: Trains a convolution for a step: the library below it tells of itself if it is asked to.
CONVOLUTION_STEPS: dict[str, Callable[[], None]] = {
    "tensorflow": _convolve_tensorflow,
    "pytorch": _convolve_torch,
    "mxnet": _convolve_mxnet,
}
assert set(FEATURE_QUERIES) == set(CONVOLUTION_STEPS) == set(FRAMEWORKS)


if __name__ == "__main__":
    try:
        print(json.dumps(framework_features(sys.argv[1])))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
