"""Data sets: catalogue, verified reading, synthetic stand-ins and the order of the examples."""
