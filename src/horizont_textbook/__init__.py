"""Theory chapters, one module each; may import horizont, never the other way round."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
