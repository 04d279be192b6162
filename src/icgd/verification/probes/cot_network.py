"""Probe blocks: every step type, every slot filled, queries up to the edge of the certified range.

A training run visits a small part of what the layer must do right; a weight can be wrong where
training never looks. Probes look there: leftover values in slots a step must ignore, layers with
and without activation, numbers of every size up to the radius.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from icgd.oracle.steps import exact_backward, exact_forward
from icgd.problems import NetworkSpec
from icgd.transformer.blocks import Block, make_block
from icgd.transformer.gadgets.heads.spectral_theory import (
    GridGeometry,
    head_error_polynomial,
    make_geometry,
)
from icgd.transformer.mask_rules import Step
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.symbolic import weights_stay_fixed
from icgd.transformer.program import Program
from icgd.transformer.runtime.executors.chain import DenseExecutor, StructuredExecutor
from icgd.transformer.runtime.executors.choose import DENSE_PARAMETER_LIMIT
from icgd.transformer.runtime.loop import Executor
from icgd.transformer.runtime.watch import RangeWatch

FORWARD_FLAGS = {"not_backward": 1.0, "not_data": 1.0}
BACKWARD_FLAGS = {"not_forward": 1.0, "not_data": 1.0}
DATA_FLAGS = {"not_forward": 1.0, "not_backward": 1.0}

Values = dict[str, Tensor | float]


@dataclass(frozen=True)
class Probe:
    """A stacked input, the exact block it should give, and how far off each slot may be."""

    kind: str
    top: Block
    bottom: Block
    expected: dict[str, Tensor]
    bound: dict[str, Tensor]


@dataclass(frozen=True)
class ProbeResult:
    """The worst slot of one probe on one executor."""

    kind: str
    executor: str
    slot: str
    error: float
    bound: float
    passed: bool


class ProbeMaker:
    """Random probes for a network program; the generator is the only source of randomness."""

    def __init__(self, program: Program, seed: int) -> None:
        self.spec: NetworkSpec = program.problem.spec
        self.lr = program.optimizer.lr
        self.geometry: GridGeometry = make_geometry(**program.options)
        self.dtype, self.device, self.slope = program.dtype, program.device, program.step.slope
        self.u = torch.finfo(program.dtype).eps / 2
        self.d = self.spec.d_model
        self._seed = seed
        self._generator = torch.Generator()
        self._sign, self._weight_sign = 1.0, 1.0

    def probes(self, n_sets: int) -> Iterator[Probe]:
        """Sets of probes in which every entry of every slot takes both signs, in all combinations.

        A unit of a gate acts on one sign only, and a ReLU's weights show only where it is open; random
        signs alone would leave some weights untried.
        """
        linears = (False, True) if self.spec.output == "linear" else (False,)
        signs = (1.0, -1.0)
        for number, linear, sign, weight_sign in product(range(n_sets), linears, signs, signs):
            self._sign, self._weight_sign = sign, weight_sign
            self._generator.manual_seed(self._seed + 1009 * number)
            yield self._forward("forward", linear)
            yield self._forward("x", linear)
            yield self._backward("backward", linear)
            yield self._backward("y", linear)

    # -- random values ----------------------------------------------------------------------------

    def _uniform(self, *shape: int) -> Tensor:
        raw = torch.rand(*shape, generator=self._generator, dtype=torch.float64)
        return (2 * raw - 1).to(self.device, self.dtype)

    def _queries(self) -> Tensor:
        """Numbers of all sizes up to the radius, the edge itself among them."""
        exponent = torch.rand(self.d, generator=self._generator, dtype=torch.float64) * 4
        size = self.geometry.radius * 10.0 ** (-exponent).to(self.device)
        edge = int(torch.randint(self.d, (1,), generator=self._generator))
        size[edge] = self.geometry.radius
        return self._sign * self._uniform(self.d).sign() * size.to(self.dtype)

    def _bits(self) -> Tensor:
        return (self._weight_sign * self._uniform(self.d) > 0).to(self.dtype)

    def _layer(self, *, linear: bool) -> Values:
        """W, b and the linear flag of a layer, so small that |W s + b| <= radius for all |s| <= radius."""
        radius = self.geometry.radius
        largest_bias = min(1.0, radius / 2) if self.spec.bias else 0.0
        row_sum = 1 - largest_bias / radius
        W = self._weight_sign * self._uniform(self.d, self.d) * (row_sum / self.d)
        values: Values = {"weight": W}
        if self.spec.bias:
            values["bias"] = self._sign * self._uniform(self.d) * largest_bias
        if linear:
            values["linear"] = 1.0
        return values

    def _data(self, out: Tensor) -> Block:
        return make_block({"out": out, **DATA_FLAGS})

    # -- the four kinds ---------------------------------------------------------------------------

    def _forward(self, kind: str, linear: bool) -> Probe:
        """F_i from its input and W_i, with leftovers in every slot that must be ignored."""
        query, layer = self._queries(), self._layer(linear=linear)
        W, b = layer["weight"], layer.get("bias")
        assert isinstance(W, Tensor)
        assert b is None or isinstance(b, Tensor)
        leftover: Values = {"out": self._queries(), "inp": self._queries()}
        weights = make_block({**leftover, **layer, **BACKWARD_FLAGS})
        if kind == "x":
            top, bottom = weights, self._data(query)
        else:
            before: Values = {"out": query, "inp": self._queries(), "closed": self._bits()}
            # Its linear flag is a leftover too: layer i must go by its own.
            other = self._layer(linear=self.spec.output == "linear")
            top = make_block({**before, **other, **FORWARD_FLAGS})
            bottom = weights
        exact = exact_forward(W, b, query, linear=linear)
        slack = self._product_error(W, query, b)
        doubtful = (exact.z.abs() <= slack + 1 / self.slope) & (not linear)
        zero = torch.zeros_like(slack)
        expected = {
            "out": exact.out,
            "inp": query,
            "closed": exact.closed,
            "weight": W,
            "not_forward": zero[0],
            "not_backward": zero[0] + 1,
            "not_data": zero[0] + 1,
        }
        bound = {"out": slack, "closed": torch.where(doubtful, 1.0, zero)}
        return self._probe(kind, top, bottom, layer, expected, bound)

    def _backward(self, kind: str, linear: bool) -> Probe:
        """B_i from the signal above it and F_i."""
        inp, incoming = self._queries(), self._queries()
        closed = torch.zeros_like(inp) if linear else self._bits()
        linear_here = self.spec.output == "linear" if kind == "y" else False
        if kind == "y":
            closed = torch.zeros_like(inp) if linear_here else closed
            # o and y of one sign and size: their difference is the signal, both stay in range.
            out = self._queries() / 2
            incoming = out - (y := self._queries() / 2)
        layer = self._layer(linear=linear_here)
        W, b = layer["weight"], layer.get("bias")
        assert isinstance(W, Tensor)
        assert b is None or isinstance(b, Tensor)
        if kind == "y":
            forward: Values = {"out": out, "inp": inp, "closed": closed}
            top = make_block({**forward, **layer, **FORWARD_FLAGS})
            bottom = self._data(y)
        else:
            above: Values = {"out": self._queries(), "inp": incoming}
            top = make_block({**above, **self._layer(linear=linear), **BACKWARD_FLAGS})
            here: Values = {"out": self._queries(), "inp": inp, "closed": closed}
            bottom = make_block({**here, **layer, **FORWARD_FLAGS})
        return self._backward_probe(kind, top, bottom, layer, inp, incoming, closed)

    def _backward_probe(
        self,
        kind: str,
        top: Block,
        bottom: Block,
        layer: Values,
        inp: Tensor,
        incoming: Tensor,
        closed: Tensor,
    ) -> Probe:
        W, b = layer["weight"], layer.get("bias")
        assert isinstance(W, Tensor)
        assert b is None or isinstance(b, Tensor)
        exact = exact_backward(W, b, inp, incoming, closed, self.lr)
        u, delta = self.u, exact.delta.abs()
        zero = torch.zeros_like(inp)
        expected = {
            "out": exact.delta,
            "inp": exact.signal,
            "closed": zero,
            "weight": exact.weight,
            "not_forward": zero[0] + 1,
            "not_backward": zero[0],
            "not_data": zero[0] + 1,
        }
        moved = self.lr * delta.unsqueeze(-1) * inp.abs()
        bound = {
            "inp": self._product_error(W.T, exact.delta),
            "weight": self.lr * delta.unsqueeze(-1) * self._head(inp)
            + 2 * u * (W.abs() + 4 * moved),
        }
        if exact.bias is not None and b is not None:
            expected["bias"] = exact.bias
            bound["bias"] = 2 * u * (b.abs() + 3 * self.lr * delta)
        return self._probe(kind, top, bottom, layer, expected, bound)

    def _probe(
        self,
        kind: str,
        top: Block,
        bottom: Block,
        layer: Values,
        expected: dict[str, Tensor],
        bound: dict[str, Tensor],
    ) -> Probe:
        if self.spec.bias and "bias" not in expected:
            carried = layer["bias"]
            assert isinstance(carried, Tensor)
            expected["bias"] = carried
        if self.spec.output == "linear":
            expected["linear"] = expected["not_data"] * float(layer.get("linear", 0.0))
        return Probe(kind, top, bottom, expected, bound)

    def _head(self, s: Tensor) -> Tensor:
        c0, c1, c2 = head_error_polynomial(self.geometry, self.u)
        size = s.abs()
        return c0 + c1 * size + c2 * size * size

    def _product_error(self, matrix: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        """Error of matrix @ head(v) + bias: every head's own, and rounding by us and by the oracle."""
        size = matrix.abs() @ v.abs() + (0.0 if bias is None else bias.abs())
        return matrix.abs() @ self._head(v) + 2 * (matrix.shape[1] + 3) * self.u * size


def probe_blocks(
    program: Program, *, n_sets: int = 1, seed: int = 0
) -> Iterator[tuple[Probe, str, Block]]:
    """What the program makes of every probe: structured, and literal matrices where they fit."""
    watch = RangeWatch(math.inf, program.step.slope, lambda largest: 0.0)
    assert isinstance(program.step, Layer)
    executors: dict[str, Executor] = {
        "structured": StructuredExecutor(
            program.step, ("top", "bottom"), watch, batched=False, keep_all=True
        )
    }
    if program.step.dense_parameters(program.layout["out"].size) <= DENSE_PARAMETER_LIMIT:
        executors["dense"] = DenseExecutor(
            program.step, program.layout, program.layout["out"].size, watch
        )
    with torch.no_grad(), weights_stay_fixed():
        for probe in ProbeMaker(program, seed).probes(n_sets):
            step = Step(probe.kind, ("probe", 0), (("top", 0), ("bottom", 0)))
            for name, executor in executors.items():
                stacked = [executor.load(block) for block in (probe.top, probe.bottom)]
                yield probe, name, executor.dump(executor.step(stacked, step, 0))


def run_probes(program: Program, *, n_sets: int = 1, seed: int = 0) -> list[ProbeResult]:
    """Judge every probe on every executor."""
    return [
        _judge(probe, name, block)
        for probe, name, block in probe_blocks(program, n_sets=n_sets, seed=seed)
    ]


def _judge(probe: Probe, name: str, block: Block) -> ProbeResult:
    worst = ProbeResult(probe.kind, name, "-", 0.0, 0.0, True)
    for slot, expected in probe.expected.items():
        got = torch.as_tensor(block.value(slot), dtype=expected.dtype, device=expected.device)
        error = (got - expected).abs()
        # What the layer passes on untouched must arrive untouched: bound 0 means bit by bit.
        bound = probe.bound.get(slot, torch.zeros_like(error)).expand_as(error)
        excess = torch.where(torch.isnan(error), torch.inf, error - bound)
        failed = float(excess.max()) > 0
        if failed or float(error.max()) > worst.error:
            at = int((excess if failed else error).argmax())
            errors, bounds = error.reshape(-1), bound.reshape(-1)
            worst = ProbeResult(
                probe.kind, name, slot, float(errors[at]), float(bounds[at]), not failed
            )
        if failed:
            return worst
    return worst
