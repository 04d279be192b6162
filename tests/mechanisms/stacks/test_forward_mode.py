"""N layers a step, against full-batch gradient descent by autograd (tests/support/tables/gd_cases.py)."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from gd_cases import F64, SHAPES, apart, data, gd, huber_one, logistic, program, tensors

import icgd
from icgd.transformer.gadgets.fits.slope_product import SHARPNESS

# -- bar 12 ---------------------------------------------------------------------------------------

BARS = {
    (2, "tanh"): 1e-6,
    (2, "sigmoid"): 1e-7,
    (2, "relu"): 3e-3,
    (3, "tanh"): 5e-6,
    (3, "sigmoid"): 5e-6,
    (3, "relu"): 3e-2,
    (4, "tanh"): 3e-4,
    (4, "sigmoid"): 3e-4,
    (4, "relu"): 5e-2,
}
REACHED = {"tanh": 1e-7, "sigmoid": 1e-8, "relu": 5e-3}
"""What the fits in use reach at 200 units, with a margin of 5 or more."""


@pytest.mark.parametrize(("n", "attention"), BARS)
def test_one_step_is_gradient_descent(n, attention):
    p = program(SHAPES[n], attention=attention)
    assert p.step.n_layers == n
    worst = 0.0
    for seed in range(3):
        X, Y, init = data(SHAPES[n], seed)
        made = p.run(X, Y, init=init, steps=1).weights
        exact = gd("softplus", init, X, Y, 1)[0]
        assert apart(init, exact) > 0.02  # the step moves the weights
        worst = max(worst, apart(made, exact))
    print(f"n={n} {attention}: {worst:.1e}")
    assert worst <= BARS[n, attention]
    assert worst <= REACHED[attention]


@pytest.mark.parametrize("n", SHAPES)
@pytest.mark.parametrize("attention", ["tanh", "sigmoid"])
def test_half_the_units_meet_the_bars_as_well(n, attention):
    X, Y, init = data(SHAPES[n], 1)
    made = program(SHAPES[n], attention=attention, n_relu=100).run(X, Y, init=init, steps=1).weights
    assert apart(made, gd("softplus", init, X, Y, 1)[0]) <= BARS[4, attention] / 10


@pytest.mark.parametrize("n", SHAPES)
@pytest.mark.parametrize(
    ("act", "attention", "bar"),
    [
        ("tanh", "tanh", 1e-11),
        ("tanh", "sigmoid", 1e-10),
        ("sigmoid", "sigmoid", 1e-11),
        ("sigmoid", "tanh", 1e-11),
        ("relu", "relu", 1e-8),
        ("gelu", "tanh", 1e-5),
    ],
)
def test_other_networks_and_several_steps(n, act, attention, bar):
    p = program(SHAPES[n], act, attention)
    X, Y, init = data(SHAPES[n], 2)
    run = p.run(X, Y, init=init, steps=10, record="weights")
    exact = gd(act, init, X, Y, 10)
    errors = [apart(w, e) for w, e in zip(run.history, exact, strict=True)]
    print(f"n={n} {act}/{attention}: step 1 {errors[0]:.1e}, step 10 {errors[-1]:.1e}")
    assert max(errors) <= bar
    assert apart(run.weights, exact[-1]) == errors[-1]


def test_fifty_steps_with_softplus():
    X, Y, init = data((3, 4, 4, 1), 0)
    made = program((3, 4, 4, 1), attention="tanh").run(X, Y, init=init, steps=50).weights
    assert apart(made, gd("softplus", init, X, Y, 50)[-1]) <= 1e-6


# -- three evaluations ----------------------------------------------------------------------------

TINY = [((2, 2, 1), False), ((2, 2, 2, 1), True), ((1, 2, 2), True), ((2, 1), True)]


@pytest.mark.parametrize(("widths", "bias"), TINY)
@pytest.mark.parametrize("act", ["tanh", "sigmoid"])
@pytest.mark.parametrize("attention", ["tanh", "sigmoid"])
def test_executors_agree_on_smooth_networks(widths, bias, act, attention):
    p = program(widths, act, attention, bias=bias, n_relu=16)
    X, Y, init = data(widths, n=5, bias=bias)
    runs = {
        e: p.run(X, Y, init=init, steps=2, executor=e) for e in ("collapsed", "sparse", "dense")
    }
    for name in ("sparse", "dense"):
        assert apart(
            runs["collapsed"].weights, tensors(runs[name].weights)
        ) <= 1e-13 * _conditioning(p)
    assert torch.equal(
        runs["collapsed"].weights[0][0],
        p.run(X, Y, init=init, steps=2, executor="structured").weights[0][0],
    )


def _conditioning(p):
    """Large outer weights round in another order: 1e-13 is for sums of |c| <= 1000."""
    largest = max(float(v.abs().sum()) for n, v in p.named_parameters() if n.endswith(".c"))
    return max(1.0, largest / 1000)


@pytest.mark.parametrize(("widths", "bias"), TINY)
def test_executors_agree_on_relu_networks_up_to_the_sharp_units(widths, bias):
    """A unit multiplies its argument by 2^26: 1e-16 in z is 1e-9 in the product before it is shut."""
    p = program(widths, "relu", bias=bias)
    X, Y, init = data(widths, n=5, bias=bias)
    runs = {
        e: p.run(X, Y, init=init, steps=2, executor=e) for e in ("collapsed", "sparse", "dense")
    }
    for name in ("sparse", "dense"):
        off = apart(runs["collapsed"].weights, tensors(runs[name].weights))
        print(f"{widths} {name}: {off:.1e}")
        assert off <= 16 * SHARPNESS * 2.0**-53


# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "bias"),
    [
        ((3, 4, 2), True),
        ((3, 4, 2), False),
        ((2, 3, 4, 3), True),
        ((2, 3, 4, 3), False),
        ((3, 1, 1), True),
        ((2, 1, 1, 1), True),
        ((3, 2), True),
        ((3, 2), False),
        ((1, 1), True),
    ],
)
@pytest.mark.parametrize(
    ("act", "attention", "bar"), [("tanh", "tanh", 1e-11), ("relu", "relu", 1e-8)]
)
def test_every_shape(widths, bias, act, attention, bar):
    p = program(widths, act, attention, bias=bias, n_relu=16)
    X, Y, init = data(widths, bias=bias, n=7)
    run = p.run(X, Y, init=init, steps=3)
    exact = gd(act, init, X, Y, 3)[-1]
    assert apart(run.weights, exact) <= bar
    assert p.step.n_layers == max(2, len(widths) - 1)


@pytest.mark.parametrize("n_examples", [None, 1])
def test_one_sample(n_examples):
    p = program((3, 4, 4, 1), "tanh", "tanh", n_examples=n_examples, n_relu=16)
    X, Y, init = data((3, 4, 4, 1), n=1)
    assert apart(p.run(X, Y, init=init, steps=3).weights, gd("tanh", init, X, Y, 3)[-1]) <= 1e-11


@pytest.mark.parametrize("widths", [(3, 4, 1), (3, 4, 4, 1), (2, 3)])
@pytest.mark.parametrize("act", ["relu", "tanh", "softplus"])
def test_zero_weights_and_ties(widths, act):
    """All pre-activations 0: a ReLU's unit is shut, as autograd has it."""
    p = program(widths, act, bias=True, n_relu=16)
    X, Y, _ = data(widths)
    zero = [(torch.zeros(b, a, dtype=F64), torch.zeros(b, dtype=F64)) for a, b in pairwise(widths)]
    run = p.run(X, Y, init=zero, steps=2)
    bar = {"relu": 1e-9, "tanh": 1e-11, "softplus": 1e-2}[act]
    assert apart(run.weights, gd(act, zero, X, Y, 2)[-1]) <= bar


def test_some_units_exactly_at_the_kink():
    p = program((2, 3, 3, 1), "relu", bias=True)
    X, Y, init = data((2, 3, 3, 1), bias=True)
    init[0][0][1] = 0.0
    init[0][1][1] = 0.0
    init[1][0][2] = 0.0
    init[1][1][2] = 0.0
    run = p.run(X, Y, init=init, steps=1)
    exact = gd("relu", init, X, Y, 1)[0]
    assert apart(run.weights, exact) <= 1e-9
    assert torch.equal(run.weights[0][0][1], torch.zeros(2, dtype=F64))


@pytest.mark.parametrize("n_examples", [None, 6])
def test_batches_are_problems_side_by_side(n_examples):
    p = program((2, 3, 3, 2), "tanh", "tanh", bias=True, n_relu=16, n_examples=n_examples)
    problems = [data((2, 3, 3, 2), seed, n=6, bias=True) for seed in range(3)]
    X, Y = (torch.stack([d[i] for d in problems]) for i in (0, 1))
    init = [tuple(torch.stack([d[2][j][k] for d in problems]) for k in (0, 1)) for j in range(3)]
    run = p.run(X, Y, init=init, steps=2)
    for i, (x, y, w) in enumerate(problems):
        exact = gd("tanh", w, x, y, 2)[-1]
        assert apart([(W[i], b[i]) for W, b in run.weights], exact) <= 1e-11
        alone = p.run(x, y, init=w, steps=2).weights
        assert apart([(W[i], b[i]) for W, b in run.weights], tensors(alone)) <= 1e-13


@pytest.mark.parametrize("widths", [(3, 4, 1), (3, 4, 4, 2), (3, 2)])
@pytest.mark.parametrize(("act", "attention"), [("tanh", "tanh"), ("relu", "relu")])
def test_the_query_changes_nothing_and_is_answered(widths, act, attention):
    p = program(widths, act, attention, n_examples=20, n_relu=16)
    X, Y, init = data(widths)
    query = torch.full((1, widths[0]), 0.7, dtype=F64)
    run = p.run(X, Y, init=init, steps=3, query=query)
    assert apart(run.weights, gd(act, init, X, Y, 3)[-1]) <= 1e-8
    assert float((run.prediction - run.predict(query)).abs().max()) <= 1e-12
    other = p.run(X, Y, init=init, steps=3, query=-query)
    # The mean over N + 1 tokens sums the asking one as exact zeros.
    assert apart(other.weights, tensors(run.weights)) == 0.0
    assert float((other.prediction - run.prediction).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("loss", "ours", "bar"),
    [("huber", huber_one, 1e-9), ("logistic", logistic, 1e-4)],
)
@pytest.mark.parametrize("widths", [(3, 4, 1), (3, 4, 4, 2), (3, 1)])
def test_losses(loss, ours, bar, widths):
    p = program(widths, "tanh", "tanh", loss=loss, bias=True)
    X, Y, init = data(widths, bias=True)
    Y = 2 * Y if loss == "huber" else (Y > 0).double()
    run = p.run(X, Y, init=init, steps=3)
    assert apart(run.weights, gd("tanh", init, X, Y, 3, loss=ours)[-1]) <= bar


@pytest.mark.parametrize("cut", [0.3, 0.7, 1.345])
def test_a_huber_loss_of_any_width_is_exact(cut):
    """Its constant must not be added to the gate, where it would round."""
    p = program((2, 3, 1), "tanh", "tanh", loss=icgd.huber(cut), n_relu=16)
    X, Y, init = data((2, 3, 1))

    def ours(o, y):
        return torch.nn.functional.huber_loss(o, y, reduction="none", delta=cut)

    assert (
        apart(p.run(X, Y, init=init, steps=3).weights, gd("tanh", init, X, Y, 3, loss=ours)[-1])
        <= 1e-12
    )
