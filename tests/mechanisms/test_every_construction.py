"""Every construction against exact SGD: autograd and torch.optim, nothing of the package."""

from __future__ import annotations

import math

import pytest
import torch
from cases import (
    BY_NAME,
    NETWORKS,
    OPTIONS,
    by_name,
    compiled,
    copied,
    data,
    distance,
    exact_sgd,
    init,
    tensors,
)

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.transformer.gadgets.heads.spectral_theory import grid_for_error, head_error

BAR = 1e-12
"""max |W - W_sgd| after a whole run in float64: the promise of the package."""

RUNS = [(case, seed) for case in NETWORKS for seed in case.seeds]


def run_name(run):
    return f"{run[0].name}-{run[1]}"


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("run", RUNS, ids=run_name)
def test_training_in_context_is_sgd(run, executor):
    case, seed = run
    X, Y = data(case, seed)
    if executor == "dense":
        X, Y = X[:15], Y[:15]
    start = init(case, seed)
    trained = compiled(case).run(X, Y, init=start, executor=executor)
    assert distance(trained.weights, exact_sgd(case, start, X, Y)[-1]) <= BAR


@pytest.mark.parametrize("run", RUNS, ids=run_name)
def test_the_examples_above_teach_every_layer(run):
    """A comparison of runs in which nothing moves would compare initial weights."""
    case, seed = run
    X, Y = data(case, seed)
    start = init(case, seed)
    end = exact_sgd(case, start, X, Y)[-1]
    for before, after in zip(tensors(start), tensors(end), strict=True):
        assert float((before - after).abs().max()) >= 1e-2


@pytest.mark.parametrize("options", [o for o in OPTIONS if o.exact], ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_every_exact_option_is_sgd(case, options):
    X, Y = data(case, 1, n=20)
    start = init(case, 1)
    trained = compiled(case, options).run(X, Y, init=start, epochs=2)
    assert distance(trained.weights, exact_sgd(case, start, X, Y, epochs=2)[-1]) <= BAR


@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_he_initialisation_without_bias_noise_is_sgd_too(case):
    """Biases exactly zero, as `Network.init` gives them."""
    X, Y = data(case, 4, n=20)
    start = case.network.init(4)
    trained = compiled(case).run(X, Y, init=start)
    assert distance(trained.weights, exact_sgd(case, start, X, Y)[-1]) <= BAR


def test_a_deeper_wider_network_is_sgd():
    case = BY_NAME["deep"]
    big = type(case)("big", (12, 20, 16, 20, 8, 3), lr=0.01)
    X, Y = data(big, 0, n=60)
    start = init(big, 0)
    trained = compiled(big).run(X, Y, init=start, epochs=2)
    exact = exact_sgd(big, start, X, Y, epochs=2)[-1]
    assert distance(trained.weights, exact) <= BAR
    assert all(
        float((a - b).abs().max()) >= 1e-2
        for a, b in zip(tensors(start), tensors(exact), strict=True)
    )


def test_batches_are_sgd_problem_by_problem():
    case = BY_NAME["relu_output"]
    X, Y = data(case, 5, n=15, batch=(4,))
    start = init(case, 5, n_problems=4)
    trained = compiled(case).run(X, Y, init=start)
    for i in range(4):
        own = [(W[i], b[i]) for W, b in start]
        mine = [(W[i], b[i]) for W, b in trained.weights]
        assert distance(mine, exact_sgd(case, own, X[i], Y[i])[-1]) <= BAR


@pytest.mark.parametrize("name", ["scalar", "mixed", "relu_output", "deep"])
def test_float32_follows_sgd_to_its_own_precision(name):
    """Compared with float64 SGD; a run that met a kink may flip a ReLU and is not compared."""
    case = BY_NAME[name]
    program = icgd.compile(case.network, icgd.SGD(lr=case.lr), dtype=torch.float32)
    X, Y = data(case, 1, n=30)
    start = init(case, 1)
    run = program.run(X, Y, init=start)
    assert all(t.dtype == torch.float32 for t in tensors(run.weights))
    assert run.near_kink.count == 0
    exact = exact_sgd(case, start, X, Y)[-1]
    wide = [(W.double(), b.double()) for W, b in run.weights]
    size = max(float(t.abs().max()) for t in tensors(exact))
    per_round = program.certificate.sup_error / program.radius
    assert distance(wide, exact) <= 30 * 4 * per_round * size


@pytest.mark.parametrize("batch", [(), (2,)])
def test_long_runs_read_their_inputs_in_several_chunks(batch):
    case = BY_NAME["scalar"]
    X, Y = data(case, 0, n=600, batch=batch)
    start = init(case, 0, n_problems=batch[0] if batch else None)
    trained = compiled(case).run(X, Y, init=start).weights
    if batch:
        X, Y = X[1], Y[1]
        start, trained = ([(W[1], b[1]) for W, b in w] for w in (start, trained))
    assert distance(trained, exact_sgd(case, start, X, Y)[-1]) <= BAR


def test_units_exactly_at_the_kink_are_closed_as_in_pytorch():
    """Zero inputs and zero biases: relu'(0) = 0 on both sides."""
    case = BY_NAME["mixed"]
    X, Y = data(case, 0, n=6)
    X[::2] = 0.0
    start = case.network.init(0)
    trained = compiled(case).run(X, Y, init=start)
    assert distance(trained.weights, exact_sgd(case, start, X, Y)[-1]) <= BAR


def test_a_run_may_be_continued():
    case = BY_NAME["mixed"]
    X, Y = data(case, 0, n=20)
    start = init(case, 0)
    program = compiled(case)
    half = program.run(X[:10], Y[:10], init=start)
    rest = program.run(X[10:], Y[10:], init=copied(half.weights))
    assert distance(rest.weights, program.run(X, Y, init=start).weights) == 0.0


# -- compiling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=by_name)
@pytest.mark.parametrize("case", NETWORKS, ids=by_name)
def test_two_compiles_are_equal(case, options):
    first, second = (
        icgd.compile(case.network, icgd.SGD(lr=case.lr), **options.options) for _ in range(2)
    )
    left, right = first.state_dict(), second.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert first.config == second.config
    assert first.certificate == second.certificate


@pytest.mark.parametrize("options", OPTIONS, ids=by_name)
def test_the_program_promises_what_its_head_does(options):
    program = compiled(BY_NAME["mixed"], options)
    certificate = program.certificate
    assert certificate.domain == program.radius
    assert certificate.n_tokens == program.config["options"]["n_grid"]
    s = torch.linspace(-program.radius, program.radius, 2001, dtype=torch.float64)
    read = program.step.attention.reader(program.radius)
    assert float((read(s) - s).abs().max()) <= certificate.sup_error


def test_all_violations_are_reported_at_once():
    with pytest.raises(AssumptionViolated) as caught:
        icgd.compile(
            icgd.Network((2, 1)),
            icgd.SGD(lr=0.1),
            temperature="warm",
            n_grid=1,
            rho=-1.0,
            margin=-2.0,
            radius=1e9,
            head_error=-1.0,
        )
    found = caught.value.violations
    named = ("`temperature`", "`n_grid`", "`rho`", "`margin`", "`radius`", "`head_error`")
    assert len(found) == len(named)
    for name in named:
        assert any(text.startswith(name) for text in found), name
        assert name in str(caught.value)


def test_too_few_tokens_are_refused_with_the_number_needed():
    with pytest.raises(AssumptionViolated, match="must be >= 25") as caught:
        icgd.compile(icgd.Network((2, 1)), icgd.SGD(lr=0.1), n_grid=24)
    assert len(caught.value.violations) == 1
    icgd.compile(icgd.Network((2, 1)), icgd.SGD(lr=0.1), n_grid=25)


def test_a_head_error_out_of_reach_is_refused_with_a_grid_that_reaches_it():
    net, sgd = icgd.Network((2, 1)), icgd.SGD(lr=0.1)
    with pytest.raises(AssumptionViolated, match=r"the wanted error is 1e-10") as caught:
        icgd.compile(net, sgd, rho=0.8, radius=16.0, head_error=1e-10)
    g = grid_for_error(1e-10, 16.0)
    assert f"Use n_grid={g.n_grid}, rho={g.rho:.3g}, margin={g.margin:.3g}." in str(caught.value)
    mended = icgd.compile(
        net,
        sgd,
        n_grid=g.n_grid,
        rho=round(g.rho, 3),
        margin=round(g.margin, 3),
        radius=16.0,
        head_error=1e-10,
    )
    assert mended.certificate.sup_error <= 1e-10
    with pytest.raises(AssumptionViolated, match="the smallest certified error found is"):
        icgd.compile(net, sgd, head_error=1e-30)


def test_a_head_error_within_reach_changes_nothing():
    net, sgd = icgd.Network((2, 1)), icgd.SGD(lr=0.1)
    plain, asked = icgd.compile(net, sgd), icgd.compile(net, sgd, head_error=1e-9)
    assert plain.config == asked.config
    assert asked.certificate.sup_error <= 1e-9


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_radius_beyond_the_gates_is_refused(dtype):
    with pytest.raises(AssumptionViolated, match=r"`radius` must be <= .* Standardise the data"):
        icgd.compile(icgd.Network((2, 1)), icgd.SGD(lr=0.1), radius=1e7, dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"problem": (2, 1)}, "problem"),
        ({"problem": torch.nn.Linear(2, 1)}, "problem"),
        ({"optimizer": 0.1}, "optimizer"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)], lr=0.1)}, "optimizer"),
        ({"dtype": torch.float16}, "dtype"),
        ({"dtype": "float64"}, "dtype"),
    ],
)
def test_what_cannot_be_compiled_is_named(arguments, name):
    given = {"problem": icgd.Network((2, 1)), "optimizer": icgd.SGD(lr=0.1), **arguments}
    with pytest.raises(InvalidParameter, match=f"`{name}` must be"):
        icgd.compile(**given)


@pytest.mark.parametrize("name", ["rho", "margin", "radius", "head_error", "n_grid"])
@pytest.mark.parametrize("value", ["a lot", [1.0], math.nan])
def test_options_that_are_no_numbers_are_named(name, value):
    with pytest.raises((InvalidParameter, AssumptionViolated), match=f"`{name}`"):
        icgd.compile(icgd.Network((2, 1)), icgd.SGD(lr=0.1), **{name: value})


def test_the_certificate_is_that_of_the_theory():
    program = compiled(BY_NAME["mixed"])
    g = program.codec.geometry
    assert program.certificate.sup_error == head_error(g, g.radius, 2.0**-53)
