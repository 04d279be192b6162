"""One frozen softmax layer that fits a linear model to the examples in its context.

STATEMENT: [COT] Section 3, Lemma 3.1, Theorems 3.1, 3.2 and 3.3.

Block G_l: n tokens, one per example (slots marked * differ from token to token)
    [x_i* | y_i* | weight: w | bias: b | one: 1]
Every step sees the last block and appends the next: the same examples with the next w. One layer:
    pre    next <- (1 - lr lam) w for a ridge penalty, w else; y x for margin losses
    heads  one per example reads s_i = w.x_i + b and returns f(s_i) x_i; for a link, another returns
           y_i x_i; their mean, times -lr, is added to `next`
    post   w <- next, or its soft-threshold for the lasso
A second layer of the same kind predicts: on a block of one token [x_new | w | b | 1] it writes
g(w.x_new + b) (Remark 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from icgd.problems import LinearModelSpec
from icgd.transformer.gadgets.gates.signed_copy import SignedCopy
from icgd.transformer.gadgets.gates.soft_threshold import SoftThreshold
from icgd.transformer.gadgets.heads.link_head import (
    GridOptions,
    HeadTable,
    identity_table,
    slope_table,
)
from icgd.transformer.layout import Layout, Slot
from icgd.transformer.nn.chain.layer import Layer
from icgd.transformer.nn.chain.sample_attention import (
    QueryTerm,
    SampleAttention,
    SampleBank,
    SamplePath,
)
from icgd.transformer.nn.feedforward import FeedForward, FeedForwardPart, Skip

CAPACITY = {torch.float64: 2.0**22, torch.float32: 2.0**20}
"""Largest feature the gates of a margin loss have to shut out."""


@dataclass(frozen=True)
class LinearHeadOptions:
    """What besides the problem decides the weights.

    grid           heads that apply the slope of the loss to s
    plain          heads that pass a number on as it is: predictions, and targets of a link
    target_radius  |y| <= target_radius where a head reads y
    native         whether sigmoid and exp use two-token heads instead of a grid
    """

    grid: GridOptions
    plain: GridOptions
    target_radius: float
    native: bool


def block_layout(spec: LinearModelSpec) -> Layout:
    """Named slots of a token of a block.

    Statement: [COT] Definition 3.1

    Differs from the paper: 2d + 2 rows, not 2d + 3 as printed; an intercept where asked for; a margin
    loss holds its label as two flags.
    """
    d = spec.n_features
    slots = [Slot("x", (d,), "features of the example", each=True)]
    if spec.loss.form == "margin":
        slots += [
            Slot("positive", (), "1 if y = +1", each=True),
            Slot("negative", (), "1 if y = -1", each=True),
        ]
    else:
        slots.append(Slot("y", (), "target of the example, or the prediction for it", each=True))
    slots.append(Slot("weight", (d,), "w"))
    if spec.intercept:
        slots.append(Slot("bias", (), "b"))
    return Layout([*slots, Slot("one", (), "1")])


def working_layout(spec: LinearModelSpec) -> Layout:
    """The block's slots, and what the heads add up."""
    d = spec.n_features
    slots = [slot for slot in block_layout(spec) if slot.name not in ("positive", "negative")]
    if spec.loss.form == "margin":
        slots += [
            Slot("positive", (), "carried", each=True),
            Slot("negative", (), "carried", each=True),
            Slot("signed", (d,), "y x", each=True),
        ]
        if spec.intercept:
            slots.append(Slot("label", (), "y", each=True))
    slots.append(Slot("next", (d,), "heads add -lr times the gradient"))
    if spec.intercept:
        slots.append(Slot("next_bias", (), "likewise"))
    return Layout(slots)


def update_layer(
    spec: LinearModelSpec, lr: float, tables: Tables, options: LinearHeadOptions
) -> Layer:
    """One (proximal) gradient step.

    Statement: [COT] Theorem 3.2

    Differs from the paper: the mean over examples is the heads' normalisation; lam w is a linear skip.
    """
    dtype, d = options.grid.dtype, spec.n_features
    block, work = block_layout(spec), working_layout(spec)
    margin = spec.loss.form == "margin"
    carried = [slot for slot in block if slot.name in work]
    skips = [Skip(f"last/{s.name}", s.name, s.shape, 1.0, dtype) for s in carried]
    shrink = 1.0 - lr * spec.lam if spec.penalty == "l2" else 1.0
    skips.append(Skip("last/weight", "next", (d,), shrink, dtype))
    parts: dict[str, FeedForwardPart] = {}
    if margin:
        parts["signed"] = SignedCopy(
            d,
            source="last/x",
            target="signed",
            positive="last/positive",
            negative="last/negative",
            capacity=CAPACITY[dtype],
            dtype=dtype,
        )
    if spec.intercept:
        skips.append(Skip("last/bias", "next_bias", (), 1.0, dtype))
        if margin:
            skips.append(Skip("last/positive", "label", (), 1.0, dtype))
            skips.append(Skip("last/negative", "label", (), -1.0, dtype))
    pre = FeedForward(Layout.stack(last=block), work, parts, skips)
    attention = SampleAttention(work, _banks(spec, lr, tables, options))
    # A native sigmoid has no range; it is watched all the same, for numbers that are none.
    return Layer(pre, attention, _post(spec, lr, dtype), tables.slope.radius)


@dataclass(frozen=True)
class Tables:
    """The heads' tokens: slope of the loss, targets of a link, prediction."""

    slope: HeadTable
    target: HeadTable | None
    prediction: HeadTable


def make_tables(spec: LinearModelSpec, options: LinearHeadOptions) -> Tables:
    """Choose (and where needed fit) the heads of a problem."""
    slope = slope_table(
        spec.loss, options.grid, y_radius=options.target_radius, native=options.native
    )
    if spec.loss.form != "link":
        return Tables(slope, None, identity_table(options.plain))
    return Tables(slope, target_table(options), slope)


def target_table(options: LinearHeadOptions) -> HeadTable:
    """The head that reads y."""
    return identity_table(replace(options.plain, radius=options.target_radius))


def _predictor(spec: LinearModelSpec, sample: str, one: str) -> list[QueryTerm]:
    terms = [QueryTerm("weight", sample)]
    return [*terms, QueryTerm("bias", one)] if spec.intercept else terms


def _banks(
    spec: LinearModelSpec, lr: float, tables: Tables, options: LinearHeadOptions
) -> list[SampleBank]:
    form, work, dtype = spec.loss.form, working_layout(spec), options.grid.dtype
    sample, one = ("signed", "label") if form == "margin" else ("x", "one")

    def bank(
        name: str,
        readings: dict[str, list[QueryTerm]],
        table: HeadTable,
        sign: float,
        *,
        watched: bool,
    ) -> SampleBank:
        paths = [SamplePath(sample, "next", sign * lr)]
        if spec.intercept:
            paths.append(SamplePath(one, "next_bias", sign * lr))
        return SampleBank(
            name,
            readings,
            paths,
            table.rates,
            table.offset,
            table.values,
            layout=work,
            radius=table.radius,
            dtype=dtype,
            watched=watched,
        )

    s = _predictor(spec, sample, one)
    if form == "residual":
        s.append(QueryTerm("one", "y", -1.0))
    readings = {"s": s}
    if form == "joint":
        readings["y"] = [QueryTerm("one", "y")]
    banks = [bank("slope", readings, tables.slope, -1.0, watched=True)]
    if tables.target is not None:
        # |y| is checked when the examples come in.
        targets = {"y": [QueryTerm("one", "y")]}
        banks.append(bank("target", targets, tables.target, 1.0, watched=False))
    return banks


def _post(spec: LinearModelSpec, lr: float, dtype: torch.dtype) -> FeedForward:
    block, work, d = block_layout(spec), working_layout(spec), spec.n_features
    skips = [
        Skip(slot.name, slot.name, slot.shape, 1.0, dtype)
        for slot in block
        if slot.name not in ("weight", "bias")
    ]
    parts: dict[str, FeedForwardPart] = {}
    if spec.penalty == "l1" and spec.lam:
        parts["prox"] = SoftThreshold(
            d, source="next", target="weight", cut=lr * spec.lam, dtype=dtype
        )
    else:
        skips.append(Skip("next", "weight", (d,), 1.0, dtype))
    if spec.intercept:
        skips.append(Skip("next_bias", "bias", (), 1.0, dtype))
    return FeedForward(work, block, parts, skips)


def prediction_layout(spec: LinearModelSpec) -> Layout:
    """Slots while predicting: what it takes, and the prediction."""
    taken = [s for s in block_layout(spec) if s.name in ("x", "weight", "bias", "one")]
    return Layout([*taken, Slot("prediction", (), "g(w.x + b)")])


def prediction_layer(spec: LinearModelSpec, tables: Tables, options: LinearHeadOptions) -> Layer:
    """The prediction for the one example of a block: one head reads w.x + b and returns g of it.

    Statement: [COT] Remark 3.2

    Differs from the paper: one head, where the remark points to a two-head layer of other work.
    """
    dtype, block, work = options.grid.dtype, block_layout(spec), prediction_layout(spec)
    skips = [Skip(f"last/{s.name}", s.name, s.shape, 1.0, dtype) for s in block if s.name in work]
    table = tables.prediction
    bank = SampleBank(
        "prediction",
        {"s": _predictor(spec, "x", "one")},
        [SamplePath("one", "prediction")],
        table.rates,
        table.offset,
        table.values,
        layout=work,
        radius=table.radius,
        dtype=dtype,
    )
    target = "positive" if spec.loss.form == "margin" else "y"
    post = FeedForward(work, block, {}, [Skip("prediction", target, (), 1.0, dtype)])
    pre = FeedForward(Layout.stack(last=block), work, {}, skips)
    return Layer(pre, SampleAttention(work, [bank]), post, table.radius)
