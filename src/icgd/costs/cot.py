"""What the one frozen layer of a chain of thought costs, per call, per example and per prompt.

d is the common width of all network layers, B the width of a block, W that of the working token, G that of
a grid token, p the number of grid tokens, c = d the columns of a block. A round is one example: 2N calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from icgd.costs.formulas import check_model


@dataclass(frozen=True)
class CotSizes:
    """Sizes of the layer for width d, with or without biases and a linear output.

    Statement: [COT] Definition 4.3

    Differs from the paper: 3 + d^2 + 3d (+ d with biases, + 1) entries a block, where it has
    1 + 3d + d^2; the layer's own widths are not in the paper.

    >>> CotSizes(4).d_token, CotSizes(4).n_heads
    (36, 8)
    """

    d: int
    bias: bool = True
    linear_output: bool = True
    n_grid: int = 32

    @property
    def d_token(self) -> int:
        """B: entries of a block's column."""
        return self.d**2 + (3 + self.bias) * self.d + self.linear_output + 3

    @property
    def working(self) -> int:
        """W: entries of a column between the two feed-forward layers."""
        return 2 * self.d**2 + (5 + self.bias) * self.d + self.linear_output + 3

    @property
    def grid(self) -> int:
        """G: entries of a grid token."""
        return 2 * self.d**2 + self.d + 2

    @property
    def n_heads(self) -> int:
        """Heads of the layer."""
        return 2 * self.d

    @property
    def values(self) -> int:
        """Numbers all heads collect together: column and delta for d of them, a row for d."""
        return 3 * self.d**2

    @property
    def routing_units(self) -> int:
        """Hidden units of the first feed-forward layer: two a gated number, few for the flags."""
        return 8 * self.d**2 + 12 * (1 + self.bias) * self.d + 4 + 5 * self.linear_output

    @property
    def activation_units(self) -> int:
        """Hidden units of the second feed-forward layer."""
        return (4 + self.linear_output) * self.d

    @property
    def routing_nonzeros(self) -> tuple[int, int]:
        """(weights, biases) that are not zero in the first feed-forward layer.

        Each gated number has two units; a unit reads its sources and the flags that shut it, and writes once.
        Flags that shut: two for x and y steps, one for forward and backward.
        """
        d, b, lin = self.d, self.bias, self.linear_output
        # Copies of (query d, W d^2, with biases b twice): read 1 + flags, write 1.
        forward = 2 * (d + d * d + 2 * b * d) * ((3 + 1) + (2 + 1))
        # y: query, W, b copied; delta = o - y reads two, and one more where its unit is closed.
        y = 2 * (d + d * d + b * d) * 4 + 2 * d * (5 + (not lin))
        backward = 2 * (d + d * d + b * d) * 3 + 2 * d * 4
        # Flags: is_forward (and hidden, with an activated output) twice, is_backward twice.
        raised = (2 + 1) + (1 + 1) if lin else (2 + 2) + (1 + 2)
        raised += (2 + 1) + (1 + 1)
        carried = ((3 + 1) + (2 + 1) + (3 + 1) + (3 + 1) + (2 + 1)) * lin
        return forward + y + backward + raised + carried, 4 + 2 * lin

    @property
    def activation_nonzeros(self) -> tuple[int, int]:
        """(weights, biases) that are not zero in the second feed-forward layer, its skips included."""
        d, b, lin = self.d, self.bias, self.linear_output
        units = 2 * d + 3 * d * lin + 2 * (2 + lin) * d + 2 * d
        skips = 3 * d + 2 * d * d + 2 + lin + 2 * b * d
        return units + skips, d + 1

    @property
    def attention_nonzeros(self) -> dict[str, int]:
        """Non-zero entries of the attention's matrices; a grid with a level at 0 has three fewer."""
        d, p, odd = self.d, self.n_grid, self.n_grid % 2
        return {
            "right": p - odd,
            "position": 2 * (p - odd),
            "spread": d + 2 * d * d,
            "query": 3 * d,
            "one": 2 * d,
            "key": 4 * d,
            "value": self.values,
            "output": self.values,
        }

    def entries(self, model: str = "dense", *, square: bool = False) -> int:
        """Numbers of the one layer: literal matrices, or those that are not zero.

        square  charge every head D x D matrices, D = W, as [DEEP] defines heads
        """
        check_model(model)
        B, W, G, p, d = self.d_token, self.working, self.grid, self.n_grid, self.d
        u, v = self.routing_units, self.activation_units
        if model in ("nonzeros", "structured"):
            pairs = (self.routing_nonzeros, self.activation_nonzeros)
            return sum(a + b for a, b in pairs) + sum(self.attention_nonzeros.values())
        feed_forward = 2 * B * u + u + u * W + W + 2 * B * W + W * v + v + v * B + B + W * B
        shared = p * d + W * G + p * G
        if square:
            return feed_forward + shared + self.n_heads * (W * W + 2 * G * W)
        collected = self.n_heads * 2 * d if model == "dense" else self.values
        heads = self.n_heads * (2 * W + 2 + 2 * G) + collected * (G + W)
        return feed_forward + shared + heads

    def call_flops(self, model: str = "dense", *, square: bool = False) -> int:
        """Operations of one call on d columns: every head, every grid token.

        Statement: [COT] Proposition 4.3

        Differs from the paper: it counts no operations.
        """
        check_model(model)
        B, W, G, p, c = self.d_token, self.working, self.grid, self.n_grid, self.d
        u, v = self.routing_units, self.activation_units
        if model in ("nonzeros", "structured"):
            return 2 * self._sparse_multiplications()
        feed_forward = c * (2 * B * u + u * W + 2 * B * W + W * v + v * B + W * B)
        shared = p * c * W + p * W * G
        if square:
            heads = self.n_heads * (c * W * W + 2 * p * G * W + 2 * c * p * W)
        else:
            collected = self.n_heads * 2 * self.d if model == "dense" else self.values
            heads = self.n_heads * (2 * c * W + 2 * p * G + 2 * c * p)
            heads += collected * (p * G + c * p + c * W)
        return 2 * (feed_forward + shared + heads)

    def _sparse_multiplications(self) -> int:
        W, p, c, n = self.working, self.n_grid, self.d, self.attention_nonzeros
        tokenwise = self.routing_nonzeros[0] + self.activation_nonzeros[0]
        laid_out = n["right"] * W + p * n["spread"]
        scores = c * n["query"] + p * n["key"] + 2 * c * p * self.n_heads
        collected = p * n["value"] + c * p * self.values + c * n["output"]
        return c * tokenwise + laid_out + scores + collected


def cot_calls(n_layers: int) -> int:
    """Calls of the layer for one example, one after the other: 2N.

    Statement: [COT] Proposition 4.4

    Differs from the paper: its proof counts 2N+1.
    """
    return 2 * n_layers


def cot_structured_flops(widths: Sequence[int], n_grid: int) -> int:
    """Operations of one example if blocks have one column, no zeros are multiplied, widths are not padded.

    W o, W^T delta and delta o^T, and two sums over half the grid for every number that is asked.

    Statement: [COT] Proposition 4.4

    Differs from the paper: this is what the structured executor runs; the paper counts nothing.
    """
    half = (n_grid + 1) // 2
    pairs = pairwise(widths)
    return sum(6 * a * b + 4 * half * (a + b) for a, b in pairs)


@dataclass(frozen=True)
class PromptCosts:
    """What the paper leaves out, after L rounds of an N-layer network.

    Statement: [COT] Definition 4.4

    blocks     of the prompt: X and Y of L examples, B_1..B_N, and 2NL that were written
    addresses  two blocks chosen per call
    looks      blocks a call has to look at, added up over all calls, if nothing tells it where they are
    serial     calls that have to wait for one another

    Differs from the paper: it treats masks as free and omniscient and says so (its limitations).

    >>> PromptCosts.after(rounds=10, n_layers=2)
    PromptCosts(blocks=62, addresses=80, looks=1660, serial=40)
    """

    blocks: int
    addresses: int
    looks: int
    serial: int

    @classmethod
    def after(cls, *, rounds: int, n_layers: int) -> PromptCosts:
        """Sums over calls t = 0 .. 2NL-1, each before a prompt of 2L + N + t blocks."""
        calls = cot_calls(n_layers) * rounds
        start = 2 * rounds + n_layers
        looks = calls * start + calls * (calls - 1) // 2
        return cls(start + calls, 2 * calls, looks, calls)


def scan_flops(sizes: CotSizes, looks: int) -> int:
    """Masked attention over the whole prompt: every column asks the flags of every column it might see.

    One multiply-add of three flags per pair of columns; heads and values are not counted.

    Statement: [COT] Definition 4.4

    Differs from the paper: it counts nothing here.
    """
    return 2 * 3 * sizes.d**2 * looks
