"""Proofs of [ALGO] in the readings under which they hold, every layer with its weights written out.

Much of the paper's text lost its matrices. Where a step fails in one reconstruction and works in another, the
other one is here: literal heads and ReLU units, no trick that the paper does not name. What attention writes
goes to rows of its own, as Appendix A.5 displays it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from icgd.mechanisms.loops.common.parts import SHARP, MlpBuilder, binary_codes
from icgd.papers.algo.statements import decoder_printed as decoder
from icgd.papers.algo.statements import newton_printed as newton
from icgd.papers.algo.statements import regression_printed as regression
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import (
    Rows,
    SoftmaxHead,
    SoftmaxSublayer,
    linear_rows,
    stacked,
)
from icgd.transformer.nn.stack.stack import Sublayer, unwatched

DOUBLE = torch.float64


def rows_of(**sizes: int) -> Layout:
    """A token with these rows."""
    return Layout([Slot(name, (size,), each=True) for name, size in sizes.items()])


def passed_through(tokens: Tensor, *layers: Sublayer) -> Tensor:
    """Tokens after literal layers, each with its residual connection."""
    for layer in layers:
        tokens = layer.dense(tokens, unwatched)
    return tokens


def product_heads(
    layout: Layout, ask: str, know: str, answer: str, into: str, *, c: float, C: float
) -> SoftmaxSublayer:
    """Two heads: `into` += c sum_j answer_j <know_j, ask_i>, up to terms of order c^2 and e^-C.

    The first has scores c <know_j, ask_i> and C at the sink, the second 0 and C; values e^C and -e^C.
    """
    sink: Rows = [("sink", C)]
    where = layout.index(into)

    def head(score: float, weight: float) -> SoftmaxHead:
        query = stacked(layout, [[(ask, score)], [("one", 1.0)]])
        value = weight * math.exp(C) * linear_rows(layout, [(answer, 1.0)])
        return SoftmaxHead(
            query, stacked(layout, [[(know, 1.0)], sink]), value, where, dtype=DOUBLE
        )

    return SoftmaxSublayer({"products": head(c, 1.0), "constant": head(0.0, -1.0)})


# -- Lemma A.2 and Theorem 3.1 --------------------------------------------------------------------


def descent(case: regression.Case, steps: int, *, c: float, C: float) -> Tensor:
    """A_k x - y on the examples, A_k x on the query, (N + 1,): Lemma A.2 with a row for the attention's output.

    Attention leaves g = c dL/dA x beside r; the ReLU layer writes r - (lr/c) g and clears g.
    """
    (n, d), phi = case.X.shape, case.phi
    layout = rows_of(x=d, k=d, r=1, g=1, one=1, sink=1)
    tokens = torch.zeros(2 * n + 2, layout.width, dtype=DOUBLE)
    on_x = [*range(0, 2 * n, 2), 2 * n]
    tokens[on_x, layout.slice("x")] = torch.cat([phi, case.asked.unsqueeze(0)])
    tokens[on_x[:-1], layout.slice("k")] = phi / n
    tokens[on_x[:-1], layout.slice("r")] = -case.Y
    tokens[:, layout.slice("one")], tokens[-1, layout.slice("sink")] = 1.0, 1.0
    heads = product_heads(layout, "x", "k", "r", "g", c=c, C=C)
    units = MlpBuilder(layout, DOUBLE).write("r", [("g", -case.lr / c)]).erase("g").layer()
    for _ in range(steps):
        tokens = passed_through(tokens, heads, units)
    return tokens[on_x, layout.slice("r")][:, 0]


def read_out(case: regression.Case, r: Tensor) -> Tensor:
    """The row of labels after TF_post, (2N + 2,): by codes and indicators only the last token changes.

    r  what the tokens hold, (2N + 2,); the last two share a code, so that the last one reads A x of the query
    """
    n = len(case.X)
    codes = binary_codes(n + 1)
    m = codes.shape[1]
    layout = rows_of(y=1, r=1, s=1, p=m, other=1)
    tokens = torch.zeros(2 * n + 2, layout.width, dtype=DOUBLE)
    tokens[1 : 2 * n : 2, layout.slice("y")] = case.Y
    tokens[:, layout.slice("r")] = r.unsqueeze(1)
    tokens[:, layout.slice("p")] = codes.repeat_interleave(2, dim=0)
    tokens[:-1, layout.slice("other")] = 1.0
    p = linear_rows(layout, [("p", 1.0)])
    value = 2.0 * linear_rows(layout, [("r", 1.0)])
    head = SoftmaxHead(SHARP / 2 * p, p, value, layout.index("s"), dtype=DOUBLE)
    units = MlpBuilder(layout, DOUBLE).write("y", [("s", 1.0)], off=[("other", 1.0)]).layer()
    return passed_through(tokens, SoftmaxSublayer({"partner": head}), units)[:, 0]


def product_network(u: Tensor, v: Tensor, units: int, reach: float) -> Tensor:
    """u v by one layer of so many ReLU units: (s(u + v) - s(u - v)) / 4, s the square interpolated.

    reach  bound on |u + v| and |u - v|; with h = 4 reach / units between kinks the error is at most h^2 / 16
    """
    kinks = torch.linspace(-reach, reach, units // 2 + 1, dtype=DOUBLE)[:-1]
    h = float(kinks[1] - kinks[0])
    # The first unit has the first chord's slope, every other bends by 2h; s(-reach) cancels.
    bends = torch.full_like(kinks, 2 * h)
    bends[0] = h - 2 * reach
    both = [(z.unsqueeze(-1) - kinks).relu() @ bends for z in (u + v, u - v)]
    return (both[0] - both[1]) / 4


# -- Lemma A.3 ------------------------------------------------------------------------------------


def copies(x: Tensor, q: int, codes: Tensor) -> Tensor:
    """x_{t-1} .. x_{t-q} beside every token, 0 before the start, (n, q, d): one layer of q heads.

    codes  of the positions -q .. n-1; token t holds p_t and p_{t-1} .. p_{t-q}, so that W_Q picks rows, and a
           block of q indicators, one for each copy that exists
    """
    (n, d), m = x.shape, codes.shape[1]
    lags = range(1, q + 1)
    names = {f"{kind}{i}": size for i in lags for kind, size in (("lag", d), ("p", m), ("has", 1))}
    layout = rows_of(x=d, p0=m, **names)
    tokens = torch.zeros(n, layout.width, dtype=DOUBLE)
    tokens[:, layout.slice("x")] = x
    for i in (0, *lags):
        tokens[:, layout.slice(f"p{i}")] = codes[q - i : q - i + n]
    keys, value = linear_rows(layout, [("p0", 1.0)]), linear_rows(layout, [("x", 1.0)])
    heads, units = {}, MlpBuilder(layout, DOUBLE)
    for i in lags:
        tokens[i:, layout.slice(f"has{i}")] = 1.0
        query = SHARP * linear_rows(layout, [(f"p{i}", 1.0)])
        heads[f"lag{i}"] = SoftmaxHead(query, keys, value, layout.index(f"lag{i}"), dtype=DOUBLE)
        units.write(f"lag{i}", [(f"lag{i}", -1.0)], off=[(f"has{i}", 1.0)])
    after = passed_through(tokens, SoftmaxSublayer(heads), units.layer())
    return torch.stack([after[:, layout.slice(f"lag{i}")] for i in lags], dim=1)


# -- Lemma A.4 and Theorem 4.1 --------------------------------------------------------------------


def newton_columns(case: newton.Case, alpha: float, steps: int, *, c: float, C: float) -> Tensor:
    """M_k x_i as TF_pre and k loops leave it, with rows of their own for what attention writes, (N + 1, d).

    Before TF_pre the row that will hold M x holds x, on examples only: then its values and queries are linear
    images of the prompt. The query's column, the last one here, is 0 in that row throughout.
    """
    n, d = case.X.shape
    layout = rows_of(x=d, u=d, g=d, one=1, sink=1)
    tokens = torch.zeros(2 * n + 2, layout.width, dtype=DOUBLE)
    on_x = [*range(0, 2 * n, 2), 2 * n]
    tokens[on_x, layout.slice("x")] = torch.cat([case.X, case.query])
    tokens[on_x[:-1], layout.slice("u")] = case.X
    tokens[:, layout.slice("one")], tokens[-1, layout.slice("sink")] = 1.0, 1.0
    heads = product_heads(layout, "u", "x", "u", "g", c=c, C=C)
    first = MlpBuilder(layout, DOUBLE).write("u", [("g", alpha / c), ("u", -1.0)]).erase("g")
    later = MlpBuilder(layout, DOUBLE).write("u", [("g", -1 / c), ("u", 1.0)]).erase("g")
    for units in (first, *[later] * steps):
        tokens = passed_through(tokens, heads, units.layer())
    return tokens[on_x, layout.slice("u")]


# -- Lemma A.5 ------------------------------------------------------------------------------------


def decoder_step(
    case: decoder.DecoderCase, w: Tensor, *, c: float, C: float, units: int, mended: bool
) -> tuple[Tensor, Tensor]:
    """What attention leaves for the sums, and the weights after the layer, at x_1 y_1 .. x_n y_n.

    mended  head 1 reads the row (0, x_1, .., 0, x_{i-1}, 0) with its sink at the first token, as head 2
            does; as printed it reads the row of x, with its sink at the second token
    units   of the ReLU layer, for each product of an entry of g with the row 1/(i-1), which is 0 at x_1 and at
            y tokens in the displayed matrix
    """
    n, d = case.X.shape
    layout = rows_of(x=d, y=1, xc=d, w=d, g=d, is_x=1, one=1, first=1, second=1)
    tokens = torch.zeros(2 * n, layout.width, dtype=DOUBLE)
    tokens[0::2, layout.slice("x")], tokens[0::2, layout.slice("w")] = case.X, w
    tokens[1::2, layout.slice("y")], tokens[1::2, layout.slice("xc")] = case.y.unsqueeze(1), case.X
    tokens[0::2, layout.slice("is_x")], tokens[:, layout.slice("one")] = 1.0, 1.0
    tokens[0, layout.slice("first")], tokens[1, layout.slice("second")] = 1.0, 1.0
    scale, (row, sink) = math.exp(C) / c, ("xc", "first") if mended else ("x", "second")

    def head(query: list[Rows], key: list[Rows], value: Rows) -> SoftmaxHead:
        matrices = stacked(layout, query), stacked(layout, key), stacked(layout, [value])
        return SoftmaxHead(*matrices, layout.index("g"), dtype=DOUBLE)

    asks: list[Rows] = [[("is_x", 1.0)], [("is_x", 1.0)]]
    heads = {
        "predict": head([[("w", 1.0)], [("one", 1.0)]], [[(row, c)], [(sink, C)]], [(row, scale)]),
        "compare": head(asks, [[("y", c)], [("first", C)]], [("xc", -scale)]),
    }
    tokens = passed_through(tokens, SoftmaxSublayer(heads, causal=True))
    g = tokens[:, layout.slice("g")]
    share = torch.zeros(2 * n, 1, dtype=DOUBLE)
    share[2::2, 0] = 1 / torch.arange(1, n, dtype=DOUBLE)
    reach = 1 + 2 * float(decoder.exact_sums(case, w).abs().max())
    step = product_network(g, share.expand_as(g), units, reach)
    return g, tokens[:, layout.slice("w")] - case.lr * step
