"""Registers the network in every process that has this folder on its path."""

from normed import build_normed

from horizont.networks.catalogue import NETWORKS

NETWORKS["normed"] = build_normed
