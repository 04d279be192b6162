"""What transformers that train a network cost: bills of heads and units, added up under four models.

A bill lists, layer by layer, families of heads that read r numbers a side and move m numbers, and hidden
units with their non-zero entries. The same bill is charged as
    dense       every head has D x D matrices Q, K and V, every unit D weights in and D out
    linear      every head has matrices of r, r, m and m rows of length D: cost linear in D
    nonzeros    only entries that are not zero, every pair of tokens
    structured  what this package runs: pairs of tokens only where both sides differ
Two operations per entry of a matrix product. D is the token width, T the number of tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from icgd.errors import InvalidParameter

MODELS = ("dense", "linear", "nonzeros", "structured")


@dataclass(frozen=True)
class FitSize:
    """A sum of M units sigma(a_m . features): how many have a weight other than 0 on each feature.

    >>> FitSize.full(3, 2).uses
    (3, 3)
    """

    n_units: int
    uses: tuple[int, ...]

    @classmethod
    def full(cls, n_units: int, n_features: int) -> FitSize:
        """A fit whose units weigh every feature."""
        return cls(n_units, (n_units,) * n_features)


@dataclass(frozen=True)
class Heads:
    """`n_units` x `fit.n_units` attention heads.

    keys    numbers each feature reads on either side   values  numbers a head moves
    """

    n_units: int
    fit: FitSize
    keys: tuple[int, ...]
    values: int

    @property
    def n_heads(self) -> int:
        """U x M."""
        return self.n_units * self.fit.n_units

    @property
    def hidden(self) -> int:
        """No feed-forward units."""
        return 0

    @property
    def key_width(self) -> int:
        """The number r of components of a query."""
        return sum(self.keys)

    def entries(self, model: str, d_token: int) -> int:
        """Stored numbers."""
        if model == "dense":
            return 3 * d_token**2 * self.n_heads
        if model == "linear":
            return 2 * d_token * (self.key_width + self.values) * self.n_heads
        used = sum(n * r for n, r in zip(self.fit.uses, self.keys, strict=True))
        return 2 * self.n_units * used + self.n_heads * self.values

    def flops(self, model: str, d_token: int, n_tokens: int) -> int:
        """Operations on n_tokens tokens."""
        D, T, r, m = d_token, n_tokens, self.key_width, self.values
        if model == "dense":
            return self.n_heads * (6 * D * D * T + 4 * D * T * T)
        if model == "linear":
            return self.n_heads * (4 * T * D * (r + m) + 2 * T * T * (r + m))
        if model == "nonzeros":
            return self.n_heads * (2 * T * (2 * r + m) + 2 * T * T * (r + m))
        per_unit = 2 * r + 2 * m + self.fit.n_units * (2 * len(self.keys) + 2)
        return T * self.n_units * per_unit


@dataclass(frozen=True)
class Products:
    """Heads of an element-wise multiplication layer: <h[q], h[k]> h[v] of one token, q and k r numbers.

    Statement: [DEEP] Definition 6

    Differs from the paper: no.
    """

    n_heads: int
    key_width: int

    @property
    def hidden(self) -> int:
        """No feed-forward units."""
        return 0

    def entries(self, model: str, d_token: int) -> int:
        """Stored numbers."""
        if model == "dense":
            return 3 * d_token**2 * self.n_heads
        if model == "linear":
            return 2 * d_token * (self.key_width + 1) * self.n_heads
        return self.n_heads * (2 * self.key_width + 1)

    def flops(self, model: str, d_token: int, n_tokens: int) -> int:
        """Operations on n_tokens tokens."""
        D, T, r = d_token, n_tokens, self.key_width
        mixing = 2 * r + 2
        if model == "dense":
            return self.n_heads * (6 * D * D * T + 4 * D * T)
        if model == "linear":
            return self.n_heads * T * (4 * D * (r + 1) + mixing)
        if model == "nonzeros":
            return self.n_heads * T * (2 * (2 * r + 1) + mixing)
        return self.n_heads * T * mixing


@dataclass(frozen=True)
class Units:
    """Feed-forward units with their non-zero weights, in and out."""

    hidden: int
    nonzeros: int

    @property
    def n_heads(self) -> int:
        """No heads."""
        return 0

    def entries(self, model: str, d_token: int) -> int:
        """Stored numbers."""
        return 2 * self.hidden * d_token if model in ("dense", "linear") else self.nonzeros

    def flops(self, model: str, d_token: int, n_tokens: int) -> int:
        """Operations on n_tokens tokens."""
        return 2 * n_tokens * self.entries(model, d_token)


Part = Heads | Products | Units


@dataclass(frozen=True)
class LayerBill:
    """The parts of one sublayer, and the coordinates each reads or writes."""

    name: str
    parts: tuple[Part, ...]
    carried: tuple[int, ...] = ()

    @property
    def n_heads(self) -> int:
        """Heads of all parts."""
        return sum(part.n_heads for part in self.parts)

    @property
    def hidden(self) -> int:
        """Feed-forward units of all parts."""
        return sum(part.hidden for part in self.parts)


@dataclass(frozen=True)
class Bill:
    """One step of gradient descent: token width, layers as the paper counts them, sublayers."""

    d_token: int
    n_layers: int
    layers: tuple[LayerBill, ...]

    @property
    def parts(self) -> list[Part]:
        """All parts of all layers."""
        return [part for layer in self.layers for part in layer.parts]

    @property
    def n_heads(self) -> int:
        """Heads of all layers."""
        return sum(layer.n_heads for layer in self.layers)

    @property
    def hidden(self) -> int:
        """Feed-forward units of all layers."""
        return sum(layer.hidden for layer in self.layers)

    def entries(self, model: str = "dense") -> int:
        """Stored numbers: parameters (dense), narrow matrices (linear), or non-zeros."""
        check_model(model)
        return sum(part.entries(model, self.d_token) for part in self.parts)

    def flops(self, n_tokens: int, model: str = "dense") -> int:
        """Operations of one step on n_tokens tokens."""
        check_model(model)
        return sum(part.flops(model, self.d_token, n_tokens) for part in self.parts)

    def masked_flops(self, n_tokens: int, model: str = "dense") -> int:
        """The same if every part carries only the coordinates it reads and writes.

        Statement: [COT] Remark 4.1

        Differs from the paper: it is the saving of a mask alone, without the chain of thought; layers that
        serve all N network layers at once are split into N.
        """
        check_model(model)
        return sum(
            part.flops(model, width, n_tokens)
            for layer in self.layers
            for part, width in zip(layer.parts, layer.carried, strict=True)
        )


def check_model(model: str) -> None:
    """Complain about a name that is none."""
    if model not in MODELS:
        raise InvalidParameter("model", model, f"be one of {', '.join(MODELS)}")


def exponent(f: Callable[[int], float], low: int, high: int) -> float:
    """The power of n with which f grows from n = low to n = high.

    >>> exponent(lambda n: 5.0 * n**3, 4, 8)
    3.0
    """
    return math.log2(f(high) / f(low)) / math.log2(high / low)


def n_weights(widths: Sequence[int], bias: bool, n_layers: int | None = None) -> int:
    """Weights of the first layers (all unless told), biases included.

    >>> n_weights((3, 4, 2), True)
    26
    """
    n = len(widths) - 1 if n_layers is None else n_layers
    return sum(widths[j] * (widths[j - 1] + bias) for j in range(1, n + 1))


def gradient_flops(widths: Sequence[int]) -> int:
    """Matrix products of one example's gradient: W o, W^T delta for all layers but the first, delta o^T.

    Statement: [DEEP] B.3

    Differs from the paper: it says O(N K^2) per example; this is 6 N K^2 less the input's own gradient.

    >>> gradient_flops((3, 4, 2))
    96
    """
    products = [a * b for a, b in pairwise(widths)]
    return 6 * sum(products) - 2 * products[0]


def deep_flops_order(n_examples: int, steps: int, n_layers: int, width: int, error: float) -> float:
    """n L N^3 K^5 / eps^2: the printed order of a whole run of the stack, without its constant.

    Statement: [DEEP] B.3

    Differs from the paper: no; but attention is quadratic in n and a sum of ReLUs needs eps^-1/2 units
    (`deep_flops_corrected`).
    """
    return n_examples * steps * n_layers**3 * width**5 / error**2


def deep_flops_corrected(
    n_examples: int, steps: int, n_layers: int, width: int, n_relu: int
) -> float:
    """12 M n L N^3 K^5 + 8 M n^2 L N^2 K^3, M units per fit: what dense layers do in the limit.

    Statement: [DEEP] B.3

    2 N K M heads of D x D matrices with D ~ N K^2 cost 6 D^2 T + 4 D T^2 each.

    Differs from the paper: the second term, which leads as soon as n > 1.5 N K^2, is missing there.
    """
    n, L, N, K, M = n_examples, steps, n_layers, width, n_relu
    return 12 * M * n * L * N**3 * K**5 + 8 * M * n**2 * L * N**2 * K**3
