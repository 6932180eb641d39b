"""Resource sampling with psutil, background load, machine facts, process control.

All times of a record are read with `time.monotonic`. On Linux that is ``CLOCK_MONOTONIC``: seconds
since the machine started, the same in every process and never set back with the wall clock, so
that the steps of several workers and the samples of the sampler can be compared without
correction. `time.perf_counter` reads the same clock there, but guarantees nothing across processes;
``CLOCK_MONOTONIC_RAW`` ticks at the rate of the oscillator, not in seconds. Between machines these
times cannot be compared.
"""
