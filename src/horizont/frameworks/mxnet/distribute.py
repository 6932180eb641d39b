"""MXNet's parameter servers: the KVStore `dist_sync` and `dist_async`.

The servers keep the weights and change them. `dist_sync`: a server waits for the gradients of
all workers, averages them and makes one update. `dist_async`: it makes an update of its own,
with the full learning rate, of each gradient that comes in, the mean over a local batch; a
worker goes on with the weights as they then are.

Each weight is a key. A key with at least MXNET_KVSTORE_BIGARRAY_BOUND numbers (a million by
default) is cut among the servers; a smaller one lies on one of them whole.
"""

from __future__ import annotations

from typing import Any

from horizont.errors import UserError
from horizont.frameworks.base import Ends, Recipe, Weights
from horizont.frameworks.mxnet.compat import mx
from horizont.frameworks.mxnet.input import Batch
from horizont.frameworks.mxnet.noted import Noted, check_whole
from horizont.frameworks.mxnet.optimizer import build_optimizer
from horizont.frameworks.mxnet.stamps import StampedStep
from horizont.frameworks.mxnet.store import join, wait_for_all_at_exit
from horizont.frameworks.mxnet.train import LocalTrainer, Promise
from horizont.frameworks.updates import pushes
from horizont.spec import ProcessJob


class ServedTrainer(LocalTrainer):
    """A worker whose weights are kept and changed by servers."""

    def __init__(self, recipe: Recipe, job: ProcessJob) -> None:
        if recipe.dtype != "float32":
            # The servers take float64 without a word and hand back what float32 leaves of it.
            raise UserError("dtype", recipe.dtype, "float32 with MXNet's servers")
        self.job = job
        self.noted = pushes(job)
        super().__init__(recipe)

    def _prepare_update(self) -> None:
        """Join the servers, hand them the update rule and the initial weights.

        The KVStore numbers the workers as it likes and takes the weights of its number 0; all
        workers hold the same ones. Gluon's Trainer would do this at its first step, and could
        not let go of the store: :meth:`close` must.
        """
        self.store: Any = join(self.job)
        run = self.job.run
        share = 1.0 / run.topology.workers if run.system.sync == "sync" else 1.0
        rule = build_optimizer(self.recipe, rescale=share)
        if self.noted is not None:
            check_whole(self.recipe, self.job)
            rule = Noted(rule, tuple(self.parameters))
        self.store.set_optimizer(rule)
        for key, weight in enumerate(self.data):
            self.store.broadcast(key, weight, out=weight)
        mx.nd.waitall()
        self.receipted = self.data  # each comes back on its own

    def update(self) -> None:
        """Queue the way of the gradients to the servers and of the new weights back.

        The first layers come first, since the next forward pass begins with them. A worker clips
        its own gradients: the servers see one weight at a time and cannot.
        """
        self.clip()
        if self.noted is not None:
            self._note()
        for key, (gradient, weight) in enumerate(zip(self.gradients, self.data, strict=True)):
            self.store.pushpull(key, gradient, out=weight, priority=-key)

    def _note(self) -> None:
        """Note what is about to be sent. Reading the numbers waits for them."""
        assert self.noted is not None
        for part, gradient, weight in zip(self.parameters, self.gradients, self.data, strict=True):
            self.noted.note(part, weight.asnumpy(), gradient.asnumpy())

    def queue_timed_step(self, batch: Batch) -> tuple[Promise, Ends]:
        """Queue one training step with the ends of its phases.

        Each gradient leaves as soon as it is there, as in a bare step; the backward pass has
        ended when all are.
        """
        step = StampedStep()
        losses = self.queue_losses(batch, step)
        self.backward(losses)
        step.ends("backward", after=self.gradients)
        self.update()
        step.ends("communication", holding=self.data)
        return Promise(losses, []), step.told

    def close(self) -> None:
        """Leave together: wait for the other workers, upon which the servers end."""
        mx.nd.waitall()
        if self.noted is not None:
            self.noted.leave(self._served())
        wait_for_all_at_exit(self.store)
        self.store = None  # the last reference: MXNet leaves the job when it frees the store

    def _served(self) -> Weights:
        """Fetch the weights that the servers have when all workers have made their steps."""
        self.store._barrier()
        for key, weight in enumerate(self.data):
            self.store.pull(key, out=weight)
        return self.weights()
