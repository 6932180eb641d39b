"""Where time and resources go: the clock, the step log, the sampler, facts of the machine.

The sampler itself, `horizont.measure.sampler`, is run and never imported.
"""

from horizont.measure.background import BackgroundLoad, background_of, watch_background
from horizont.measure.clock import now_s
from horizont.measure.environment import describe_environment
from horizont.measure.handle import SamplerHandle, SamplerOutcome, start_sampler
from horizont.measure.progress import Progress, ProgressWriter, read_progress
from horizont.measure.samples import read_samples, with_rates
from horizont.measure.steps import (
    BACKWARD,
    COMMUNICATION,
    FORWARD,
    LOAD,
    PHASES,
    UPDATE,
    WAITING,
    StepLog,
)

__all__ = [
    "BACKWARD",
    "COMMUNICATION",
    "FORWARD",
    "LOAD",
    "PHASES",
    "UPDATE",
    "WAITING",
    "BackgroundLoad",
    "Progress",
    "ProgressWriter",
    "SamplerHandle",
    "SamplerOutcome",
    "StepLog",
    "background_of",
    "describe_environment",
    "now_s",
    "read_progress",
    "read_samples",
    "start_sampler",
    "watch_background",
    "with_rates",
]
