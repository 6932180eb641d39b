"""One of several PyTorch processes that average their gradients: DistributedDataParallel."""

import os
import socket

import numpy as np
import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])

# init_process_group("gloo") would do the same with these four variables, but listen on all
# network addresses. Here the first process listens on its own address only.
listener = socket.create_server((host, port)).detach() if rank == 0 else None
store = dist.TCPStore(host, port, workers, is_master=rank == 0, master_listen_fd=listener)
dist.init_process_group("gloo", store=store, rank=rank, world_size=workers)

examples = np.load("../examples.npz")
own = slice(rank, None, workers)  # every n-th example of each batch

model = torch.nn.Linear(6, 3)
for weights in model.parameters():
    torch.nn.init.zeros_(weights)
replica = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

losses = []
for x, labels in zip(examples["x"], examples["labels"], strict=True):
    scores = replica(torch.tensor(x[own]))
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor(labels[own]))
    optimizer.zero_grad()
    # The backward pass averages the gradients over all processes.
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

weight, bias = (each.detach().numpy() for each in model.parameters())
np.savez("result.npz", losses=losses, weight=weight.T, bias=bias)
dist.barrier()  # a process that leaves while another still communicates can abort it
dist.destroy_process_group()
# Threads of gloo may outlive the group; one that takes Python's global lock while Python ends would
# abort the process. So it ends at once.
os._exit(0)
