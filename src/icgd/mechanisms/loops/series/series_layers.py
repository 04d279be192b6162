"""Autoregression with a representation: copy the past, represent it, regress in a loop, answer.

Tokens are x_0 .. x_N ANS. After the entry layers a token t that has its whole window holds
phi(x_{t-q+1}, .., x_t) in `f`; if its successor is known (t < N) it holds f / (N-q+1) in `k` and -x_{t+1} in
`r`. The loop is the one of regression, r_t = A f_t - x_{t+1}, and the answer is r of token N.
"""

from __future__ import annotations

import torch
from torch import Tensor

from icgd.mechanisms.loops.common.parts import MlpBuilder
from icgd.mechanisms.loops.common.shift_codes import ShiftCodes, shift_codes
from icgd.mechanisms.loops.regression.layers import LoopOptions
from icgd.mechanisms.loops.regression.shared_layers import answer_layer, descent_layer
from icgd.problems import Autoregression
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.stack.softmax_sublayer import Rows, SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Stack, Sublayer

FLAGS = {
    "is_train": "a whole window and a known successor: q-1 <= t < N",
    "is_last": "t = N, the window that asks",
    "is_early": "t < q-1: no whole window",
    "is_answer": "ANS: the sink, and where the answer goes",
}
EVERY: Rows = tuple((name, 1.0) for name in FLAGS)
"""1 in every token."""
NO_WINDOW: Rows = (("is_early", 1.0), ("is_answer", 1.0))


def series_codes(problem: Autoregression) -> ShiftCodes:
    """Codes of the N + 2 tokens."""
    return shift_codes(problem.n_steps + 2)


def series_layout(problem: Autoregression) -> Layout:
    """lag_{q-1} .. lag_1 | x | f | k | r | out | code | indicators, for N + 2 tokens.

    Statement: [ALGO] Theorem 3.2

    Differs from the paper: its layout is lost in the text; the last token, sink and answer slot in one, is
    missing from its prompt.
    """
    d, q = problem.n_features, problem.order
    widths = [W.shape[0] for W, _ in problem.representation] or [q * d]
    return Layout(
        [
            *(Slot(f"lag{i}", (d,), f"x_(t-{i}), 0 before the start", each=True) for i in lags(q)),
            Slot("x", (d,), "x_t", each=True),
            Slot("f", (max(widths),), "phi of the window that ends at t", each=True),
            Slot("k", (problem.n_representation,), "phi / (N-q+1) of training tokens", each=True),
            Slot("r", (d,), "A phi - x_(t+1)", each=True),
            Slot("out", (d,), "the answer, on the last token", each=True),
            Slot("code", (series_codes(problem).width,), "code of the position", each=True),
            *(Slot(f"has{i}", (), f"t >= {i}: lag {i} exists", each=True) for i in lags(q)),
            *(Slot(name, (), meaning, each=True) for name, meaning in FLAGS.items()),
        ]
    )


def lags(order: int) -> range:
    """How far back copies reach, the oldest first."""
    return range(order - 1, 0, -1)


class AutoregressionBuilder:
    """Entry, loop and read-out layers on named slots."""

    def __init__(self, problem: Autoregression, options: LoopOptions) -> None:
        self.p, self.o = problem, options
        self.codes = series_codes(problem)
        self.layout = series_layout(problem)

    def entry(self) -> Stack:
        """One layer that copies the past, L for phi, one that brings every successor to its window.

        Statement: [ALGO] Theorem 3.2

        Differs from the paper: q-1 copies and x_t itself make the window, where it copies q tokens and
        uses x_t as well; the successor comes by another head, which an encoder alone can have.
        """
        layers: dict[str, Sublayer] = {}
        if self.p.order > 1:
            layers["copy"] = self.copy()
        keep = self.keep()
        if self.p.order > 1 or not self.p.representation:
            layers["filter"] = keep.layer()
        for j, (W, b) in enumerate(self.p.representation, 1):
            layers[f"phi{j}"] = self.represent(j, W, b)
        label = self.codes.head(self.layout, 1, [("x", -1.0)], "r", self.o.dtype)
        layers["label"] = SoftmaxSublayer({"successor": label})
        layers["ready"] = self.ready()
        # With q = 1 nothing is copied, and the first layer is there only if phi is the identity.
        idle = self.p.order == 1 and bool(self.p.representation)
        return self.stack(layers, len(self.p.representation) + 2 - idle)

    def copy(self) -> SoftmaxSublayer:
        """lag_i <- x_{t-i}, bit by bit; before the start whatever the softmax mixes.

        Statement: [ALGO] Lemma A.3

        Differs from the paper: see shift_codes.py; the token itself needs no head.
        """
        return SoftmaxSublayer(
            {
                f"lag{i}": self.codes.head(self.layout, -i, [("x", 1.0)], f"lag{i}", self.o.dtype)
                for i in lags(self.p.order)
            }
        )

    def keep(self) -> MlpBuilder:
        """Erase copies of what does not exist; without a representation write the window."""
        units = MlpBuilder(self.layout, self.o.dtype)
        for i in lags(self.p.order):
            units.write(f"lag{i}", [(f"lag{i}", -1.0)], off=[(f"has{i}", 1.0)])
        if not self.p.representation:
            units.write("f", self.window(torch.eye(self.p.n_representation)), off=NO_WINDOW)
        return units

    def window(self, W: Tensor) -> Rows:
        """W times the window, as maps of the slots it is spread over."""
        names = [*(f"lag{i}" for i in lags(self.p.order)), "x"]
        blocks = W.to(torch.float64).split(self.p.n_features, dim=1)
        return list(zip(names, blocks, strict=True))

    def represent(self, j: int, W: Tensor, b: Tensor) -> Sublayer:
        """f <- leaky(W f + b), from the window in the first layer; tokens without one keep f = 0."""
        units = MlpBuilder(self.layout, self.o.dtype)
        bias: Rows = [("is_train", b.unsqueeze(1)), ("is_last", b.unsqueeze(1))]
        if j == 1:
            units.write("f", [*self.window(W), *bias], below=self.p.slope, off=NO_WINDOW)
            return units.layer()
        wide = torch.zeros(W.shape[0], self.layout["f"].size, dtype=torch.float64)
        wide[:, : W.shape[1]] = W
        return units.write("f", [("f", wide), *bias], below=self.p.slope).erase("f").layer()

    def ready(self) -> Sublayer:
        """k <- f / (N-q+1) on training tokens, and r <- 0 on all others."""
        units = MlpBuilder(self.layout, self.o.dtype)
        units.write("r", [("r", -1.0)], off=[("is_train", 1.0)])
        pick = torch.eye(self.p.n_representation, self.layout["f"].size, dtype=torch.float64)
        units.write("k", [("f", pick / self.p.n_examples)], off=[("is_last", 1.0), *NO_WINDOW])
        return units.layer()

    def loop(self) -> Stack:
        """One step of gradient descent; see loop_layers.py."""
        return self.stack({"descend": descent_layer(self.layout, self.o, "f", EVERY)}, 1)

    def readout(self) -> Stack:
        """ANS reads r = A phi of token N."""
        return self.stack({"answer": answer_layer(self.layout, EVERY, self.o.dtype)}, 1)

    def stack(self, layers: dict[str, Sublayer], n_layers: int) -> Stack:
        """Attention and feed-forward sublayers that belong together count as one layer."""
        return Stack(self.layout, layers, n_layers=n_layers, radius=self.o.bound)
