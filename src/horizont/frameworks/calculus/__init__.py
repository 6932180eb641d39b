"""Formulas answered by each framework, with its own operations and its own differentiation.

For the theory notebooks. It trains nothing and belongs to no measurement: a change here leaves
all records of runs valid.
"""
