"""What a comparison says of a graph: a file for evaluation, which holds weights and is not trained.

An exporter folds norms into convolutions, omits a bias of zeros, and computes once what depends on
weights alone. What the model has and the graph does not have as a layer is then in its constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from horizont.modeldiff.comparison import Comparison
from horizont.modeldiff.distances import distance
from horizont.modeldiff.recording import Layer, Request
from horizont.modeldiff.report import IN_SINGLE_PRECISION, Report, named

#: The end of the name of a norm that was folded into a convolution.
FOLDED = "[norm]"

#: Results of the same weights, which a file has in single precision, differ by less.
_SAME_WEIGHTS = 1e-4


def with_graphs(report: Report, comparison: Comparison) -> Report:
    """Add what is special about graphs to the report of a comparison that has a verdict."""
    a, b = comparison.a, comparison.b
    if not comparison.has_graph:
        return report
    parts = ["training was not compared, a graph has evaluation only"]
    if folded := _folded([pair.b for pair in comparison.pairs]):
        norms = "a norm is" if folded == 1 else f"{folded} norms are"
        parts.append(f"{norms} folded into convolutions of side {b.name}")
    results = [each.run(Request(each.weights()))["result"] for each in (a, b)]
    apart = distance(results[0], results[1])
    has_other = not apart < _SAME_WEIGHTS
    how = "differ" if has_other else "agree"
    parts.append(f"with the weights of each side, the results {how}, distance {apart:.2g}")
    # Where functions differ, results say nothing about weights.
    has_other = has_other and not (report.repairs or report.unexplained)
    report = replace(report, has_other_weights=has_other)
    if IN_SINGLE_PRECISION in report.notes:  # as a file does
        report = replace(report, unexplained=())
    alone = comparison.pairing.alone_a
    if alone and not (report.unexplained or comparison.pairing.alone_b):
        parts.append(f"side {b.name} has {named(alone)} in its constants")
        is_a = a.name == "A"
        report = replace(report, only_a=()) if is_a else replace(report, only_b=())
    return replace(report, notes=("; ".join(parts), *report.notes))


def _folded(layers: Sequence[Layer]) -> int:
    return sum(layer.name.endswith(FOLDED) for layer in layers)
