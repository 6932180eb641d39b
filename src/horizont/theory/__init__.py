"""What the book explains, small enough to be read: NumPy only, arrays in, arrays out."""

from horizont.theory.chapters import chapter_names, questions_of
from horizont.theory.descent import Rule, descend
from horizont.theory.differentiate import backward, finite_differences, forward, gradients
from horizont.theory.formula import Formula, Node, read_formula
from horizont.theory.operations import OPERATIONS
from horizont.theory.questions import Question, answered, gradient_key, path_key, value_key

__all__ = [
    "OPERATIONS",
    "Formula",
    "Node",
    "Question",
    "Rule",
    "answered",
    "backward",
    "chapter_names",
    "descend",
    "finite_differences",
    "forward",
    "gradient_key",
    "gradients",
    "path_key",
    "questions_of",
    "read_formula",
    "value_key",
]
