"""Where time and resources go: the clock, the sampler, facts of the machine.

The sampler itself, `horizont.monitoring.sampler`, is run and never imported.
"""

from horizont.monitoring.background import (
    BackgroundLoad,
    background_from_samples,
    measure_background,
)
from horizont.monitoring.clock import now_s
from horizont.monitoring.environment import describe_environment
from horizont.monitoring.handle import SamplerClient, SamplerResult, start_sampler
from horizont.monitoring.progress import StepCount, StepCounter, read_step_count
from horizont.monitoring.samples import read_samples, with_rates

__all__ = [
    "BackgroundLoad",
    "StepCount",
    "StepCounter",
    "SamplerClient",
    "SamplerResult",
    "background_from_samples",
    "describe_environment",
    "now_s",
    "read_step_count",
    "read_samples",
    "start_sampler",
    "measure_background",
    "with_rates",
]
