"""Registers the networks in every process that has this folder on its path."""

from blocks import build_blocks
from normed import build_normed

from horizont.networks.catalogue import NETWORKS

NETWORKS |= {"normed": build_normed, "blocks": build_blocks}
