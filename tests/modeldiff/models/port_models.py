"""Ports with mistakes that are usual between frameworks, as modules of PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Heads(nn.Module):
    """Two results, as a tuple or by name; a dictionary may have another order."""

    def __init__(self, form: str = "tuple", *, squashed: bool = True) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 2)
        self.form, self.squashed = form, squashed

    def forward(self, x: Any) -> Any:
        """Return both results."""
        x = torch.relu(self.a(x))
        first, second = self.b(x), self.c(x)
        second = torch.sigmoid(second) if self.squashed else second
        if self.form == "tuple":
            return first, second
        if self.form == "one":
            return first
        if self.form in ("logits", "last_hidden_state"):
            return {"auxiliary": second, self.form: first}
        return {"z": second, "y": first} if self.form == "reversed" else {"y": first, "z": second}


class Dropped(nn.Sequential):
    """With dropout of some rate; 0 for none."""

    def __init__(self, rate: float) -> None:
        super().__init__(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(rate), nn.Linear(16, 3))


def half() -> nn.Module:
    """Return a model with parameters of 16 bits."""
    return Dropped(0.0).half()


class Leaky(nn.Sequential):
    """With a leaky ReLU."""

    def __init__(self, slope: float) -> None:
        super().__init__(nn.Linear(8, 16), nn.LeakyReLU(slope), nn.Linear(16, 3))


class Grouped(nn.Module):
    """With a group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.g = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8, eps=1e-3)
        self.o = nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        """Return the result."""
        return self.o(torch.relu(self.g(self.c(x))))


class Larger(nn.Module):
    """Twice as large by interpolation."""

    def __init__(self, mode: str = "bilinear", aligned: bool | None = False) -> None:
        super().__init__()
        self.c, self.o = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 2, 3, padding=1)
        self.mode, self.aligned = mode, aligned

    def forward(self, x: Any) -> Any:
        """Return the result."""
        x = torch.relu(self.c(x))
        return self.o(F.interpolate(x, scale_factor=2, mode=self.mode, align_corners=self.aligned))


class Transposed(nn.Module):
    """Twice as large by a transposed convolution, of which it cuts the last row and column."""

    def __init__(self, *, cut: bool = True) -> None:
        super().__init__()
        own = {} if cut else {"padding": 1, "output_padding": 1}
        self.c, self.u = nn.Conv2d(3, 6, 3, padding=1), nn.ConvTranspose2d(6, 4, 3, 2, **own)
        self.o, self.cut = nn.Conv2d(4, 2, 3, padding=1), cut

    def forward(self, x: Any) -> Any:
        """Return the result."""
        x = self.u(torch.relu(self.c(x)))
        return self.o(torch.relu(x[:, :, :-1, :-1] if self.cut else x))


class Scaled(nn.Module):
    """A scale of its own after a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.o = nn.Linear(8, 8), nn.Linear(8, 3)
        self.g = nn.Parameter(torch.full((8,), 0.1))

    def forward(self, x: Any) -> Any:
        """Return the result."""
        return self.o(x + self.g * self.a(x))


class Gated(nn.Module):
    """The last step of a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.r, self.o = (
            nn.Embedding(50, 12),
            nn.GRU(12, 16, batch_first=True),
            nn.Linear(16, 3),
        )

    def forward(self, x: Any) -> Any:
        """Return the result."""
        return self.o(self.r(self.e(x))[0][:, -1])


class Decoder(nn.Module):
    """Features that become images."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.o = nn.Linear(8, 6 * 4 * 4), nn.Conv2d(6, 2, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """Return the result."""
        return self.o(torch.relu(self.a(x)).view(-1, 6, 4, 4))


class Tied(nn.Module):
    """Words in and out, with one matrix or two."""

    def __init__(self, *, tied: bool = True) -> None:
        super().__init__()
        self.i, self.o = nn.Embedding(50, 12), nn.Linear(12, 50, bias=False)
        if tied:
            self.o.weight = self.i.weight

    def forward(self, x: Any) -> Any:
        """Return the result."""
        return self.o(torch.tanh(self.i(x)))


class Tokens(nn.Module):
    """Words, whose vectors may be scaled, before a dense layer and a norm."""

    def __init__(self, scale: float = 1.0, epsilon: float = 1e-12) -> None:
        super().__init__()
        self.e, self.a, self.o = nn.Embedding(50, 8), nn.Linear(8, 16), nn.Linear(16, 3)
        self.n = nn.LayerNorm(16, epsilon)
        self.scale = scale

    def forward(self, words: Any) -> Any:
        """Return the result."""
        x = self.e(words)
        return self.o(torch.relu(self.n(self.a(x if self.scale == 1.0 else self.scale * x))))


class Infinite(nn.Module):
    """Divides by zero."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Return the result."""
        return self.b(self.a(x) / 0.0)


class MeanSquareNorm(nn.Module):
    """A norm by the root of the mean square that a model defines itself."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: Any) -> Any:
        """Return the normalized features."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def normed(*, own: bool = False) -> nn.Module:
    """Return a model with a norm of PyTorch, or its own."""
    norm = MeanSquareNorm(16) if own else nn.RMSNorm(16, 1e-6)
    return nn.Sequential(nn.Linear(8, 16), norm, nn.Linear(16, 3))


def by_groups(groups: int = 4, *, by_channel: bool = False) -> nn.Module:
    """Return a model with a norm of groups of channels, or of each channel."""
    norm = nn.InstanceNorm2d(8, affine=True) if by_channel else nn.GroupNorm(groups, 8)
    return nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Conv2d(8, 4, 1))


def weight_normed() -> nn.Module:
    """Return a model whose kernels are computed from others."""
    normed = nn.utils.parametrizations.weight_norm
    return nn.Sequential(normed(nn.Conv2d(3, 8, 3)), nn.ReLU(), normed(nn.Conv2d(8, 4, 1)))


def trained(*, amsgrad: bool = False) -> Any:
    """Return a model with its optimizer and loss."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, amsgrad=amsgrad)
    return model, optimizer, nn.CrossEntropyLoss()


class Squeezed(nn.Module):
    """A gate of channels, from their means or their largest values."""

    def __init__(self, *, largest: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 1), nn.Conv2d(6, 2, 1)
        self.largest = largest

    def forward(self, x: Any) -> Any:
        """Return the images after the gate."""
        x = torch.relu(self.a(x))
        pooled = x.amax((2, 3), True) if self.largest else x.mean((2, 3), True)
        return self.c(x * torch.sigmoid(self.b(pooled)))


class Joined(nn.Module):
    """Two branches, side by side."""

    def __init__(self, *, exchanged: bool = False) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 6), nn.Linear(8, 4), nn.Linear(10, 3)
        self.exchanged = exchanged

    def forward(self, x: Any) -> Any:
        """Return a function of both branches."""
        branches = [torch.relu(self.a(x)), torch.tanh(self.b(x))]
        return self.c(torch.cat(branches[::-1] if self.exchanged else branches, 1))


class Recurrent(nn.Module):
    """One step of an LSTM, or a function of all steps."""

    def __init__(self, reduction: str = "last") -> None:
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(50, 12), nn.LSTM(12, 16), nn.Linear(16, 3)
        self.r.batch_first = True
        self.reduction = reduction

    def forward(self, words: Any) -> Any:
        """Return a function of the steps."""
        x = self.r(self.e(words))[0]
        reduced = {"last": x[:, -1], "first": x[:, 0], "mean": x.mean(1), "max": x.amax(1)}
        return self.o(reduced[self.reduction])


def weighted(kind: str = "classes", weights: Any = None) -> Any:
    """Return a model with a loss whose classes may have weights, or one of a single number."""
    if kind == "classes":
        given = None if weights is None else torch.tensor(weights, dtype=torch.float64)
        return nn.Sequential(nn.Linear(8, 3)), nn.CrossEntropyLoss(given)
    losses: dict[str, Any] = {
        "binary": nn.BCEWithLogitsLoss(), "squared": nn.MSELoss(), "absolute": nn.L1Loss(),
        "of a column": lambda result, targets: F.l1_loss(result[:, 0], targets),
    }  # fmt: skip
    return nn.Sequential(nn.Linear(8, 1)), losses[kind]


class GatedUnit(nn.Module):
    """A gated linear unit, of two layers or of the halves of one."""

    def __init__(self, *, joint: bool = False, exchanged: bool = False, tanh: bool = False) -> None:
        super().__init__()
        if joint:
            self.a = nn.Linear(8, 24)
        else:
            self.g, self.u = nn.Linear(8, 12), nn.Linear(8, 12)
        self.o = nn.Linear(12, 3)
        self.joint, self.exchanged, self.tanh = joint, exchanged, tanh

    def forward(self, x: Any) -> Any:
        """Return a function of the product."""
        gate, value = self.a(x).chunk(2, -1) if self.joint else (self.g(x), self.u(x))
        if self.exchanged:
            gate, value = value, gate
        return self.o((torch.tanh(gate) if self.tanh else F.silu(gate)) * value)


class Windows(nn.Module):
    """Convolutions of several widths over words, each reduced to its largest or mean value."""

    def __init__(self, widths: tuple[int, ...] = (3, 4, 5), reduction: str = "max") -> None:
        super().__init__()
        self.e, self.o = nn.Embedding(50, 12), nn.Linear(24, 2)
        self.c = nn.ModuleList([nn.Conv1d(12, 8, width) for width in (3, 4, 5)])
        self.widths, self.reduction = widths, reduction

    def forward(self, words: Any) -> Any:
        """Return a function of the features side by side."""
        x = self.e(words).transpose(1, 2)
        images = [torch.relu(self.c[width - 3](x)) for width in self.widths]
        pooled = [x.amax(2) if self.reduction == "max" else x.mean(2) for x in images]
        return self.o(torch.cat(pooled, 1))
