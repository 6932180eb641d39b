"""The pictures of the theory notebooks: numbers in, pictures out."""

from horizont.report.lessons import graphs, neuron

__all__ = ["graphs", "neuron"]
