"""Regression with a representation: layers that prepare, one layer that loops, one that answers.

Tokens are x_1 y_1 .. x_N y_N x_test ANS. After the entry layers an x token holds phi(x) in `h`, phi(x)/N in
`k` (0 at the test token) and the residual A phi(x) - y in `r`. One loop is one step of gradient descent,
    r_i <- r_i - lr sum_s r_s <k_s, h_i>,
because A phi(x_i) moves by that much. The answer is r of the test token, where y = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from icgd.mechanisms.loops.common.parts import SHARP, MlpBuilder, binary_codes, hard_head
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.certificate import Certificate
from icgd.transformer.gadgets.heads.bilinear import (
    Bilinear,
    BilinearOptions,
    bilinear_certificate,
    bilinear_layer,
)
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Stack, Sublayer

EVERY = (("is_x", 1.0), ("is_y", 1.0))
"""1 in every token."""
USUAL = 0.5
"""Only a long x with itself comes near the bound on <k_s, h_i>; heads are scaled for half of it."""


@dataclass(frozen=True)
class LoopOptions:
    """lr: step size; bound: on <k_s, h_i>; products: how they are computed."""

    lr: float
    bound: float
    products: BilinearOptions

    @property
    def dtype(self) -> torch.dtype:
        """Precision of all weights."""
        return self.products.dtype

    @property
    def scaled(self) -> BilinearOptions:
        """Products at the scale that suits most of them."""
        return self.products.scaled_for(USUAL * self.bound)

    def certificate(self, n_tokens: int) -> Certificate:
        """What a product of the loop promises, up to the bound itself."""
        return bilinear_certificate(self.scaled, self.bound, n_tokens)


def regression_layout(problem: RepresentationRegression) -> Layout:
    """h | y | k | r | yc | code | indicators, for 2N + 2 tokens.

    Statement: [ALGO] Theorem 3.1

    Differs from the paper: its layout is lost in the text; the last token, sink and answer slot in one, is
    missing from its prompt.
    """
    widths = [problem.n_features, *(W.shape[0] for W, _ in problem.representation)]
    n_code = binary_codes(problem.n_examples + 1).shape[1]
    copy = [Slot("yc", (problem.n_outputs,), "y, on the x token of its pair", each=True)]
    return Layout(
        [
            Slot("h", (max(widths),), "x, then phi(x)", each=True),
            Slot("y", (problem.n_outputs,), "y on y tokens; the answer on the last one", each=True),
            Slot("k", (problem.n_representation,), "phi(x) / N of training tokens", each=True),
            Slot("r", (problem.n_outputs,), "A phi(x) - y", each=True),
            *(copy if problem.lam else []),
            Slot("code", (n_code,), "code of the pair", each=True),
            Slot("is_x", (), "x token, the test token included", each=True),
            Slot("is_y", (), "y token, ANS included", each=True),
            Slot("is_test", (), "the test token", each=True),
            Slot("is_answer", (), "ANS: the sink, and where the answer goes", each=True),
        ]
    )


class RegressionBuilder:
    """Entry, loop and read-out layers on named slots."""

    def __init__(self, problem: RepresentationRegression, options: LoopOptions) -> None:
        self.p, self.o = problem, options
        self.layout = regression_layout(problem)

    def entry(self) -> Stack:
        """L layers for phi, one that brings every label to its input.

        Statement: [ALGO] Theorem 3.1

        Differs from the paper: one head where it speaks of two; 1/N is a weight, not a product.
        """
        layers: dict[str, Sublayer] = {}
        for j, (W, b) in enumerate(self.p.representation, 1):
            layers[f"phi{j}"] = self.represent(W, b)
        layers["copy"] = self.copy()
        ready = MlpBuilder(self.layout, self.o.dtype).write("r", [("y", 1.0)])
        if self.p.lam:
            ready.write("yc", [("y", -1.0)])
        d = self.p.n_representation
        pick = torch.eye(d, self.layout["h"].size, dtype=torch.float64) / self.p.n_examples
        ready.write("k", [("h", pick)], off=[("is_test", 1.0), ("is_y", 1.0)])
        layers["ready"] = ready.layer()
        return self.stack(layers, len(self.p.representation) + 1)

    def represent(self, W: torch.Tensor, b: torch.Tensor) -> Sublayer:
        """h <- leaky(W h + b), the bias multiplied by `is_x` so that other tokens stay 0."""
        size = self.layout["h"].size
        wide = torch.zeros(W.shape[0], size, dtype=torch.float64)
        wide[:, : W.shape[1]] = W
        units = MlpBuilder(self.layout, self.o.dtype)
        units.write("h", [("h", wide), ("is_x", b.unsqueeze(1))], below=self.p.slope).erase("h")
        return units.layer()

    def copy(self) -> SoftmaxSublayer:
        """Both tokens of a pair attend to both in equal parts: -2y becomes -y on each."""
        heads = {}
        code = [[("code", SHARP / 2)]], [[("code", 1.0)]]
        heads["label"] = hard_head(self.layout, *code, [("y", -2.0)], "r", self.o.dtype)
        if self.p.lam:
            heads["target"] = hard_head(self.layout, *code, [("y", 2.0)], "yc", self.o.dtype)
        return SoftmaxSublayer(heads)

    def loop(self) -> Stack:
        """One step of gradient descent.

        Statement: [ALGO] Lemma A.2

        Differs from the paper: weight -lr/c where it adds +c times the gradient; with a ridge penalty a
        feed-forward layer shrinks A phi(x) = r + y by 1 - lr lam.
        """
        shrink = 1.0 - self.o.lr * self.p.lam
        d = self.p.n_representation
        pick = torch.eye(d, self.layout["h"].size, dtype=torch.float64)
        product = Bilinear(
            [[("h", pick)]],
            [[("k", 1.0)]],
            [("r", 1.0)],
            "r",
            -self.o.lr / shrink,
            self.o.bound,
            one=EVERY,
            sink="is_answer",
            # The test token's key is 0, but rounding would feed its r back into it step by step.
            fixed=((EVERY, (("is_test", -2 * SHARP),)),),
        )
        layers: dict[str, Sublayer] = {
            "descend": bilinear_layer(self.layout, product, self.o.scaled)
        }
        if self.p.lam:
            ridge = MlpBuilder(self.layout, self.o.dtype)
            ridge.write("r", [("r", shrink - 1.0), ("yc", shrink - 1.0)])
            layers["ridge"] = ridge.layer()
        return self.stack(layers, 1)

    def readout(self) -> Stack:
        """ANS attends to the test token; all others attend to ANS, whose value is 0."""
        head = hard_head(
            self.layout,
            [[("is_answer", 2 * SHARP)], [(slot, SHARP * f) for slot, f in EVERY]],
            [[("is_test", 1.0)], [("is_answer", 1.0)]],
            [("r", 1.0)],
            "y",
            self.o.dtype,
        )
        return self.stack({"answer": SoftmaxSublayer({"answer": head})}, 1)

    def stack(self, layers: dict[str, Sublayer], n_layers: int) -> Stack:
        """Attention and feed-forward sublayers that belong together count as one layer."""
        return Stack(self.layout, layers, n_layers=n_layers, radius=self.o.bound)
