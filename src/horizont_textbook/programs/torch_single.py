"""One PyTorch process."""

import numpy as np
import torch

torch.set_num_threads(1)
examples = np.load("../examples.npz")

model = torch.nn.Linear(6, 3)
for weights in model.parameters():
    torch.nn.init.zeros_(weights)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

losses = []
for x, labels in zip(examples["x"], examples["labels"], strict=True):
    loss = torch.nn.functional.cross_entropy(model(torch.tensor(x)), torch.tensor(labels))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

weight, bias = (each.detach().numpy() for each in model.parameters())
np.savez("result.npz", losses=losses, weight=weight.T, bias=bias)
