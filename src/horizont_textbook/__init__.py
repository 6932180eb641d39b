"""Theory chapters, one module each; may import horizont, never the other way round."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

#: What a process of a chapter reads and writes in its working folder, pickled.
INPUTS_FILE, RESULTS_FILE = "inputs.pickle", "results.pickle"
