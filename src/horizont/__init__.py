"""Finds out which framework, synchronisation and architecture trains a network fastest."""
