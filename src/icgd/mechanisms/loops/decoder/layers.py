"""Gradient descent on every prefix of a prompt at once, by a decoder: causal attention throughout.

Tokens are BOS x_1 y_1 .. x_n y_n. Token x_i trains its own w^i on the examples before it,
    w^i <- w^i - lr / (i - 1) sum_{j<i} (<w^i, x_j> - y_j) x_j,
and answers <w^i, x_i>. Keys and values live on y tokens, which hold their x_j in `xc`: so x_i sees exactly
j < i. Every output has slots of its own, w1, w2, .. and o1, o2, ..
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from icgd.mechanisms.loops.common.parts import SHARP, MlpBuilder, binary_codes, hard_head
from icgd.problems.regression import LinearRegression
from icgd.transformer.gadgets.heads.bilinear import Bilinear, BilinearOptions, bilinear_layer
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import Rows, SoftmaxHead, SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Stack, Sublayer

EVERY = (("is_x", 1.0), ("is_y", 1.0), ("is_bos", 1.0))
"""1 in every token."""
TARGETS, USUAL = 4.0, 1.5
"""Residuals and predictions are read up to 4 times the radius of x, and best up to 1.5 times."""


@dataclass(frozen=True)
class DecoderSizes:
    """lr: step size; radius: bound on |x|; products: how they are computed."""

    lr: float
    radius: float
    products: BilinearOptions

    @property
    def spectral(self) -> bool:
        """Whether products are exact."""
        return self.products.mode == "spectral"

    @property
    def scaled(self) -> BilinearOptions:
        """Products at the scale that suits most residuals."""
        return self.products.scaled_for(USUAL * self.radius)

    @property
    def reach(self) -> float:
        """Range of residuals and predictions."""
        return TARGETS * self.radius * self.products.room


def decoder_layout(problem: LinearRegression, spectral: bool) -> Layout:
    """x | y | xc | w | o | code | a positional number | indicators; in spectral mode also g.

    Statement: [ALGO] Theorem 4.2

    Differs from the paper: its layout is lost in the text. A token BOS stands first: the printed sinks are
    tokens that the first ones do not see. log(i - 1) is given where it prints 1/(i - 1).
    """
    d, outputs = problem.n_features, range(1, problem.n_outputs + 1)
    n_code = binary_codes(problem.n_examples).shape[1]
    scratch = [Slot(f"g{a}", (d,), "sum of the gradients", each=True) for a in outputs]
    count = (
        Slot("log_others", (), "log(i - 2) on x_i: who shares the gradient", each=True)
        if spectral
        else Slot("log_count", (), "log(i - 1) on x_i: how many examples are averaged", each=True)
    )
    return Layout(
        [
            Slot("x", (d,), "x on x tokens", each=True),
            Slot("y", (problem.n_outputs,), "y on y tokens", each=True),
            Slot("xc", (d,), "x of the pair, on its y token", each=True),
            *(
                Slot(f"w{a}", (d,), "weights of the prefix, on x tokens", each=True)
                for a in outputs
            ),
            *(Slot(f"o{a}", (), "prediction, on x tokens", each=True) for a in outputs),
            *(scratch if spectral else []),
            Slot("code", (n_code,), "code of the pair; 0 on BOS", each=True),
            count,
            Slot("is_x", (), "x token", each=True),
            Slot("is_y", (), "y token", each=True),
            Slot("is_bos", (), "the first token: the sink", each=True),
        ]
    )


class DecoderBuilder:
    """Entry, loop and read-out layers on named slots, all causal."""

    def __init__(self, problem: LinearRegression, options: DecoderSizes) -> None:
        self.p, self.o = problem, options
        self.layout = decoder_layout(problem, options.spectral)
        self.dtype = options.products.dtype
        self.outputs = range(1, problem.n_outputs + 1)

    def entry(self) -> Stack:
        """y_j receives x_j, exactly.

        Statement: [ALGO] Theorem 4.2

        Differs from the paper: one head. y_j sees both tokens of its pair in equal parts; x_j sees only
        itself, and a gate erases what it received.
        """
        code = [[("code", SHARP / 2)]], [[("code", 1.0)]]
        copy = hard_head(self.layout, *code, [("x", 2.0)], "xc", self.dtype)
        clean = MlpBuilder(self.layout, self.dtype)
        clean.write("xc", [("xc", 1.0)], scale=-1.0, off=[("is_y", 1.0), ("is_bos", 1.0)])
        layers: dict[str, Sublayer] = {
            "copy": SoftmaxSublayer({"copy": copy}, causal=True),
            "clean": clean.layer(),
        }
        return self.stack(layers, 1)

    def loop(self) -> Stack:
        """One step of gradient descent on every prefix.

        Statement: [ALGO] Lemma A.5

        Differs from the paper: keys and values of both heads live on y tokens, where its first head also
        counts x_i itself; the residual <w, x_j> - y_j is one score and not two heads; the mean over i - 1
        examples is the sink's score C + log(i - 1) and not a product in the feed-forward layer. The spectral
        mode adds up first and divides in a second layer, see `share`.
        """
        gradient = "g" if self.o.spectral else "w"
        scale = 1.0 if self.o.spectral else -self.o.lr
        sink: Rows = () if self.o.spectral else (("log_count", 1.0),)
        products = []
        for a in self.outputs:
            pick = torch.eye(self.p.n_outputs, dtype=torch.float64)[a - 1 : a]
            product = Bilinear(
                [[(f"w{a}", 1.0)], [("is_x", -1.0)]],
                [[("xc", 1.0)], [("y", pick)]],
                [("xc", 1.0)],
                f"{gradient}{a}",
                scale,
                self.o.reach,
                one=EVERY,
                sink="is_bos",
                sink_query=sink,
            )
            products.append(product)
        layers = self.products("descend", products)
        if not self.o.spectral:
            return self.stack(layers, 1)
        layers["share"] = self.share()
        forget = MlpBuilder(self.layout, self.dtype)
        for a in self.outputs:
            forget.erase(f"g{a}")
        layers["forget"] = forget.layer()
        return self.stack(layers, 2)

    def share(self) -> SoftmaxSublayer:
        """w -= lr g / (i - 1) by one ordinary head: x_i attends to itself with weight 1 / (i - 1).

        Its own score is exactly 0 (code against code, less their length), that of BOS, where g = 0, is
        log(i - 2); all others are below -800. With i = 2 the score of BOS is -800 as well. A y token leaves
        everything to BOS.
        """
        beta, length = SHARP / 2, self.layout["code"].size
        query: list[Rows] = [
            [("code", beta)],
            list(EVERY),
            [("log_others", 1.0), ("is_y", 2 * SHARP)],
        ]
        drop = [("is_x", -beta * length), ("is_y", -beta * length)]
        key: list[Rows] = [[("code", 1.0)], drop, [("is_bos", 1.0)]]
        heads = {
            f"share{a}": hard_head(
                self.layout, query, key, [(f"g{a}", -self.o.lr)], f"w{a}", self.dtype
            )
            for a in self.outputs
        }
        return SoftmaxSublayer(heads, causal=True)

    def readout(self) -> Stack:
        """o_i = <w^i, x_i>.

        Statement: [ALGO] Theorem 4.2

        Differs from the paper: it gives no construction. Here the products with all x_j, j <= i, less those
        with the copies of x_j, j < i, on y tokens. Equal scores have equal weights, so they cancel; one
        layer where two are claimed.
        """
        value = [("is_x", 1.0), ("is_y", -1.0)]
        products = [
            Bilinear(
                [[(f"w{a}", 1.0)]],
                [[("x", 1.0), ("xc", 1.0)]],
                value,
                f"o{a}",
                1.0,
                self.o.reach,
                one=EVERY,
                sink="is_bos",
            )
            for a in self.outputs
        ]
        return self.stack(self.products("answer", products), 1)

    def products(self, name: str, products: list[Bilinear]) -> dict[str, Sublayer]:
        """Products of all outputs; none reads what another one writes, so heads stand side by side."""
        layers = [
            bilinear_layer(self.layout, product, self.o.scaled, causal=True) for product in products
        ]
        if self.o.spectral:
            return {f"{name}{a}": layer for a, layer in zip(self.outputs, layers, strict=True)}
        heads: dict[str, SoftmaxHead] = {}
        for a, layer in zip(self.outputs, layers, strict=True):
            assert isinstance(layer, SoftmaxSublayer)
            heads.update({f"w{a}_{h}": head for h, head in enumerate(layer.each())})
        return {name: SoftmaxSublayer(heads, causal=True)}

    def stack(self, layers: dict[str, Sublayer], n_layers: int) -> Stack:
        """Attention and feed-forward sublayers that belong together count as one layer."""
        return Stack(self.layout, layers, n_layers=n_layers, radius=self.o.reach)


def positional(n: int, spectral: bool) -> list[float]:
    """What x_1 .. x_n are told of their position: log(i - 1), or log(i - 2) in spectral mode.

    >>> positional(3, False) == [0.0, 0.0, math.log(2)]
    True
    >>> positional(3, True) == [0.0, -SHARP, 0.0]
    True
    """
    if spectral:
        return [0.0 if i == 1 else -SHARP if i == 2 else math.log(i - 2) for i in range(1, n + 1)]
    return [math.log(max(1, i - 1)) for i in range(1, n + 1)]
