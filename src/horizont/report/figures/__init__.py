"""The figures of the book: a table in, a figure out, nothing kept between them."""

from horizont.report.figures.equivalence import distances
from horizont.report.figures.input import input_rows
from horizont.report.figures.labels import sentence
from horizont.report.figures.learning import loss_curves, quality_curves, quality_dots
from horizont.report.figures.network import architecture
from horizont.report.figures.operators import operator_bars
from horizont.report.figures.phases import phase_bars, stacked_panels
from horizont.report.figures.resources import resource_charts
from horizont.report.figures.samples import sample_sheet
from horizont.report.figures.scaling import scaling_curves
from horizont.report.figures.staleness import staleness_bars
from horizont.report.figures.startup import startup_bars
from horizont.report.figures.thennow import then_now_bars
from horizont.report.figures.throughput import throughput_dots
from horizont.report.figures.waterfall import waterfall
from horizont.report.figures.wire import link_curves, traffic_dots

__all__ = [
    "architecture",
    "distances",
    "input_rows",
    "link_curves",
    "loss_curves",
    "operator_bars",
    "phase_bars",
    "quality_curves",
    "quality_dots",
    "resource_charts",
    "sample_sheet",
    "scaling_curves",
    "sentence",
    "stacked_panels",
    "staleness_bars",
    "startup_bars",
    "then_now_bars",
    "throughput_dots",
    "traffic_dots",
    "waterfall",
]
