"""The (2N+4)-layer stack at its edges: tiny networks, ties, batches, queries, losses, complaints, files."""

from __future__ import annotations

import math

import pytest
import torch
from stack_cases import ACTS, F64, activated, compiled, off, oracle, problem

import icgd
from icgd.errors import AssumptionViolated, InvalidFile, InvalidParameter
from icgd.mechanisms.stacks.joint_loss_fit import fit_joint_slope
from icgd.problems.losses import huber, joint_loss, link_loss, residual_loss

# -- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(1, 1), (1, 1, 1), (3, 2), (1, 5, 1), (4, 1, 4)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("output", ["linear", "relu"])
def test_small_networks(widths, bias, output):
    network = icgd.Network(widths, "relu", output=output, bias=bias)
    for n in (1, 3):
        X, Y, init = problem(widths, n=n, bias=bias)
        run = compiled(network, 0.3, 2.0).run(X, Y, init=init, steps=5)
        assert off(run.weights, oracle(network, init, X, Y, 0.3, 5, 2.0)[-1]) <= 1e-14


def test_ties_at_the_kink():
    """Pre-activations of exactly 0: autograd takes slope 0, and so does the ramp."""
    network = activated((2, 3, 2), "relu")
    X = torch.tensor([[1.0, -1.0], [0.0, 0.0], [0.5, 0.5]], dtype=F64)
    Y = torch.ones(3, 2, dtype=F64)
    V = [torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.5, 0.5]], dtype=F64), torch.ones(2, 3, dtype=F64)]
    assert int((X @ V[0].T == 0).sum()) >= 4
    init = [(W, None) for W in V]
    run = compiled(network, 0.25, 4.0).run(X, Y, init=init, steps=4)
    assert off(run.weights, oracle(network, init, X, Y, 0.25, 4, 4.0)[-1]) <= 1e-15
    assert run.near_kink.count == 0


def test_batches_are_separate_problems():
    network = icgd.Network((2, 3, 1), "tanh")
    singles = [problem((2, 3, 1), seed, n=6, bias=True) for seed in range(3)]
    X, Y = (torch.stack([s[i] for s in singles]) for i in (0, 1))
    init = [tuple(torch.stack([s[2][j][i] for s in singles]) for i in (0, 1)) for j in range(2)]
    program = compiled(network, 0.5, 1.5, n_relu=65)
    run = program.run(X, Y, init=init, steps=4)
    for k, (x, y, start) in enumerate(singles):
        alone = program.run(x, y, init=start, steps=4)
        both = zip(run.weights, alone.weights, strict=True)
        assert all(
            float((a[k] - b).abs().max()) <= 1e-14
            for p, q in both
            for a, b in zip(p, q, strict=True)
        )
    assert run.predict(X).shape == (3, 6, 1)


@pytest.mark.parametrize("executor", ["collapsed", "dense"])
def test_a_token_that_asks(executor):
    network = activated((3, 4, 2), "tanh")
    X, Y, init = problem((3, 4, 2), n=5)
    program = compiled(network, 0.5, 1.5, n_relu=65, n_examples=5)
    query = torch.tensor([[0.3, -0.2, 0.9]], dtype=F64)
    run = program.run(X, Y, init=init, steps=3, query=query, executor=executor)
    plain = compiled(network, 0.5, 1.5, n_relu=65).run(X, Y, init=init, steps=3)
    # The asking token teaches nothing: the weights are those of a prompt without it.
    assert off(run.weights, [[W] for W, _ in plain.weights]) <= 1e-13
    exact = oracle(network, init, X, Y, 0.5, 3, 1.5)[-1]
    p = query
    for [W] in exact:
        p = torch.tanh(p @ W.T)
    assert run.prediction.shape == (1, 2)
    assert float((run.prediction - p).abs().max()) <= 2e-3
    assert float((run.prediction - run.predict(query)).abs().max()) <= 1e-13
    # Without the mask it would: the same token as an example with target 0.
    wrong = oracle(network, init, torch.cat([X, query]), torch.cat([Y, 0 * Y[:1]]), 0.5, 3, 1.5)[-1]
    assert off(run.weights, wrong) > 10 * off(run.weights, exact)


@pytest.mark.parametrize("act", ["tanh", "softplus"])
def test_predictions(act):
    network = icgd.Network((3, 4, 4, 2), act)
    X, Y, init = problem((3, 4, 4, 2), bias=True)
    program = compiled(network, 0.2, 1.5, n_relu=513)
    run = program.run(X, Y, init=init, steps=5)
    o = X[:7]
    for j, (W, b) in enumerate(run.weights):
        o = o @ W.T + b
        o = o if j == 2 else ACTS[act](o)
    assert float((run.predict(X[:7]) - o).abs().max()) <= 1e-4


# -- losses ---------------------------------------------------------------------------------------


def logistic(o, y):
    return torch.logaddexp(o, torch.zeros_like(o)) - y * o


def huber_half(o, y):
    r = (o - y).abs()
    return torch.where(r <= 0.5, 0.5 * r * r, 0.5 * (r - 0.25))


def log_cosh(r):
    return torch.log(torch.cosh(r))


def pseudo_huber(o, y):
    return torch.sqrt(1 + (o - y) ** 2) * (1 + 0.1 * y**2)


LOSSES = {
    "huber": (huber(0.5), huber_half, 1e-13),
    "logistic": ("logistic", logistic, 1e-4),
    "residual": (residual_loss(log_cosh), lambda o, y: log_cosh(o - y), 1e-4),
    "link": (link_loss(torch.sigmoid), logistic, 1e-4),
    "joint": (joint_loss(pseudo_huber), pseudo_huber, 1e-2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    given, plain, bound = LOSSES[name]
    network = icgd.Network((3, 4, 2), "relu", bias=True, loss=given)
    X, Y, init = problem((3, 4, 2), bias=True)
    if name in ("logistic", "link"):
        Y = (Y > 0).to(F64)
    program = compiled(network, 0.3, None, n_relu=257, target_radius=1.0, radius=3.0)
    run = program.run(X, Y, init=init, steps=10)
    assert icgd.verify(program, X, Y, init=init, steps=2).passed
    found = off(run.weights, oracle(network, init, X, Y, 0.3, 10, loss=plain)[-1])
    assert found <= bound
    square = oracle(network, init, X, Y, 0.3, 10)[-1]
    assert off(run.weights, square) > 3 * found  # another loss, not the default one


@pytest.mark.parametrize(("radius", "target_radius"), [(5.0, 0.6), (5.0, 5.0)])
def test_joint_losses_need_units_in_proportion(radius, target_radius):
    """The error of a function of two variables falls about like 1 / n_relu, and is what is promised."""
    loss, promised = joint_loss(pseudo_huber), []
    o = torch.linspace(-radius, radius, 223, dtype=F64)
    points = torch.cartesian_prod(o, torch.linspace(-target_radius, target_radius, 71, dtype=F64))
    exact = loss.slope_of(*points.T.contiguous())
    for n in (65, 257):
        a, c, certificate = fit_joint_slope(loss, radius, target_radius, n)
        made = torch.relu(points @ a[:, :2].T + a[:, 2]) @ c
        assert (
            float((made - exact).abs().max()) <= 1.05 * certificate.sup_error
        )  # sampled, not proven
        assert float(a.abs().sum(dim=1).max()) <= 1 + 1e-15
        assert len(c) == n
        promised.append(certificate.sup_error)
    assert promised[1] <= 0.6 * promised[0]


def test_bends_of_a_users_loss_are_sampled_and_said_to_be():
    network = icgd.Network((2, 2, 1), "relu", loss=residual_loss(log_cosh))
    assert not compiled(network, 0.3, None, n_relu=33).certificate.rigorous
    assert compiled(icgd.Network((2, 2, 1), "tanh"), 0.3, None, n_relu=33).certificate.rigorous


# -- complaints and files -------------------------------------------------------------------------


def test_out_of_range_names_the_radius():
    network = activated((3, 4, 3), "tanh")
    X, Y, init = problem((3, 4, 3))
    program = compiled(network, 0.5, 1.5, n_relu=33, radius=0.5)
    with pytest.raises(AssumptionViolated, match=r"Recompile with radius >= "):
        program.run(X, Y, init=init, steps=1)
    program.run(X, Y, init=init, steps=1, watch=False)
    relu = compiled(
        activated((3, 4, 3), "relu"), 0.5, 1.5, products="attention", signal_radius=0.01
    )
    with pytest.raises(AssumptionViolated, match=r"Recompile with signal_radius >= "):
        relu.run(X, Y, init=init, steps=1)


@pytest.mark.parametrize(
    ("network", "dtype"),
    [
        (icgd.Network((3, 4, 2), "tanh"), torch.float64),
        (icgd.Network((3, 4, 2), "relu", bias=False, loss="huber"), torch.float64),
        (icgd.Network((3, 4, 2), "gelu", output="gelu"), torch.float32),
    ],
)
def test_saved_and_loaded(tmp_path, network, dtype):
    X, Y, init = problem((3, 4, 2), bias=network.spec.bias)
    X, Y = X.to(dtype), Y.to(dtype)
    init = [tuple(None if p is None else p.to(dtype) for p in pair) for pair in init]
    program = icgd.compile(
        network, icgd.GD(0.5, box=1.5), method="stack", n_relu=33, products="attention", dtype=dtype
    )
    program.save_pretrained(tmp_path)
    again = icgd.Program.from_pretrained(tmp_path)
    assert again.config == program.config
    runs = [p.run(X, Y, init=init, steps=3).weights for p in (program, again)]
    for one, other in zip(*runs, strict=True):
        assert all(a is b is None or torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_users_loss_is_not_loaded(tmp_path):
    network = icgd.Network((2, 2, 1), "relu", loss=residual_loss(log_cosh))
    compiled(network, 0.3, None, n_relu=9).save_pretrained(tmp_path)
    with pytest.raises(InvalidFile, match="Compile it again"):
        icgd.Program.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_relu": 2}, "n_relu"),
        ({"n_relu": 8.5}, "n_relu"),
        ({"knots": "random"}, "knots"),
        ({"products": "magic"}, "products"),
        ({"radius": -1.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"signal_radius": 0.0}, "signal_radius"),
        ({"n_examples": 0}, "n_examples"),
        ({"ramp": 0.3}, "ramp"),
        ({"ramp": 2.0**-52}, "ramp"),
        ({"temperature": "hard"}, "temperature"),
        ({"attention": "tanh"}, "attention"),
    ],
)
def test_wrong_options(options, name):
    with pytest.raises(InvalidParameter, match=f"`{name}`"):
        compiled(icgd.Network((2, 2, 1), "tanh"), 0.1, None, **options)


def test_wrong_optimizers():
    network = icgd.Network((2, 2, 1), "tanh")
    with pytest.raises(InvalidParameter, match="`optimizer`"):
        icgd.compile(network, icgd.SGD(0.1), method="stack")
    with pytest.raises(InvalidParameter, match="`lr`"):
        icgd.compile(network, icgd.GD(), method="stack")


def test_wrong_data():
    network = activated((2, 3, 1), "tanh")
    X, Y, init = problem((2, 3, 1), n=4)
    program = compiled(network, 0.5, 0.5, n_relu=9)
    with pytest.raises(InvalidParameter, match="box"):
        program.run(X, Y, init=[(10 * W, None) for W, _ in init], steps=1)
    init = [(W.clamp(-0.5, 0.5), None) for W, _ in init]
    for bad in ({"X": X[:, :1]}, {"Y": Y[:2]}, {"X": torch.full_like(X, math.nan)}):
        with pytest.raises(InvalidParameter):
            program.run(bad.get("X", X), bad.get("Y", Y), init=init, steps=1)
    with pytest.raises(InvalidParameter, match="epochs"):
        program.run(X, Y, init=init, epochs=1)
    with pytest.raises(InvalidParameter, match="query"):
        program.run(X, Y, init=init, steps=1, query=X[:1])
    asked = compiled(network, 0.5, 0.5, n_relu=9, n_examples=3)
    with pytest.raises(InvalidParameter, match="3 rows"):
        asked.run(X, Y, init=init, steps=1)
    with pytest.raises(InvalidParameter, match="query"):
        asked.run(X[:3], Y[:3], init=init, steps=1, query=X[:2])
