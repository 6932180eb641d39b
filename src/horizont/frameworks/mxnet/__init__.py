"""MXNet: hybridized Gluon networks, Gluon's DataLoader, the KVStore's parameter servers."""

from horizont.frameworks.mxnet.adapter import ADAPTER

__all__ = ["ADAPTER"]
