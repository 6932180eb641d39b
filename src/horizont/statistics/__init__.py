"""Estimates with their uncertainty: arrays in, numbers out."""
