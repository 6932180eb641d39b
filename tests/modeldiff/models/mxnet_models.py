"""Models of MXNet that other files have in other frameworks."""

from __future__ import annotations

from typing import Any

import mxnet as mx

nn, rnn = mx.gluon.nn, mx.gluon.rnn


def gelu(F: Any, x: Any) -> Any:
    """Return the other GELU: the operators for GELU and erf have parts in single precision."""
    return 0.5 * x * (1.0 + F.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def images(activation: str = "relu", epsilon: float = 1e-5) -> Any:
    """Return the network `Images` of the models of PyTorch."""
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(8, 3, 2, 1, use_bias=False),
        nn.BatchNorm(epsilon=epsilon),
        nn.Activation(activation),
        nn.Conv2D(6, 3, 1, 1),
        nn.HybridLambda(gelu),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Dense(16, activation="tanh"),
        nn.Dropout(0.5),
        nn.Dense(5),
    )
    return net


class Gates(mx.gluon.HybridBlock):
    """The recurrent network `Gates` of the models of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = rnn.LSTM(4, layout="NTC", input_size=5)
        self.gru = rnn.GRU(6, layout="NTC", input_size=4)
        self.head = nn.Dense(3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the scores of the last step."""
        x = self.gru(self.lstm(x))
        return self.head(F.squeeze(F.slice_axis(x, axis=1, begin=-1, end=None), axis=1))


def words() -> Any:
    """Return the network `words` of the models of PyTorch."""
    net = nn.HybridSequential()
    net.add(nn.Embedding(20, 8), nn.Dense(4, flatten=False))
    return net
