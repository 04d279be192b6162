"""Preconditioned gradient descent: a few steps of Newton's iteration make M ~ S^-1, then w <- w - lr M grad.

Tokens are those of mechanisms/loops/newton/layers.py. The entry layers end with M x_i on every example, so one
loop on the residuals r_i = <w, x_i> - y_i is
    r_i <- r_i - lr sum_j r_j <M x_j, x_i>,
gradient descent in the coordinates in which the data are nearly white. A query has y = 0: its r is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import looped_program
from icgd.mechanisms.loops.common.codec import STATE
from icgd.mechanisms.loops.common.parts import SHARP, hard_head
from icgd.mechanisms.loops.newton.codec import NewtonCodec, unit_error
from icgd.mechanisms.loops.newton.constructions import LOOPED_PRECONDITIONED
from icgd.mechanisms.loops.newton.layers import NewtonBuilder, NewtonOptions, newton_layout
from icgd.mechanisms.loops.options import ProductOptions
from icgd.mechanisms.loops.regression.compile import product_options, products_of
from icgd.mechanisms.loops.regression.shared_layers import check_linear
from icgd.mechanisms.step_size import newton_alpha
from icgd.problems import LinearRegression, PreconditionedGD
from icgd.transformer.blocks import Block
from icgd.transformer.gadgets.heads.bilinear import bilinear_certificate
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.softmax_sublayer import SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Stack, Sublayer
from icgd.transformer.program import Blueprint, Program


class PreconditionedBuilder(NewtonBuilder):
    """Newton's layers as entry, gradient descent on residuals as loop."""

    def __init__(
        self, problem: LinearRegression, options: NewtonOptions, lr: float, newton_steps: int
    ) -> None:
        super().__init__(problem, options)
        self.lr, self.newton_steps = lr, newton_steps
        residual = Slot("r", (problem.n_outputs,), "<w, x> - y", each=True)
        self.layout = Layout([*newton_layout(problem), residual])

    def entry(self) -> Stack:
        """M_k x_i after k steps of Newton's iteration, and r = -y."""
        first, once = super().entry(), super().loop()
        layers: dict[str, Sublayer] = dict(first.each())
        for k in range(1, self.newton_steps + 1):
            layers |= {f"{name}{k}": layer for name, layer in super().loop().each()}
        code = [[("code", SHARP / 2)]], [[("code", 1.0)]]
        label = hard_head(self.layout, *code, [("y", -2.0)], "r", self.dtype)
        layers["label"] = SoftmaxSublayer({"label": label})
        # -y stands on both tokens of a pair: away with it on the y token.
        layers["begin"] = self.feed_forward().write("r", [("y", 1.0)]).layer()
        n_layers = first.n_layers + self.newton_steps * once.n_layers + 1
        return self.stack(layers, n_layers)

    def loop(self) -> Stack:
        """One preconditioned step."""
        product = self.product("x", "u", "r", "r", -self.lr, self.o.leverage)
        return self.stack({"descend": product}, 1)

    def readout(self) -> Stack:
        """o = r: a query has no label."""
        return self.stack({"keep": self.feed_forward().write("o", [("r", 1.0)]).layer()}, 1)


class PreconditionedCodec(NewtonCodec):
    """Newton's prompt; weights are read off the residuals of the examples."""

    def decode(self, live: Mapping[Address, Block]) -> Tensor:
        """w from <w, x_i> = r_i + y_i, in the span of the examples."""
        pairs = slice(0, 2 * self.problem.n_examples, 2)
        block = live[STATE]
        x, y, r = (block.value(name) for name in ("x", "y", "r"))
        assert isinstance(x, Tensor)
        assert isinstance(y, Tensor)
        assert isinstance(r, Tensor)
        labels = y[..., 1 : 2 * self.problem.n_examples : 2, :]
        weights = (torch.linalg.pinv(x[..., pairs, :]) @ (r[..., pairs, :] + labels)).mT
        return weights[..., 0, :] if self.problem.n_outputs == 1 else weights

    def output_of(self, block: Block) -> Tensor:
        """See Codec: without ANS, which stands last and asks nothing."""
        value = block.value("r")
        assert isinstance(value, Tensor)
        return value[..., :-1, :]


def choose(
    problem: LinearRegression,
    optimizer: PreconditionedGD,
    given: ProductOptions,
    dtype: torch.dtype,
) -> Blueprint:
    """Check every option and fill in the others."""
    check_linear(problem)
    if problem.lam:
        raise InvalidParameter("lam", problem.lam, "be 0 for icgd.PreconditionedGD")
    chosen = replace(optimizer, alpha=newton_alpha(problem, optimizer.alpha))
    return Blueprint(LOOPED_PRECONDITIONED, problem, chosen, product_options(given), dtype)


def build(blueprint: Blueprint) -> Program:
    """Newton's iteration as a preconditioner, then gradient descent."""
    problem, o = blueprint.problem, blueprint.optimizer
    options = NewtonOptions(o.alpha, problem.radius, products_of(blueprint))
    builder = PreconditionedBuilder(problem, options, o.lr, o.newton_steps)
    step = builder.loop()
    certificate = bilinear_certificate(options.scaled, options.leverage, 2 * problem.n_examples + 2)
    unit = unit_error(options, certificate.sup_error, problem.n_examples)
    codec = PreconditionedCodec(problem, options, unit, [step.like], step)
    return looped_program(blueprint, builder, step, codec=codec, certificate=certificate)
