"""The small LSTM language model of Zaremba, Sutskever and Vinyals.

"Recurrent neural network regularization", arXiv:1409.2329, 2014: two layers of 200 units, all
weights uniform in [-0.1, 0.1], no dropout in the small model.
"""

from __future__ import annotations

from horizont.networks.layers import LSTM, Dense, Embedding, Shape
from horizont.networks.network import Network

UNITS = 200
INITIAL_LIMIT = 0.1


def build_lstm(input_shape: Shape, classes: int) -> Network:
    """Build the language model for text of (time steps,) over a vocabulary of `classes`."""
    layers = (
        Embedding(name="embedding", words=classes, features=UNITS),
        LSTM(name="lstm1", units=UNITS),
        LSTM(name="lstm2", units=UNITS),
        Dense(name="fc", features=classes),
    )
    return Network("lstm", input_shape, classes, layers, INITIAL_LIMIT)
