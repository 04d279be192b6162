"""Closed forms equal what is counted on compiled programs, to the last unit."""

from __future__ import annotations

import pytest
import torch

import icgd
from icgd.costs.cot import (
    CotSizes,
    PromptCosts,
    cot_calls,
    cot_structured_flops,
    scan_flops,
)
from icgd.costs.formulas import (
    MODELS,
    Bill,
    FitSize,
    Heads,
    LayerBill,
    Products,
    Units,
    check_model,
    deep_flops_corrected,
    deep_flops_order,
    exponent,
    gradient_flops,
    n_weights,
)
from icgd.costs.stacks import (
    ForwardFits,
    StackFits,
    forward_bill,
    forward_width,
    stack_bill,
    stack_dense_flops,
    stack_layers,
    stack_width,
)
from icgd.errors import InvalidParameter

T = 21


def widths(n_layers, d_x=5, width=4, d_y=2):
    return (d_x, *(width,) * (n_layers - 1), d_y)


def size(family):
    return FitSize(family.c.numel(), tuple((family.a != 0).sum(dim=0).tolist()))


def counted_fits(program):
    """The sizes of a compiled stack's fits, read off its own heads and units."""
    layers, n = program.step.sublayers, len(program.config["problem"]["widths"]) - 1
    each = range(1, n + 1)
    loss = layers["loss"].counts(1)
    outputs = program.config["problem"]["widths"][-1]
    square, gated = None, set()
    for j in each:
        groups = layers[f"multiply{j}"].groups if f"multiply{j}" in layers else {}
        if "plus" in groups:  # squares: the units of one product, u and v read alike
            rows = groups["plus"].w_in[: groups["plus"].size // (groups["erase"].size // 2)]
            uses = ((rows[:, 0] != 0).sum(), (rows[:, 2] != 0).sum())
            square = FitSize(len(rows), tuple(int(u) for u in uses))
        elif "passed" in groups:
            gated.add(j)
    return StackFits(
        {j: size(layers[f"forward{j}"].families[f"out{j}"]) for j in each},
        {j: size(layers["slopes"].families[f"slope{j}"]) for j in each},
        (loss.hidden // outputs, loss.nonzeros // outputs),
        square,
        frozenset(gated),
    )


def same(bill, program):
    counts = program.step.counts()
    assert bill.d_token == program.layout.width
    assert bill.n_layers == program.step.n_layers
    assert [layer.n_heads for layer in bill.layers] == [c.heads for c in counts]
    assert [layer.hidden for layer in bill.layers] == [c.hidden for c in counts]
    assert bill.entries() == sum(c.parameters for c in counts) == program.step.dense_parameters(T)
    assert bill.entries("nonzeros") == sum(c.nonzeros for c in counts)
    for n in (T, 7):
        assert bill.flops(n) == sum(c.dense_flops(n) for c in counts) == program.step.dense_flops(n)
        assert bill.flops(n, "nonzeros") == sum(c.sparse_flops(n) for c in counts)


# -- the stack of [DEEP] --------------------------------------------------------------------------


@pytest.mark.parametrize("n_layers", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("products", ["exact", "attention"])
@pytest.mark.parametrize("box", [None, 1.5])
@pytest.mark.parametrize("bias", [False, True])
def test_the_stack_is_what_its_closed_form_says(n_layers, products, box, bias):
    for activation, output in (("tanh", "tanh"), ("relu", "linear")):
        net = icgd.Network(widths(n_layers), activation, output, bias)
        program = icgd.compile(
            net, icgd.GD(lr=0.1, box=box), method="stack", n_relu=17, products=products
        )
        bill = stack_bill(
            net.widths, counted_fits(program), bias=bias, products=products, box=box is not None
        )
        same(bill, program)
        assert bill.d_token == stack_width(net.widths, bias)
        assert bill.n_layers == len(bill.layers) == stack_layers(n_layers, products)
        if products == "exact":
            assert stack_layers(n_layers) == 2 * n_layers + 4


@pytest.mark.parametrize("n_layers", [2, 3, 8, 16])
@pytest.mark.parametrize("bias", [False, True])
def test_the_one_line_formulas_of_the_stack(n_layers, bias):
    """h_A (6 D^2 T + 4 D T^2) + ... for M units each, with and without the token that asks."""
    net = icgd.Network(widths(n_layers), "tanh", "tanh", bias)
    program = icgd.compile(net, icgd.GD(lr=0.1, box=1.0), method="stack", n_relu=17, n_examples=20)
    for n_tokens in (20, 21):
        wanted = program.step.dense_flops(n_tokens)
        assert stack_dense_flops(net.widths, 17, n_tokens, bias=bias) == wanted
    bill = stack_bill(net.widths, StackFits.uniform(n_layers, 17), bias=bias)
    assert bill.flops(T) == stack_dense_flops(net.widths, 17, T, bias=bias)
    assert bill.entries() == program.step.dense_parameters(T)
    assert bill.n_heads == sum(net.widths[1:]) * (2 * 17 + 3)


def test_other_losses_have_more_units():
    net = icgd.Network((3, 4, 2), "tanh", loss="huber")
    program = icgd.compile(net, icgd.GD(lr=0.1, box=1.0), method="stack", n_relu=17)
    fits = counted_fits(program)
    assert fits.loss[0] == 3
    same(stack_bill(net.widths, fits, bias=True), program)


def test_a_mask_saves_more_than_it_is_said_to():
    """Parts that carry less cost less; carrying everything is the full bill."""
    bill = stack_bill(widths(5), StackFits.uniform(5, 17))
    for model in ("dense", "linear"):
        assert bill.masked_flops(T, model) < bill.flops(T, model)
    for model in ("nonzeros", "structured"):
        assert bill.masked_flops(T, model) == bill.flops(T, model)
    full = [
        LayerBill(layer.name, layer.parts, (bill.d_token,) * len(layer.parts))
        for layer in bill.layers
    ]
    assert Bill(bill.d_token, bill.n_layers, tuple(full)).masked_flops(T) == bill.flops(T)


# -- the recursion of [BRIDGE] --------------------------------------------------------------------


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("activation", "box"), [("relu", None), ("tanh", 1.5)])
def test_forward_mode_is_what_its_closed_form_says(n_layers, bias, activation, box):
    net = icgd.Network(widths(n_layers, width=3), activation, "linear", bias)
    program = icgd.compile(net, icgd.GD(lr=0.1, box=box), method="forward_mode", n_relu=12)
    fits = forward_fits_of(activation)
    bill = forward_bill(net.widths, fits, bias=bias, box=box is not None)
    same(bill, program)
    assert bill.d_token == forward_width(net.widths, bias)
    assert bill.n_layers == max(2, n_layers)


def forward_fits_of(activation):
    program = icgd.compile(
        icgd.Network((1, 1, 1, 1), activation), icgd.GD(lr=0.1), method="forward_mode", n_relu=12
    )
    layers = program.step.sublayers
    return ForwardFits(
        size(layers["attention1"].families["out1"]),
        size(layers["attention1"].families["new1"]),
        size(layers["descend"].families["sums"]),
    )


@pytest.mark.parametrize(
    ("net", "stack", "forward"),
    [
        ((3, 4, 4, 1), (10, 66, 1818), (3, 128, 8480)),
        ((3, 4, 4, 4, 4, 4, 1), (16, 150, 4242), (6, 776, 67280)),
    ],
)
def test_depth_is_traded_for_heads(net, stack, forward):
    """100 units per fit, 80 for the identity: layers, token width and attention heads of both."""
    n = len(net) - 1
    bill = stack_bill(net, StackFits.uniform(n, 100))
    attention = sum(h.n_heads for h in bill.parts if isinstance(h, Heads))
    assert (bill.n_layers, bill.d_token, attention) == stack
    other = forward_bill(net, ForwardFits.uniform(100, 100, 80))
    assert (other.n_layers, other.d_token, other.n_heads) == forward
    # N K^3 heads a layer in the limit, N K^2 in the paper.
    ones = ForwardFits.uniform(1, 1, 1)
    bills = [forward_bill((k,) * 7, ones) for k in (32, 64)]
    per_layer = [max(layer.n_heads for layer in made.layers) for made in bills]
    assert 2.9 < exponent(lambda k: per_layer[k == 64], 32, 64) < 3.0


# -- the chain of thought -------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("output", ["linear", "relu"])
@pytest.mark.parametrize("n_grid", [32, 33])
def test_the_layer_of_the_chain_of_thought(d, bias, output, n_grid):
    net = icgd.Network((d, 1, d - 1), "relu", output, bias)
    program = icgd.compile(net, icgd.SGD(lr=0.1), n_grid=n_grid)
    sizes, layer = CotSizes(d, bias, output == "linear", n_grid), program.step
    assert sizes.d_token == program.layout.width
    assert sizes.working == layer.attention.layout.width
    assert sizes.grid == layer.attention.grid_layout.width
    assert sizes.entries() == layer.dense_parameters(d)
    assert sizes.call_flops() == layer.dense_flops(d)
    literal = layer.dense(d)
    assert sizes.routing_nonzeros == nonzeros_of(literal.pre)
    assert sizes.activation_nonzeros == nonzeros_of(literal.post)
    for name, count in sizes.attention_nonzeros.items():
        home = {
            "spread": "W_A",
            "query": "W_Q",
            "one": "b_Q",
            "key": "W_K",
            "value": "W_V",
            "output": "W_O",
        }.get(name, name)
        assert count == int((getattr(literal.attention, home) != 0).sum()), name
    every = sum(int((weight != 0).sum()) for weight in literal.parameters())
    assert sizes.entries("nonzeros") == every
    run = program.run(torch.ones(3, d).double(), torch.ones(3, d - 1).double(), init=net.init())
    assert run.cost.dense_flops == 3 * cot_calls(2) * sizes.call_flops()
    assert run.cost.structured_flops == 3 * cot_structured_flops(net.widths, n_grid)
    assert run.cost.blocks == PromptCosts.after(rounds=3, n_layers=2).serial


def nonzeros_of(ffn):
    weights = sum(int((getattr(ffn, name) != 0).sum()) for name in ("W_in", "W_out", "W_skip"))
    return weights, sum(int((getattr(ffn, name) != 0).sum()) for name in ("b_in", "b_out"))


def test_models_of_the_chain_of_thought_are_ordered():
    sizes = CotSizes(6)
    calls = [sizes.call_flops(model) for model in ("nonzeros", "linear", "dense")]
    assert calls == sorted(calls)
    assert sizes.call_flops(square=True) > sizes.call_flops()
    assert sizes.entries("linear") < sizes.entries() < sizes.entries(square=True)


def test_prompts_grow_and_searching_them_is_quadratic():
    """The sum over calls, spelled out."""
    for n, rounds in ((2, 10), (3, 4)):
        p = PromptCosts.after(rounds=rounds, n_layers=n)
        seen, blocks = 0, 2 * rounds + n
        for _ in range(2 * n * rounds):
            seen, blocks = seen + blocks, blocks + 1
        assert (p.looks, p.blocks) == (seen, blocks)
    grow = exponent(lambda L: PromptCosts.after(rounds=L, n_layers=3).looks, 1000, 2000)
    assert 1.99 < grow < 2.01
    assert scan_flops(CotSizes(4), 10) == 2 * 3 * 16 * 10


# -- parts ----------------------------------------------------------------------------------------


def test_plain_gradients_are_three_products_a_layer():
    assert gradient_flops((3, 4, 2)) == 2 * (12 + 8) + 2 * 8 + 2 * (12 + 8)
    assert n_weights((3, 4, 2), False) == 20
    assert n_weights((3, 4, 2), True, 1) == 16


def test_no_model_of_a_part_is_above_a_coarser_one():
    for part in (Heads(3, FitSize.full(5, 2), (4, 1), 2), Products(3, 4), Units(6, 14)):
        costs = [part.flops(model, 30, 11) for model in reversed(MODELS)]
        assert costs == sorted(costs)
        held = [part.entries(model, 30) for model in ("nonzeros", "linear", "dense")]
        assert held == sorted(held)


def test_the_order_of_a_whole_run():
    """Corrected leading terms against the closed form; the printed order grows otherwise in n."""
    K, M = 512, 200
    for n in (10, 10**9):
        counted = stack_dense_flops((K,) * 257, M, n, box=False)
        assert counted == pytest.approx(deep_flops_corrected(n, 1, 256, K, M), rel=0.03)
    assert deep_flops_order(4, 1, 2, 3, 0.5) == 4 * 8 * 243 * 4


def test_unknown_models_are_refused():
    with pytest.raises(InvalidParameter, match="`model` must be one of dense, linear"):
        check_model("sparse")
