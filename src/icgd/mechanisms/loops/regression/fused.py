"""Entry, loop and read-out of a looped regression as one layer that is applied T + 2 times.

Four heads in all (modes "sym" and "printed"): one copies labels, two descend, one answers. What acts is decided
by flags in the tokens, which the feed-forward layer moves on:
    done   0 in the first pass; after it the copying head looks at the test token, whose label is 0
    count  -T, -T + 1, ..: when it is -1 the next pass is the last step of descent
    wait   1 except in that pass, after which the keys k are erased, so that descent stops,
    ask    and 1 in ANS alone, so that it looks at the test token
No weight depends on T: the prompt says how often to loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from icgd.errors import InvalidParameter
from icgd.mechanisms.assembly import state_program
from icgd.mechanisms.loops.common.codec import STATE, RegressionCodec
from icgd.mechanisms.loops.common.parts import SHARP, MlpBuilder, hard_head
from icgd.mechanisms.loops.regression.compile import loop_options
from icgd.mechanisms.loops.regression.constructions import FUSED_LOOP, LOOPED_REGRESSION
from icgd.mechanisms.loops.regression.layers import (
    EVERY,
    LoopOptions,
    RegressionBuilder,
    regression_layout,
)
from icgd.problems.regression import RepresentationRegression
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.mask_rules import Address
from icgd.transformer.nn.stack.softmax_sublayer import SoftmaxHead, SoftmaxSublayer
from icgd.transformer.nn.stack.stack import Stack, Sublayer
from icgd.transformer.program import Blueprint, Program
from icgd.transformer.program.session import Session
from icgd.transformer.runtime.executors.chain import StructuredExecutor

GATE = 2.0**60
"""Closes gates on numbers up to this size; open gates pass every number exactly."""


class FusedBuilder(RegressionBuilder):
    """The one layer."""

    def __init__(self, problem: RepresentationRegression, options: LoopOptions) -> None:
        super().__init__(problem, options)
        flags = {
            "done": "1 after the first pass",
            "wait": "0 in the last step of descent",
            "ask": "1 in ANS when it is to be answered",
            "count": "steps of descent begun, minus T",
        }
        added = [Slot(name, (), meaning, each=True) for name, meaning in flags.items()]
        self.layout = Layout([*regression_layout(problem), *added])

    def layer(self) -> Stack:
        """Attention, then the feed-forward layer.

        Statement: [ALGO] Section 2.2

        Differs from the paper: its fourth head "selects". Here every head selects for itself by a flag in its
        query, and the fourth one is descent's second.
        """
        descend = dict(self.loop().each())["descend"]
        ends = {"label": self.copying_head(), "answer": self.answering_head()}
        layers: dict[str, Sublayer] = {}
        if isinstance(descend, SoftmaxSublayer):
            both = {f"descend{h}": head for h, head in enumerate(descend.each())}
            layers["heads"] = SoftmaxSublayer({**ends, **both})
        else:
            # The other heads' inputs are not touched by this one in any pass in which they act.
            layers["descend"], layers["heads"] = descend, SoftmaxSublayer(ends)
        layers["flags"] = self.flags()
        return self.stack(layers, 1)

    def copying_head(self) -> SoftmaxHead:
        """-2y to both tokens of a pair, in equal parts; 0 from the test token when that is done."""
        m = self.layout["code"].size
        return hard_head(
            self.layout,
            [[("code", SHARP / 2)], [("done", SHARP * (m + 1))]],
            [[("code", 1.0)], [("is_test", 1.0)]],
            [("y", -2.0)],
            "r",
            self.o.dtype,
        )

    def answering_head(self) -> SoftmaxHead:
        """ANS attends to the test token if it asks; all others attend to ANS, whose value is 0."""
        return hard_head(
            self.layout,
            [[("ask", 2 * SHARP)], [(slot, SHARP * f) for slot, f in EVERY]],
            [[("is_test", 1.0)], [("is_answer", 1.0)]],
            [("r", 1.0)],
            "y",
            self.o.dtype,
        )

    def flags(self) -> Sublayer:
        """What the entry does token by token, and the flags of the next pass."""
        units = MlpBuilder(self.layout, self.o.dtype, gate_bound=GATE)
        d = self.p.n_representation
        pick = torch.eye(d, dtype=torch.float64) / self.p.n_examples
        first, last = [("done", 1.0)], [("wait", 1.0)]
        units.write("r", [("y", 1.0)], off=first)
        units.write("k", [("h", pick)], off=[("is_test", 1.0), ("is_y", 1.0), *first])
        units.write("done", [*EVERY, ("done", -1.0)])
        units.write("k", [("k", -1.0)], off=last)
        units.write("ask", [("is_answer", 1.0)], off=last).erase("ask")
        # wait <- 1 - [count = -1]; a hat function is exact on whole numbers.
        units.write("wait", [*EVERY, ("wait", -1.0)])
        for shift, height in ((2.0, -1.0), (1.0, 2.0), (0.0, -1.0)):
            ahead = [(slot, shift * f) for slot, f in EVERY]
            units.write("wait", [("count", 1.0), *ahead], scale=height, below=0.0)
        units.write("count", EVERY)
        return units.layer()


class FusedCodec(RegressionCodec):
    """The same prompt with flags; steps=T is T + 1 rounds, and the answer is one more application."""

    ahead = 1

    def session(
        self,
        X: Any,
        Y: Any,
        *,
        init: Any = None,
        epochs: int | None = None,
        steps: int | None = None,
        padded: bool = False,
        query: Any = None,
    ) -> Session:
        """See Codec."""
        plain = super().session(
            X, Y, init=init, epochs=epochs, steps=steps, padded=padded, query=query
        )
        slots, n_rounds = plain.prompt[STATE].slots, plain.n_rounds + 1
        one = torch.ones_like(slots["is_x"])

        def arrivals(executor: StructuredExecutor | None) -> Iterator[Mapping[Address, Block]]:
            for _ in range(n_rounds):
                yield {}

        values: dict[str, Tensor | float] = {**slots, "wait": one, "count": -plain.n_rounds * one}
        return replace(
            plain, prompt={STATE: make_block(values)}, arrivals=arrivals, n_rounds=n_rounds
        )


def fuse(program: Program) -> Program:
    """The three parts of a looped regression as one layer.

    Statement: [ALGO] Section 2.2

    program  compiled from icgd.LinearRegression and icgd.GD, without a penalty; its run(steps=T) applies the
             fused layer T + 1 times, and once more to answer. A history has an entry per application.

    Differs from the paper: see FusedBuilder.layer.
    """
    if program.construction is not LOOPED_REGRESSION:
        raise InvalidParameter(
            "program",
            program.construction.name,
            f"be a {LOOPED_REGRESSION.name}",
            remedy="Compile icgd.LinearRegression with icgd.GD.",
        )
    if program.problem.representation:
        layers = len(program.problem.representation)
        raise InvalidParameter(
            "program",
            f"{layers} layers of phi",
            "have an entry of one layer",
            remedy="Compile icgd.LinearRegression, whose phi is the identity.",
        )
    if program.problem.lam:
        raise InvalidParameter("lam", program.problem.lam, "be 0 to fuse a loop")
    blueprint = replace(program.blueprint, construction=FUSED_LOOP)
    blueprint.check()
    return build(blueprint)


def build(blueprint: Blueprint) -> Program:
    """The program a blueprint describes; used by fuse and when loading from disk."""
    problem = blueprint.problem
    options = loop_options(blueprint, problem.radius, problem.n_examples)
    builder = FusedBuilder(problem, options)
    step, reach = builder.layer(), math.sqrt(options.products.room) * problem.radius
    return state_program(
        blueprint,
        step=step,
        layout=builder.layout,
        codec=FusedCodec(problem, [step.like], step, lr=options.lr, reach=reach),
        certificate=options.certificate(2 * problem.n_examples + 2),
    )
