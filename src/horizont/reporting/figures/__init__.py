"""The figures of the book: a table in, a figure out, nothing kept between them."""

from horizont.reporting.figures.communication import link_curves, scaling_curves, traffic_dots
from horizont.reporting.figures.equivalence import architecture_chart, distance_chart, sample_sheet
from horizont.reporting.figures.input import input_chart, staleness_bars
from horizont.reporting.figures.learning import evaluation_curves, final_metric_dots, loss_curves
from horizont.reporting.figures.phases import (
    operator_bars,
    phase_bars,
    published_vs_measured_bars,
    stacked_panels,
    startup_bars,
)
from horizont.reporting.figures.resources import resource_charts
from horizont.reporting.figures.throughput import message_figure, throughput_dots
from horizont.reporting.figures.waterfall import waterfall_chart

__all__ = [
    "architecture_chart",
    "distance_chart",
    "input_chart",
    "link_curves",
    "loss_curves",
    "operator_bars",
    "phase_bars",
    "evaluation_curves",
    "final_metric_dots",
    "resource_charts",
    "sample_sheet",
    "scaling_curves",
    "message_figure",
    "stacked_panels",
    "staleness_bars",
    "startup_bars",
    "published_vs_measured_bars",
    "throughput_dots",
    "traffic_dots",
    "waterfall_chart",
]
