"""The program of a side: builds a model in its own interpreter, and records runs of it on request.

It imports nothing but the standard library, NumPy and, by its recorder, one framework, so that it
runs where Horizont is not installed. Requests and answers are lines of JSON on two pipes; tensors
are files in the formats of NumPy. Standard output belongs to the model.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import importlib.util
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import numpy as np

#: The package whose modules are the files beside this one, and that of those beside a recorder.
_OWN, RECORDERS = "_side", "_recorders"


#: How often a part is executed at least, to warm it up and to time it.
FEWEST = 3

#: The learning rate of timed steps, with which weights remain what they are.
TIMED_RATE = 1e-9


class Mistake(Exception):
    """A mistake of the user, in a sentence."""


class UnknownArgument(Exception):
    """An argument that a callable does not have, with those that it has."""


def load_file(path: str) -> ModuleType:
    """Import a Python file by its path, with its folder on the path for its own imports."""
    name = "_side_" + os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Mistake(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_recorder(path: str) -> ModuleType:
    """Import a recorder, which may import other files of its folder, and of those beside it."""
    folder, name = os.path.split(os.path.abspath(path))
    beside = (each.path for each in os.scandir(os.path.dirname(folder)) if each.is_dir())
    return _load_from(RECORDERS, [folder, *sorted(beside)], os.path.splitext(name)[0])


def load_own(name: str) -> ModuleType:
    """Import a module beside this one."""
    return _load_from(_OWN, [os.path.dirname(os.path.abspath(__file__))], name)


def _load_from(package: str, folders: list[str], name: str) -> ModuleType:
    """Import a module of some folders, which may import others of them by relative imports."""
    if package not in sys.modules:
        sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = folders
    return importlib.import_module(f"{package}.{name}")


def load_target(target: str) -> Callable[..., Any]:
    """Return the callable that a target names: ``package.module:name`` or ``file.py:name``.

    Of a model in a file of another format, it returns the path.
    """
    where, _, name = target.rpartition(":")
    if os.path.isabs(target) and not where.endswith(".py"):
        return lambda: target
    if where.endswith(".py"):
        if not os.path.isfile(where):
            raise Mistake(f"there is no file {where}")
        sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
        found: Any = load_file(where)
    else:
        found = importlib.import_module(where)
    for part in name.split("."):
        if not hasattr(found, part):
            raise Mistake(f"{where} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise Mistake(f"{target} cannot be called")
    return found  # type: ignore[no-any-return]


def check_arguments(target: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Check that a callable has the arguments that are given by name."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # of a builtin, for example
        return
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    names = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    if not {*arguments} <= {*names}:
        raise UnknownArgument(", ".join(names) or "none")


def loss_of_numbers(recorder: Any, result: Any, targets: Any) -> Any:
    """Return a loss of one number for each example, and its gradient.

    The targets have the shape of the result, or one without its last axis: that for which the
    gradient of an example depends on its own target alone. With another one, an operation may
    combine each example with all targets, without an error.
    """
    shapes = [targets.shape, targets.shape[:-1]] if targets.ndim > 1 else [targets.shape]
    found: list[Any] = []
    problems: list[Exception] = []
    for shape in shapes:
        own = targets.reshape(shape)
        other = own.copy()
        other.flat[0] = 1.0 - other.flat[0]
        try:
            loss, gradient = recorder.loss(result, own, own)
            changed = recorder.loss(result, other, other)[1] != gradient
        except Exception as error:  # noqa: BLE001 - whatever a loss raises
            problems.append(error)
            continue
        found.append((loss, gradient))
        if not changed.reshape(-1)[1:].any():
            return loss, gradient
    if not found:
        raise problems[0]
    return found[0]


class Runner:
    """The recorders of one model, one for each floating-point type."""

    def __init__(self, recorder: str, folder: str) -> None:
        self.functions, self.code_lines = load_own("functions"), load_own("code_lines")
        gc.disable()  # a framework is hundreds of thousands of objects, none of them garbage
        self.module = load_recorder(recorder)
        gc.enable()
        getattr(self.module, "limit_threads", lambda: None)()
        self.folder = folder
        self.recorders: dict[str, Any] = {}
        self.target: tuple[Any, dict[str, Any]] = (None, {})
        self.warm: set[tuple[str, str]] = set()

    def arrays(self, name: str) -> dict[str, Any]:
        """Read the tensors of a file; none if it has no name."""
        if not name:
            return {}
        with np.load(os.path.join(self.folder, name)) as file:
            return {key: file[key] for key in file.files}

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build the model in one floating-point type, and describe its layers."""
        batch = self.arrays(request["batch"])["batch"]
        if self.target[0] is None:
            target = load_target(request["target"])
            check_arguments(target, request["arguments"])
            self.target = (target, request["arguments"])
        divisible = getattr(self.module, "DIVISIBLE", ())
        options = {"divisions": request["divisions"]} if divisible else {}
        if request.get("group"):
            options["group"] = request["group"]
        with self.code_lines.recording_lines(getattr(self.module, "LAYER_CLASS", None)):
            recorder = self.module.Recorder(
                self.target[0], self.target[1], batch, request["dtype"], self.functions, **options
            )
        self.recorders[request["dtype"]] = recorder
        np.savez(os.path.join(self.folder, request["out"]), **recorder.weights())
        layers = recorder.layers()
        for each in layers:
            each["code"] = self.code_lines.code_of(each.pop("layer", None))
        return {
            "layers": layers,
            "versions": self.module.versions(),
            "divisible": divisible,
            "facts": recorder.facts() if hasattr(recorder, "facts") else {},
            "can_train": getattr(recorder, "can_train", True),
            "has_loss": recorder.loss is not None,
            "has_optimizer": recorder.optimizer is not None,
        }

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run the model once, and write what was recorded."""
        recorder = self.recorders[request["dtype"]]
        others = self.arrays(request["others"])
        recorded = recorder.run(
            weights=self.arrays(request["weights"]),
            feed=self.arrays(request["feed"]),
            projection=self.arrays(request["projection"]).get("projection"),
            repairs=request["repairs"],
            training=request["training"],
            rate=request["rate"],
            seed=request["seed"],
            **({"others": others} if others else {}),
        )
        np.savez(os.path.join(self.folder, request["out"]), **recorded)
        return {}

    def loss(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute the model's own loss of a result, and its gradient."""
        given, recorder = self.arrays(request["given"]), self.recorders[request["dtype"]]
        result, classes = given["result"], given["classes"]
        if classes.shape == result.shape:
            loss, gradient = loss_of_numbers(recorder, result, classes.astype(result.dtype))
        else:
            # Some losses want a row of zeros and a one for each class.
            loss, gradient = recorder.loss(result, classes, np.eye(result.shape[-1])[classes])
        np.savez(os.path.join(self.folder, request["out"]), loss=loss, gradient=gradient)
        return {}

    def rules(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read what the model's own optimizer does with each tensor."""
        return {"rules": self.recorders[request["dtype"]].optimizer.rules()}

    def update(self, request: dict[str, Any]) -> dict[str, Any]:
        """Update weights by the model's own optimizer, once with each of some gradients."""
        recorder, gradients = self.recorders[request["dtype"]], self.arrays(request["gradients"])
        steps: list[dict[str, Any]] = [{} for _ in range(request["steps"])]
        for key, value in gradients.items():
            number, _, name = key.partition("|")
            steps[int(number)][name] = value
        after = recorder.optimizer.update(self.arrays(request["weights"]), steps)
        np.savez(os.path.join(self.folder, request["out"]), **after)
        return {}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure the mean time of a part of the model as it is, without hooks."""
        with self._all_threads():
            execute = self._part(request)
            execute()  # the other side has used the caches since
            count, start_s = 0, time.perf_counter()
            while count < FEWEST or time.perf_counter() - start_s < request["seconds"]:
                execute()
                count += 1
            return {"mean_s": (time.perf_counter() - start_s) / count, "count": count}

    def profile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Profile a part of the model: the calls of its operators."""
        with self._all_threads():
            return {"operators": self.module.operators(self._part(request))}

    def _all_threads(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a framework uses all threads, if it is limited otherwise."""
        all_threads = getattr(self.module, "all_threads", contextlib.nullcontext)
        return cast("contextlib.AbstractContextManager[None]", all_threads())

    def script(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return code that repeats what a layer, or the model before it, computes; "" if none."""
        recorder = self.recorders[request["dtype"]]
        if not hasattr(recorder, "script"):
            return {"code": ""}
        value = self.arrays(request["given"]).get("input")
        code, arrays = recorder.script(request["layer"], self.arrays(request["weights"]), value)
        np.savez(os.path.join(self.folder, request["out"]), **arrays)
        return {"code": code}

    def _part(self, request: dict[str, Any]) -> Callable[[], object]:
        """Return a part, ready and warm: ``evaluation``, ``forward`` or ``step``."""
        recorder, name = self.recorders[request["dtype"]], request["part"]
        execute: Callable[[], object] = recorder.part(name, TIMED_RATE)
        if (request["dtype"], name) not in self.warm:
            for _ in range(FEWEST):
                execute()
            self.warm.add((request["dtype"], name))
        return execute


def answer(runner: Runner, request: dict[str, Any]) -> dict[str, Any]:
    """Execute a request; an error becomes a sentence."""
    try:
        return {"ok": True, **getattr(runner, request["do"])(request)}
    except Mistake as error:
        return {"ok": False, "kind": "mistake", "message": str(error)}
    except UnknownArgument as error:
        return {"ok": False, "kind": "argument", "message": str(error)}
    except ImportError as error:
        traceback.print_exc()
        return {"ok": False, "kind": "missing", "message": f"{type(error).__name__}: {error}"}
    except MemoryError:
        return {"ok": False, "kind": "memory", "message": "it ran out of memory"}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the model raises
        traceback.print_exc()
        lines = [line for line in str(error).splitlines() if line.strip()]
        # An error of an engine in C++ begins with the traceback there.
        text = lines[-1 if lines[0].startswith("Traceback") else 0] if lines else ""
        text = f"{type(error).__name__}: {text}"
        return {"ok": False, "kind": "failed", "message": text[:300]}


def main() -> None:
    """Handle requests until there are no more."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recorder")
    parser.add_argument("folder")
    parser.add_argument("requests", type=int)
    parser.add_argument("answers", type=int)
    given = parser.parse_args()
    # The folder of this file would hide packages of the same names as its modules.
    sys.path[0] = os.getcwd()
    os.set_inheritable(given.requests, False)
    os.set_inheritable(given.answers, False)
    runner = None
    with os.fdopen(given.requests) as requests, os.fdopen(given.answers, "w") as answers:
        for line in requests:
            try:
                runner = runner or Runner(given.recorder, given.folder)
                reply = answer(runner, json.loads(line))
            except ImportError as error:
                reply = {"ok": False, "kind": "missing", "message": f"{error}"}
            answers.write(json.dumps(reply) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
