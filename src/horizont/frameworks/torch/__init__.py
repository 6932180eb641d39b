"""PyTorch: eager networks, DataLoader, DistributedDataParallel over gloo."""

from horizont.frameworks.torch.adapter import ADAPTER

__all__ = ["ADAPTER"]
