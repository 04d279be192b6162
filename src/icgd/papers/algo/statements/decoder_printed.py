"""Appendix A.5 of [ALGO] as printed: two causal heads, their sinks and their last formula; and our bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from icgd.mechanisms import compile
from icgd.mechanisms.loops.decoder.codec import DecoderCodec, prefix_curvature
from icgd.problems import GD, LinearRegression
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import Rows, SoftmaxHead, SoftmaxSublayer, stacked
from icgd.transformer.program import Program

DOUBLE = torch.float64


@dataclass(frozen=True)
class DecoderCase:
    """Examples of a linear function and a step size that suits every prefix."""

    X: Tensor
    y: Tensor
    lr: float

    def program(self, mode: str = "spectral") -> Program:
        """The decoder for it."""
        n, d = self.X.shape
        return compile(LinearRegression(d, n), GD(self.lr), mode=mode, causal=True)


def gaussian(d: int, n: int, seed: int) -> DecoderCase:
    """A random case."""
    g = torch.Generator().manual_seed(seed)
    X, w = torch.randn(n, d, generator=g, dtype=DOUBLE), torch.randn(d, generator=g, dtype=DOUBLE)
    y = X @ w + 0.1 * torch.randn(n, generator=g, dtype=DOUBLE)
    return DecoderCase(X, y, 1 / float(prefix_curvature(X).max()))


@dataclass(frozen=True)
class Wrong:
    """Where the printed step is off by how much.

    first   at x_1, which has nothing to learn from      later  at x_2, x_3, ..
    labels  at y tokens, which should hold 0             mended at x tokens, with sinks everyone sees
    """

    first: float
    later: float
    labels: float
    mended: float


def printed_layer(d: int, C: float, c: float, *, mended: bool) -> tuple[Layout, SoftmaxSublayer]:
    """The two heads of Lemma A.5, into a slot of their own; `mended` gives both a first token as sink."""
    layout = Layout(
        [
            Slot("x", (d,), each=True),
            Slot("y", (), each=True),
            Slot("xc", (d,), each=True),
            Slot("w", (d,), each=True),
            Slot("g", (d,), each=True),
            Slot("is_x", (), each=True),
            Slot("one", (), each=True),
            Slot("first", (), each=True),
            Slot("second", (), each=True),
        ]
    )
    scale = math.exp(C) / c

    def head(query: list[Rows], key: list[Rows], value: Rows) -> SoftmaxHead:
        return SoftmaxHead(
            stacked(layout, query),
            stacked(layout, key),
            stacked(layout, [value]),
            layout.index("g"),
            dtype=DOUBLE,
        )

    asks = "one" if mended else "is_x"
    heads = {
        "predict": head(
            [[("w", 1.0)], [("one", 1.0)]],
            [[("x", c)], [("first" if mended else "second", C)]],
            [("x", scale)],
        ),
        "compare": head(
            [[("is_x", 1.0)], [(asks, 1.0)]], [[("y", c)], [("first", C)]], [("xc", -scale)]
        ),
    }
    return layout, SoftmaxSublayer(heads, causal=True)


def printed_step(case: DecoderCase, w: Tensor, C: float, c: float, *, mended: bool) -> Tensor:
    """What the printed attention leaves for sum_{j<i} (<w^i, x_j> - y_j) x_j, at all tokens x_1 y_1 .. ."""
    n, d = case.X.shape
    layout, attention = printed_layer(d, C, c, mended=mended)
    start = 1 if mended else 0
    tokens = torch.zeros(2 * n + start, layout.width, dtype=DOUBLE)
    xs, ys = slice(start, None, 2), slice(start + 1, None, 2)
    tokens[xs, layout.slice("x")], tokens[xs, layout.slice("w")] = case.X, w
    tokens[ys, layout.slice("y")], tokens[ys, layout.slice("xc")] = case.y.unsqueeze(-1), case.X
    tokens[xs, layout.slice("is_x")], tokens[:, layout.slice("one")] = 1.0, 1.0
    tokens[0, layout.slice("first")], tokens[1, layout.slice("second")] = 1.0, 1.0
    tokens_after = attention.collapsed(tokens, lambda label, value, reach: None)
    return tokens_after[start:, layout.slice("g")]


def exact_sums(case: DecoderCase, w: Tensor) -> Tensor:
    """sum_{j<i} (<w^i, x_j> - y_j) x_j for every i."""
    residuals = (w @ case.X.T - case.y).tril(diagonal=-1)
    return residuals @ case.X


def how_wrong(case: DecoderCase, w: Tensor, C: float, c: float) -> Wrong:
    """The printed step against the exact sums."""
    exact = exact_sums(case, w)
    sums = printed_step(case, w, C, c, mended=False)
    off = (sums[0::2] - exact).abs().amax(dim=1)
    better = printed_step(case, w, C, c, mended=True)[0::2]
    return Wrong(
        float(off[0]),
        float(off[1:].max()),
        float(sums[1::2].abs().max()),
        float((better - exact).abs().max()),
    )


def printed_formula(case: DecoderCase, steps: int) -> Tensor:
    """w^j by the last formula of A.5, with the residual of w^h where that of w^j belongs; w^1 kept at 0."""
    n, d = case.X.shape
    w = torch.zeros(n, d, dtype=DOUBLE)
    count = torch.arange(n, dtype=DOUBLE).clamp(min=1).unsqueeze(-1)
    for _ in range(steps):
        own = ((w * case.X).sum(dim=-1) - case.y).unsqueeze(-1) * case.X
        before = torch.cat([torch.zeros_like(own[:1]), own.cumsum(dim=0)[:-1]])
        w = w - case.lr * before / count
    return w


def decoder_bound(
    program: Program, case: DecoderCase, steps: int, w: Tensor
) -> tuple[float, float]:
    """Bounds on the errors of weights and predictions after so many steps, w the exact weights.

    With lr <= 1 / lambda_max of every prefix a step does not lengthen an error, and adds at most
    lr mean |x_j| e, e the certified error of a residual. A prediction adds up to 2n of them.
    """
    codec = program.codec
    assert isinstance(codec, DecoderCodec)
    n, d = case.X.shape
    each, eps = program.certificate.sup_error, torch.finfo(DOUBLE).eps
    x, size = float(case.X.norm(dim=-1).max()), float(w.norm(dim=-1).max())
    residual = float(case.y.abs().max()) + size * x
    rounding = eps * (4 * (n + d) + 16 * math.log(n + 1)) * residual
    weights = steps * case.lr * x * (each + rounding)
    return weights, x * weights + 2 * n * each + eps * 4 * (n + d) * n * size * x
