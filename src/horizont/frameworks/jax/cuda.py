"""Training with JAX on a GPU.

JAX has no events of the device: the end of a phase is when this process has waited for its program.
Each phase therefore includes the launch of its program, some ten microseconds.
"""

from __future__ import annotations

import os
from typing import ClassVar

import jax

from horizont.config.jobs import WorkerJob
from horizont.frameworks import base
from horizont.frameworks.jax.distributed import AllReduceTrainer, LocalSGDTrainer, WorkerTrainer
from horizont.frameworks.jax.input import Batch
from horizont.frameworks.jax.profiler import ProfiledTrainer
from horizont.frameworks.jax.train import LocalTrainer

#: The variant whose matrix products and convolutions round float32 inputs to TF32.
TF32 = "tf32"


def configure() -> None:
    """Compute on GPUs, and allocate their memory as it is needed.

    By default JAX allocates three quarters of it at once, and samples would show that.
    """
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax.config.update("jax_platforms", "cuda")


def build_trainer(setup: base.TrainingSetup) -> CudaTrainer:
    """Return the trainer of a single process."""
    set_float32_precision(setup.variant)
    return CudaTrainer(setup)


def build_profiling_trainer(setup: base.TrainingSetup) -> CudaProfiledTrainer:
    """Return a trainer that keeps the compiled program of its step."""
    set_float32_precision(setup.variant)
    return CudaProfiledTrainer(setup)


def build_worker(setup: base.TrainingSetup, job: WorkerJob) -> WorkerTrainer:
    """Join the other workers of the job, and return the trainer of a worker."""
    set_float32_precision(setup.variant)
    if job.run.gradient_exchange.local_steps > 1:
        return CudaLocalSGDTrainer(setup, job)
    return CudaAllReduceTrainer(setup, job)


def set_float32_precision(variant: str) -> None:
    """Set TF32 on for its variant and off otherwise: JAX uses it by default."""
    precision = "tensorfloat32" if variant == TF32 else "highest"
    jax.config.update("jax_default_matmul_precision", precision)  # of convolutions, too


class CudaTrainer(LocalTrainer):
    """The trainer of a single process on a GPU."""

    def instrumented_step(self, batch: Batch, mark: base.PhaseMark) -> jax.Array:
        """Run one training step; the load phase ends when the batch has been copied."""
        jax.block_until_ready(batch)
        mark("load")
        return super().instrumented_step(batch, mark)


class CudaProfiledTrainer(CudaTrainer, ProfiledTrainer):
    """A trainer that launches each kernel by itself.

    In the timed program XLA combines kernels to graphs, whose kernels the profiler does not assign
    to instructions.
    """

    compiler_options: ClassVar[dict[str, str]] = {"xla_gpu_enable_command_buffer": ""}


class CudaAllReduceTrainer(CudaTrainer, AllReduceTrainer):
    """A worker on a GPU that averages gradients through NCCL."""


class CudaLocalSGDTrainer(CudaTrainer, LocalSGDTrainer):
    """A worker on a GPU that averages the weights through NCCL."""
