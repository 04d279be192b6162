"""One frozen softmax layer that trains an N-layer network in its own context.

STATEMENT: [COT] Section 4, Theorems 4.1 and 4.2, Propositions 4.1 to 4.4.

Blocks (all share one layout; slots not named are zero)
    F_i = [out: o_i | inp: o_{i-1} | closed_i | weight: W_i | bias: b_i | linear | flags]
    B_i = [out: delta_i | inp: W_i^T delta_i | 0    | weight: W_i new | bias: b_i new | linear | flags]
    X_l = [out: x_l | 0 ... | flags]          Y_l = [out: y_l | 0 ... | flags]
Stacked inputs [top; bottom]
    x [B_1; X_l]    forward [F_{i-1}; B_i]    y [F_N; Y_l]    backward [B_{i+1}; F_i]
The layer: FFN (router and delta) -> 2d product heads -> FFN (activation). Which of the four it does
is decided inside, by the flags; the weights are the same at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from icgd.mechanisms.cot_network.step_kinds import Route, StepKind, router
from icgd.problems import SGD, NetworkSpec
from icgd.transformer.gadgets.gates.closed_unit import ClosedUnit, Rectifier, closed_slope
from icgd.transformer.gadgets.heads.spectral_theory import GridGeometry
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.chain.grid_attention import GridAttention, HeadBank, ValuePath
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.feedforward import Constant, FeedForward, Skip

CAPACITY = {torch.float64: 2.0**22, torch.float32: 2.0**20}
"""Largest value a gate has to be able to shut out."""


def block_layout(spec: NetworkSpec) -> Layout:
    """Named slots of a block.

    Statement: [COT] Definition 4.3

    Differs from the paper: F and B keep W in the same slot (the printed offsets differ by d, so a
    gate would leak); `closed` replaces sigma'; a bias, a linear-output flag and three type flags
    replace the single tag row; B's update uses o_{i-1}, not O_i.
    """
    d = spec.d_model
    slots = [
        Slot("out", (d,), "o_i in F, delta_i in B, the example in X and Y"),
        Slot("inp", (d,), "o_{i-1} in F, W_i^T delta_i in B"),
        Slot("closed", (d,), "1 where the unit's ReLU is closed (F only)"),
        Slot("weight", (d, d), "W_i, row by row"),
    ]
    if spec.bias:
        slots.append(Slot("bias", (d,), "b_i"))
    if spec.output == "linear":
        slots.append(Slot("linear", (), "1 on a layer without activation"))
    slots += [
        Slot("not_forward", (), "0 in F blocks, 1 elsewhere"),
        Slot("not_backward", (), "0 in B blocks, 1 elsewhere"),
        Slot("not_data", (), "0 in X and Y blocks, 1 elsewhere"),
    ]
    return Layout(slots)


def working_layout(spec: NetworkSpec) -> Layout:
    """Named slots of the token between the two feed-forward layers."""
    d = spec.d_model
    slots = [
        Slot("query_forward", (d,), "o_{i-1} in x and forward steps"),
        Slot("query_backward", (d,), "o_{i-1} in y and backward steps"),
        Slot("delta", (d,), "delta_i in y and backward steps"),
        Slot("weight_forward", (d, d), "W_i in x and forward steps"),
        Slot("weight_backward", (d, d), "W_i in y and backward steps; heads subtract lr delta o^T"),
        Slot("z", (d,), "b_i in x and forward steps; heads add W_i o_{i-1}"),
        Slot("signal", (d,), "heads write W_i^T delta_i"),
    ]
    if spec.bias:
        slots.append(Slot("bias", (d,), "b_i"))
    if spec.output == "linear":
        slots.append(Slot("linear", (), "carried"))
    slots += [
        Slot("hidden", (), "1 in x and forward steps of a layer with activation"),
        Slot("is_forward", (), "1 in x and forward steps"),
        Slot("is_backward", (), "1 in y and backward steps"),
    ]
    return Layout(slots)


def step_kinds(spec: NetworkSpec) -> list[StepKind]:
    """The four step kinds: what each reads from which of its two blocks.

    Weights that could never act are left out: with a linear output no unit of layer N is ever closed
    and no layer below it is ever linear; with a ReLU output no layer is.
    """
    linear_output = spec.output == "linear"

    def carried(layer_block: str, direction: str) -> list[Route]:
        routes = [Route({f"{layer_block}/weight": 1.0}, f"weight_{direction}")]
        if spec.bias:
            routes.append(Route({f"{layer_block}/bias": 1.0}, "bias"))
            if direction == "forward":
                routes.append(Route({f"{layer_block}/bias": 1.0}, "z"))
        return routes

    def flags(layer_block: str) -> dict[str, str]:
        return {"linear": f"{layer_block}/linear"} if linear_output else {}

    def forward(name: str, layer_block: str, asks: str, off: tuple[str, ...]) -> StepKind:
        return StepKind(
            name,
            off=off,
            routes=[Route({asks: 1.0}, "query_forward"), *carried(layer_block, "forward")],
            raises=("is_forward",) if linear_output else ("is_forward", "hidden"),
            carries=flags(layer_block),
            marks={"hidden": f"{layer_block}/linear"} if linear_output else {},
        )

    return [
        forward("x", "top", "bottom/out", ("bottom/not_data", "top/not_backward")),
        forward("forward", "bottom", "top/out", ("bottom/not_backward",)),
        StepKind(
            "y",
            off=("bottom/not_data", "top/not_forward"),
            routes=[
                Route({"top/inp": 1.0}, "query_backward"),
                Route(
                    {"top/out": 1.0, "bottom/out": -1.0},
                    "delta",
                    closed=None if linear_output else "top/closed",
                ),
                *carried("top", "backward"),
            ],
            carries=flags("top"),
            raises=("is_backward",),
        ),
        StepKind(
            "backward",
            off=("bottom/not_forward",),
            routes=[
                Route({"bottom/inp": 1.0}, "query_backward"),
                Route({"top/inp": 1.0}, "delta", closed="bottom/closed"),
                *carried("bottom", "backward"),
            ],
            raises=("is_backward",),
        ),
    ]


@dataclass(frozen=True)
class LayerOptions:
    """What besides the problem decides the weights."""

    geometry: GridGeometry
    dtype: torch.dtype


def layer_slope(spec: NetworkSpec, radius: float, dtype: torch.dtype) -> float:
    """Slope k of the closed units.

    What a hidden layer puts out is asked by a head, so z <= radius. A ReLU output is not; but its
    error o - y is, and y lies within the radius, so that z <= 2 radius.
    """
    return closed_slope(radius if spec.output == "linear" else 2 * radius, dtype)


def universal_layer(spec: NetworkSpec, optimizer: SGD, options: LayerOptions) -> Layer:
    """The one layer: the same frozen weights serve every step.

    Statement: [COT] Proposition 4.3

    Differs from the paper: FFN-attention-FFN instead of four sub-networks summed; 2d heads.
    """
    dtype, g = options.dtype, options.geometry
    capacity = CAPACITY[dtype]
    block, work = block_layout(spec), working_layout(spec)
    pre = FeedForward(
        Layout.stack(top=block, bottom=block),
        work,
        router(step_kinds(spec), work, capacity=capacity, dtype=dtype),
    )
    attention = GridAttention(
        work,
        spread=("delta", "weight_forward", "weight_backward"),
        levels=g.levels(),
        beta=g.beta,
        banks=_heads(spec.d_model, optimizer.lr, dtype),
        dtype=dtype,
    )
    return Layer(pre, attention, _post(spec, optimizer, g.radius, dtype), g.radius)


def _heads(d: int, lr: float, dtype: torch.dtype) -> list[HeadBank]:
    """2d product heads.

    Statement: [COT] Theorem 4.2

    inputs   head j asks o_j and collects [W[:, j] ; delta]: z = W o, or column j of delta o^T
    signals  head r asks delta_r and collects W[r, :]: W^T delta

    Differs from the paper: (27) lets E select o_{i-1}'s place from delta_{i+1}, and its step 5 takes
    rows of W where columns are needed.
    """
    return [
        HeadBank(
            "inputs",
            d,
            d,
            ("query_forward", "query_backward"),
            (
                ValuePath("weight_forward", "column", "z", "whole"),
                ValuePath("delta", "whole", "weight_backward", "column", scale=-lr),
            ),
            dtype,
        ),
        HeadBank(
            "signals",
            d,
            d,
            ("delta",),
            (ValuePath("weight_backward", "row", "signal", "whole"),),
            dtype,
        ),
    ]


def _post(spec: NetworkSpec, optimizer: SGD, radius: float, dtype: torch.dtype) -> FeedForward:
    """Activation, closed units and the linear paths into the new block."""
    d, capacity = spec.d_model, CAPACITY[dtype]
    linear_output = spec.output == "linear"

    def skip(source: str, target: str, shape: tuple[int, ...], coef: float = 1.0) -> Skip:
        return Skip(source, target, shape, coef, dtype)

    skips = [
        skip("delta", "out", (d,)),
        skip("query_forward", "inp", (d,)),
        skip("signal", "inp", (d,)),
        skip("weight_forward", "weight", (d, d)),
        skip("weight_backward", "weight", (d, d)),
        skip("is_backward", "not_forward", ()),
        skip("is_forward", "not_backward", ()),
    ]
    if linear_output:
        skips.append(skip("linear", "linear", ()))
    if spec.bias:
        skips += [skip("bias", "bias", (d,)), skip("delta", "bias", (d,), -optimizer.lr)]
    return FeedForward(
        working_layout(spec),
        block_layout(spec),
        {
            "activation": Rectifier(
                d,
                z="z",
                hidden="hidden" if linear_output else None,
                target="out",
                capacity=capacity,
                dtype=dtype,
            ),
            "closed": ClosedUnit(
                d,
                z="z",
                hidden="hidden",
                target="closed",
                linear="linear" if linear_output else None,
                slope=layer_slope(spec, radius, dtype),
                capacity=capacity,
                dtype=dtype,
            ),
        },
        skips,
        [Constant("not_data", 1.0, dtype)],
    )
