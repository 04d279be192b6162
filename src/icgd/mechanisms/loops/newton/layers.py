"""Newton's method for least squares, M_{k+1} = 2 M_k - M_k S M_k with S = X^T X, as a looped transformer.

Tokens are x_1 y_1 .. x_N y_N, any number of queries, and ANS. No token holds a matrix: an example holds its
own column u_i = M_k x_i, and one loop is
    u_i <- 2 (u_i - 1/2 sum_j u_j <x_j, u_i>) = (2 M_k - M_k S M_k) x_i.
In the end w_k = M_k X^T y = sum_j u_j y_j, so that a query reads sum_j y_j <u_j, x> = <w_k, x>.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from icgd.mechanisms.loops.common.parts import SHARP, MlpBuilder, binary_codes, hard_head
from icgd.problems.regression import LinearRegression
from icgd.transformer.gadgets.heads.bilinear import Bilinear, BilinearOptions, bilinear_layer
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Stack, Sublayer

EVERY = (("is_train", 1.0), ("is_y", 1.0), ("is_test", 1.0))
"""1 in every token."""
MASK = 1.0e4
"""Taken off the score of a token that must not be seen: its softmax weight is exactly 0."""
OVERLAP, USUAL = 2.0, 1.0
"""|<x_j, M_k x_i>| stays below 2, and from the first step on below 1: the eigenvalues of M_0 S lie in (0, 2),
those of M_1 S, M_2 S, .. in (0, 1]. Heads are scaled for 1 and watched for 2."""
LEVERAGE = 8.0
"""Bound on |<x, M_k x_j>| for a query x. Few examples give each more weight; heads are scaled for 1."""


@dataclass(frozen=True)
class NewtonOptions:
    """alpha: M_0 = alpha S; radius: bound on |x|; products: how they are computed."""

    alpha: float
    radius: float
    products: BilinearOptions

    @property
    def spectral(self) -> bool:
        """Whether products are exact."""
        return self.products.mode == "spectral"

    @property
    def x_reach(self) -> float:
        """Largest |x| the first product is made for."""
        return self.radius * math.sqrt(self.products.room)

    @property
    def overlap(self) -> float:
        """Range of the products in the loop."""
        return OVERLAP * self.products.room

    @property
    def scaled(self) -> BilinearOptions:
        """Products of the loop and of the answer, at the scale that suits most of them."""
        return self.products.scaled_for(USUAL)

    @property
    def leverage(self) -> float:
        """Range of the product that answers."""
        return LEVERAGE * self.products.room


def newton_layout(problem: LinearRegression) -> Layout:
    """x | k | y | u | yc | o | code | indicators.

    Statement: [ALGO] Theorem 4.1

    Differs from the paper: a slot `k` with x of the examples alone; the printed weights need it and no
    linear map makes it from a row that holds the query too. Several queries may stand in one prompt.
    """
    d, outputs = problem.n_features, problem.n_outputs
    n_code = binary_codes(problem.n_examples + 1).shape[1]
    return Layout(
        [
            Slot("x", (d,), "x of examples and queries", each=True),
            Slot("k", (d,), "x of examples alone", each=True),
            Slot("y", (outputs,), "y on y tokens", each=True),
            Slot("u", (d,), "M_k x of examples", each=True),
            Slot("yc", (outputs,), "y, on both tokens of its pair", each=True),
            Slot("o", (outputs,), "the answer, on queries", each=True),
            Slot("code", (n_code,), "code of the pair", each=True),
            Slot("is_train", (), "x token of an example", each=True),
            Slot("is_y", (), "y token, ANS included", each=True),
            Slot("is_test", (), "a query", each=True),
            Slot("is_answer", (), "ANS: the sink", each=True),
        ]
    )


class NewtonBuilder:
    """Entry, loop and read-out layers on named slots."""

    def __init__(self, problem: LinearRegression, options: NewtonOptions) -> None:
        self.p, self.o = problem, options
        self.layout = newton_layout(problem)
        self.dtype = options.products.dtype

    def entry(self) -> Stack:
        """u_i = alpha S x_i on examples, 0 elsewhere.

        Statement: [ALGO] Theorem 4.1

        Differs from the paper: queries are masked by their score (linearised modes) and what they receive
        is erased by a gate. A spectral head cannot mask, so that mode has a feed-forward layer first which
        copies examples to `k`: two layers instead of one.
        """
        o, inside = self.o, [("is_test", 1.0)]
        if o.spectral:
            split = self.feed_forward().write("k", [("x", 1.0)], off=inside)
            product = self.product("k", "k", "k", "u", o.alpha, o.x_reach**2)
            return self.stack({"split": split.layer(), "start": product}, 2)
        product = bilinear_layer(
            self.layout,
            Bilinear(
                [[("x", 1.0)]],
                [[("x", 1.0)]],
                [("x", 1.0)],
                "u",
                o.alpha,
                o.x_reach**2,
                one=EVERY,
                sink="is_answer",
                fixed=[(EVERY, [("is_test", -MASK)])],
            ),
            o.products,
        )
        ready = self.feed_forward().write("k", [("x", 1.0)], off=inside)
        ready.write("u", [("u", 1.0)], scale=-1.0, off=[("is_train", 1.0), ("is_y", 1.0)])
        return self.stack({"start": product, "ready": ready.layer()}, 1)

    def loop(self) -> Stack:
        """u_i <- 2 u_i - sum_j u_j <x_j, u_i>.

        Statement: [ALGO] Lemma A.4

        Differs from the paper: the attention carries weight -1/2 and the feed-forward layer doubles; the
        residual stream brings M_k x_i only once. Keys are 0 on queries, so that nothing they hold matters.
        """
        twice = self.feed_forward().write("u", [("u", 1.0)])
        product = self.product("u", "k", "u", "u", -0.5, self.o.overlap)
        return self.stack({"shrink": product, "twice": twice.layer()}, 1)

    def readout(self) -> Stack:
        """Labels to their examples, then o = sum_j y_j <u_j, x>.

        Statement: [ALGO] Theorem 4.1

        Differs from the paper: keys M_T x_j and queries x, where one row of the printed scores is garbled;
        one head suffices for the labels.
        """
        code = [[("code", SHARP / 2)]], [[("code", 1.0)]]
        copy = hard_head(self.layout, *code, [("y", 2.0)], "yc", self.dtype)
        answer = self.product("x", "u", "yc", "o", 1.0, self.o.leverage)
        return self.stack({"label": SoftmaxSublayer({"label": copy}), "answer": answer}, 2)

    def product(
        self, query: str, key: str, value: str, out: str, scale: float, bound: float
    ) -> Sublayer:
        """out_i += scale sum_s value_s <query_i, key_s>."""
        product = Bilinear(
            [[(query, 1.0)]],
            [[(key, 1.0)]],
            [(value, 1.0)],
            out,
            scale,
            bound,
            one=EVERY,
            sink="is_answer",
        )
        return bilinear_layer(self.layout, product, self.o.scaled)

    def feed_forward(self) -> MlpBuilder:
        """A feed-forward layer to fill."""
        return MlpBuilder(self.layout, self.dtype)

    def stack(self, layers: dict[str, Sublayer], n_layers: int) -> Stack:
        """Attention and feed-forward sublayers that belong together count as one layer."""
        return Stack(self.layout, layers, n_layers=n_layers, radius=self.o.overlap)
