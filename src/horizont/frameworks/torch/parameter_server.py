"""A PyTorch worker whose weights are kept and changed by servers.

PyTorch has no parameter server of its own; this one is made of what its process group offers
between two members, send and receive. After the backward pass a worker sends each server its
slice of the gradient and receives the slice's new weights in return.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from horizont.frameworks.base import Mark, Recipe, Weights
from horizont.frameworks.torch.distribute import join, leave
from horizont.frameworks.torch.input import Batch
from horizont.frameworks.torch.model import named_weights
from horizont.frameworks.torch.shards import bounds, part_name, shards
from horizont.frameworks.torch.train import LocalTrainer
from horizont.frameworks.updates import pushes
from horizont.spec import ProcessJob


class ServedTrainer(LocalTrainer):
    """A worker that sends gradients and receives weights.

    Attributes
    ----------
    flat
        All weights in a row. The module's weights are views of it, so that what the servers
        send is in its place when it has come.
    """

    def __init__(self, recipe: Recipe, job: ProcessJob) -> None:
        super().__init__(recipe)
        topology = job.run.topology
        self.members = [weight for _, weight in named_weights(self.module)]
        self.flat = parameters_to_vector(self.members).detach()
        vector_to_parameters(self.flat, self.members)
        slices = bounds(len(self.flat), topology.servers)
        self.servers = {topology.workers + place: cut for place, cut in enumerate(slices)}
        self.noted = pushes(job)
        join(job)
        if job.rank == 0:
            self._hand_over()

    def _hand_over(self) -> None:
        """Tell the servers the update rule and the initial weights; all workers hold the same."""
        described = shards(self.recipe, self.module, len(self.servers))
        for (server, (first, behind)), shard in zip(self.servers.items(), described, strict=True):
            dist.send_object_list([shard], server)
            dist.send(self.flat[first:behind], server)

    def step(self, batch: Batch) -> torch.Tensor:
        """Make one training step."""
        loss = self.forward(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.exchange()
        return loss.detach()

    def timed_step(self, batch: Batch, mark: Mark) -> torch.Tensor:
        """Make the same step, phase by phase."""
        loss = self.forward(batch)
        mark("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        mark("backward")
        self.exchange()
        mark("communication")
        return loss.detach()

    def exchange(self) -> None:
        """Send the gradient to the servers and receive the new weights.

        To receive is asked for first: a server's answer then never waits for this worker. A
        worker clips its own gradient: a server sees a slice of it.
        """
        self.clip()
        gradients = [weight.grad for weight in self.members if weight.grad is not None]
        gradient = parameters_to_vector(gradients)
        self._note(gradient)
        under_way = [
            transfer
            for server, (first, behind) in self.servers.items()
            for transfer in (
                dist.irecv(self.flat[first:behind], server),
                dist.isend(gradient[first:behind], server),
            )
        ]
        for transfer in under_way:
            if transfer is not None:
                transfer.wait()

    def _note(self, gradient: torch.Tensor) -> None:
        """Note what is about to be sent, if the updates are recorded."""
        if self.noted is None:
            return
        for first, behind in self.servers.values():
            weights = self.flat[first:behind].numpy()
            self.noted.note(part_name(first, behind), weights, gradient[first:behind].numpy())

    def optimizer_state(self) -> Weights:
        """Read nothing: what the optimizer keeps is on the servers."""
        return {}

    def close(self) -> None:
        """Leave together; the servers, which know how many steps there are, leave too."""
        if self.noted is not None:
            self.noted.leave(self._served() if self.noted.wants_served else {})
        leave()

    def _served(self) -> Weights:
        """Receive the weights that the servers have when all workers have made their steps."""
        for server, (first, behind) in self.servers.items():
            dist.recv(self.flat[first:behind], server)
        return self.weights()
