"""The adapter of JAX."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from horizont.config.framework import Device
from horizont.config.jobs import WorkerJob
from horizont.frameworks.base import FrameworkAdapter, Trainer, TrainingSetup
from horizont.frameworks.features import feature, names_exist
from horizont.frameworks.jax import distributed
from horizont.frameworks.jax.profiler import ProfiledTrainer, profile_operators
from horizont.frameworks.jax.train import LocalTrainer
from horizont.frameworks.operators import OperatorCall

#: The option of XLA with which a program runs one instruction after the other.
SEQUENTIAL_SCHEDULE = "--xla_cpu_enable_concurrency_optimized_scheduler=false"


class JaxAdapter(FrameworkAdapter):
    """JAX."""

    framework = "jax"

    def configure(self, threads: int, device: Device = "cpu") -> None:
        """Set the threads of XLA, and the device.

        XLA creates a pool with a thread per core, whatever OMP_NUM_THREADS says, together with the
        client of the CPU: before the first array. By the CPU time of each thread, two variables
        and the affinity of the process limit it; --xla_cpu_multi_thread_eigen=false does not.

        On the CPU two defaults make a second thread compute all the same. A program is queued, and
        computed while Python loads the next batch; and instructions that do not depend on each
        other are scheduled so that the caller and the pool share them. With one thread both are
        off.

        For a GPU the pool only compiles, and has a thread per core.
        """
        if device == "cuda":
            from horizont.frameworks.jax import cuda

            cuda.configure()
            return
        for variable in ("NPROC", "PJRT_NPROC"):  # one is the older name of the other
            os.environ[variable] = str(threads)
        if threads == 1:
            flags = (os.environ.get("XLA_FLAGS", ""), SEQUENTIAL_SCHEDULE)
            os.environ["XLA_FLAGS"] = " ".join(filter(None, flags))
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_enable_async_dispatch", threads > 1)

    def share_compiled_programs(self, folder: Path) -> None:
        """Write all compiled programs to JAX's cache, unless there is one already."""
        if jax.config.jax_compilation_cache_dir is None:
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)

    def trainer(self, setup: TrainingSetup) -> Trainer:
        """Return the trainer of a single process."""
        if setup.device == "cuda":
            from horizont.frameworks.jax import cuda

            return cuda.build_trainer(setup)
        return LocalTrainer(setup)

    def worker(self, setup: TrainingSetup, job: WorkerJob) -> Trainer:
        """Join the other workers of the job and return the trainer of a worker."""
        if setup.device == "cuda":
            from horizont.frameworks.jax import cuda

            return cuda.build_worker(setup, job)
        if job.run.gradient_exchange.local_steps > 1:
            return distributed.LocalSGDTrainer(setup, job)
        return distributed.AllReduceTrainer(setup, job)

    def profiling_trainer(self, setup: TrainingSetup) -> Trainer:
        """Return a trainer that keeps the compiled program of its step."""
        if setup.device == "cuda":
            from horizont.frameworks.jax import cuda

            return cuda.build_profiling_trainer(setup)
        return ProfiledTrainer(setup)

    def profile(
        self, run_steps: Callable[[], None], trainer: Trainer, setup: TrainingSetup, folder: Path
    ) -> list[OperatorCall]:
        """Run steps under JAX's profiler."""
        assert isinstance(trainer, ProfiledTrainer)
        return profile_operators(run_steps, folder, setup, trainer.compiled_step)

    def features(self) -> dict[str, Any]:
        """Return what the installed JAX offers, and train a convolution for a step."""
        jax.block_until_ready(
            jax.jit(jax.grad(_convolution_sum))(jnp.ones((3, 3, 16, 16)), jnp.ones((8, 32, 32, 16)))
        )
        mapped = ("jax.shard_map", "jax.lax.psum")
        return {
            "generic": names_exist(jax, "jax.grad", "jax.lax.conv_general_dilated", "jax.lax.scan"),
            "machines": names_exist(jax, "jax.distributed.initialize"),
            "data_parallel": names_exist(jax, *mapped),
            "model_parallel": names_exist(jax, "jax.sharding.NamedSharding"),
            "sync": names_exist(jax, *mapped),
            "async": feature(False, "jax has no asynchronous trainer"),
            "cpus": feature(jax.devices("cpu"), 'jax.devices("cpu")'),
            "gpus": feature(_gpu_plugins(), 'entry_points(group="jax_plugins")'),
        }


def _convolution_sum(kernel: Any, images: Any) -> Any:
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        images, kernel, (1, 1), "SAME", dimension_numbers=dimensions
    ).sum()


def _gpu_plugins() -> list[str]:
    """Return the installed plugins with which JAX computes on GPUs."""
    names = [plugin.name for plugin in entry_points(group="jax_plugins")]
    return [name for name in names if "cuda" in name or "rocm" in name]


ADAPTER = JaxAdapter()
