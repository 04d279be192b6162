"""icgd.verify of stacks: what is sound passes within its bounds, which say something; errors are told."""

from __future__ import annotations

import json
import math
from functools import lru_cache

import pytest
import torch
from gd_cases import data

import icgd
from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.verification.probes.stack_fits import check_stack_fits

F64 = torch.float64


@lru_cache(maxsize=64)
def compiled(widths, act, method, *, bias=True, box=1.5, loss="squared", output="linear", **more):
    net = icgd.Network(widths, act, output=output, bias=bias, loss=loss)
    # Few units need a small range: with a bound above the update the verdict would be inconclusive.
    more.setdefault("radius", 8.0)
    return icgd.compile(net, icgd.GD(0.3, box=box), method=method, **more)


def check_of(program, *, steps=3, n=8, seed=0, **more):
    spec = program.codec.spec
    X, Y, init = data(spec.widths, seed, n, bias=spec.bias)
    if spec.loss.name in ("logistic", "poisson"):
        Y = (Y > 0).double()
    if spec.output != "linear":
        Y = Y.abs() / 2
    dtype = program.dtype
    init = [(W.to(dtype), None if b is None else b.to(dtype)) for W, b in init]
    return icgd.verify(program, X.to(dtype), Y.to(dtype), init=init, steps=steps, **more)


def assert_sound(check):
    assert check.passed, check.notes
    assert_within(check)


def assert_within(check):
    """Everything within its bounds, be they so large that the verdict is inconclusive."""
    assert check.verdict != "failed", check.notes
    if not check.passed:
        assert "could pass" in check.notes[0]
    assert 0 <= check.max_round_error <= check.round_bound < math.inf
    assert check.rounds[-1].error <= check.global_bound
    assert all(r.round_error <= r.round_bound for r in check.rounds)
    assert all(p.passed and p.error <= p.bound for p in check.probes)
    assert all(f.passed and f.error <= f.bound for f in check.fits)
    assert {f.name for f in check.fits} >= {
        "step, wiring",
        "readout, wiring",
        "step.loss",
        "step.end",
    }


# -- sound programs pass --------------------------------------------------------------------------

STACKS = [
    {"act": act, "products": products}
    for act in ("relu", "tanh", "sigmoid", "softplus", "gelu")
    for products in ("exact", "attention")
]


@pytest.mark.parametrize("case", STACKS, ids=lambda c: "-".join(c.values()))
def test_stacks_pass(case):
    for widths, bias, output in (((2, 3, 2, 2), True, "linear"), ((2, 3, 1), False, case["act"])):
        program = compiled(
            widths,
            case["act"],
            "stack",
            bias=bias,
            output=output,
            n_relu=32 if case["products"] == "exact" else 256,
            products=case["products"],
        )
        assert_sound(check_of(program))


HEADS = [
    (act, attention)
    for act in ("relu", "tanh", "sigmoid", "softplus", "gelu")
    for attention in ("relu", "tanh", "sigmoid")
    if act != "relu" or attention == "relu"
]


@pytest.mark.parametrize(("act", "attention"), HEADS)
def test_forward_mode_passes(act, attention):
    # Sums of ReLUs fit a smooth s r'(z) so coarsely that the bound on a layer may exceed its update.
    coarse = attention == "relu" and act != "relu"
    for widths, bias, n_examples in (((2, 3, 2, 2), True, None), ((2, 3, 1), False, 8)):
        program = compiled(
            widths,
            act,
            "forward_mode",
            bias=bias,
            attention=attention,
            n_relu=32 if coarse else 128,
            n_examples=n_examples,
        )
        (assert_within if coarse else assert_sound)(check_of(program))


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
@pytest.mark.parametrize(
    "loss",
    ["huber", "logistic", "poisson", icgd.huber(0.3)],
    ids=lambda loss: getattr(loss, "name", loss),
)
def test_losses_pass(method, loss):
    program = compiled((2, 3, 1), "tanh", method, loss=loss, n_relu=64, box=1.0)
    X, Y, init = data((2, 3, 1), bias=True)
    init = [(W.clamp(-1, 1), b) for W, b in init]
    Y = (Y > 0).double() if isinstance(loss, str) and loss != "huber" else 2 * Y
    check = icgd.verify(program, X, Y, init=init, steps=2)
    (assert_within if loss == "poisson" else assert_sound)(check)  # exp is fitted up to e^8


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_a_loss_of_two_variables_passes(method):
    def value(o, y):
        return torch.log(torch.cosh(o - y)) * (1 + 0.2 * y)

    loss = icgd.joint_loss(value, name="tilted")
    program = compiled((2, 3, 1), "tanh", method, loss=loss, n_relu=200, radius=3.0)
    check = check_of(program)
    assert_within(check)
    assert any("measured on a grid" in note for note in check.notes)


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
@pytest.mark.parametrize("executor", ["structured", "collapsed", "sparse", "dense"])
@pytest.mark.parametrize("act", ["tanh", "relu"])
def test_every_executor_passes(method, executor, act):
    assert_sound(check_of(compiled((2, 2, 1), act, method, n_relu=24), executor=executor))


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
@pytest.mark.parametrize("widths", [(1, 1), (3, 2), (1, 1, 1), (2, 3, 3, 3, 1)])
def test_small_and_deep_shapes_pass(method, widths):
    for act in ("relu", "tanh"):
        assert_sound(check_of(compiled(widths, act, method, n_relu=24 * len(widths))))


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
@pytest.mark.parametrize("act", ["relu", "tanh", "softplus"])
def test_single_precision_passes(method, act):
    if method == "forward_mode" and act != "tanh":
        # Large outer weights times rounding: nothing would be right, so nothing is compiled.
        with pytest.raises(icgd.AssumptionViolated, match="float64"):
            compiled((2, 3, 2, 1), act, method, n_relu=64, dtype=torch.float32)
        return
    program = compiled((2, 3, 2, 1), act, method, n_relu=64, dtype=torch.float32)
    check = check_of(program, seed=2)
    assert check.passed, check.notes
    assert check.max_round_error <= check.round_bound


@pytest.mark.parametrize("lr", [0.14, 1.0, 2.5])
def test_tokens_that_round_differently_do_not_fail_an_untouched_program(lr):
    net = icgd.Network((1, 1, 1), "softplus")
    program = icgd.compile(net, icgd.GD(lr), method="forward_mode", dtype=torch.float32)
    X, Y, _ = data((1, 1, 1), n=5)
    verdict = icgd.verify(program, X, Y, init=net.init(seed=0), steps=1, probe_sets=3)
    assert verdict.verdict != "failed", verdict.notes
    assert all(probe.passed and math.isfinite(probe.error) for probe in verdict.probes)
    for executor in ("sparse", "dense"):
        program.run(X, Y, init=net.init(seed=0), steps=1, executor=executor)


def test_a_kink_that_single_precision_decides_is_noted():
    program = compiled((2, 3, 2, 1), "relu", "stack", n_relu=64, dtype=torch.float32)
    check = check_of(program, seed=0)  # step 2 of 3 meets one, and is off by 6e-4
    assert any("1 steps met a unit so near its corner" in note for note in check.notes)
    assert check.max_error > 1e-4


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_batches_pass(method):
    program = compiled((2, 3, 1), "tanh", method, n_relu=32, n_examples=6)
    problems = [data((2, 3, 1), seed, 6, bias=True) for seed in range(3)]
    X, Y = (torch.stack([p[i] for p in problems]) for i in (0, 1))
    init = [tuple(torch.stack([p[2][j][k] for p in problems]) for k in (0, 1)) for j in (0, 1)]
    check = icgd.verify(program, X, Y, init=init, steps=2)
    assert_sound(check)
    alone = [icgd.verify(program, *p[:2], init=p[2], steps=2) for p in problems]
    assert check.max_error == pytest.approx(max(c.max_error for c in alone), rel=1e-6, abs=1e-15)
    assert check.sgd_weights[0][0].shape == (3, 3, 2)


# -- bounds say something -------------------------------------------------------------------------

RATIOS = [
    ((3, 4, 4, 1), "tanh", "stack", {"n_relu": 64}, 50),
    ((3, 4, 4, 1), "softplus", "stack", {"n_relu": 64}, 200),
    ((3, 4, 4, 1), "sigmoid", "stack", {"n_relu": 64}, 50),
    ((3, 4, 4, 1), "tanh", "stack", {"n_relu": 64, "products": "attention"}, 100),
    ((3, 4, 4, 1), "relu", "stack", {}, 100),
    ((3, 4, 1), "softplus", "forward_mode", {"attention": "tanh", "n_relu": 60}, 50),
    ((3, 4, 4, 1), "softplus", "forward_mode", {"attention": "tanh", "n_relu": 60}, 100),
    ((3, 4, 4, 1), "softplus", "forward_mode", {"attention": "relu", "n_relu": 60}, 100),
    ((3, 4, 4, 1), "relu", "forward_mode", {}, 1000),
]


@pytest.mark.parametrize(("widths", "act", "method", "more", "limit"), RATIOS)
def test_step_bounds_are_not_vacuous(widths, act, method, more, limit):
    ratios = []
    for seed in range(3):
        check = check_of(compiled(widths, act, method, **more), n=20, seed=seed, probe_sets=0)
        assert_within(check)
        ratios.append(check.round_bound / check.max_round_error)
    print(f"{method} {act} {more}: bound / measured {min(ratios):.0f}..{max(ratios):.0f}")
    assert max(ratios) <= limit


def test_the_global_bound_is_not_vacuous_at_first_and_says_when_it_is():
    program = compiled((3, 4, 1), "tanh", "stack", n_relu=256)
    check = check_of(program, steps=40, n=20)
    first = check.rounds[0]
    assert first.global_bound <= 50 * first.error
    assert check.rounds[9].global_bound < 0.1
    bounds = [r.global_bound for r in check.rounds]
    assert bounds == sorted(bounds)
    assert (bounds[-1] > 1.5) == any("vacuous" in note for note in check.notes)
    # The corollary with the step size in place of n, at the measured curvature and the measured errors.
    assert all(r.error <= r.paper_bound for r in check.rounds)


def test_more_units_give_smaller_bounds():
    bounds = [
        check_of(compiled((2, 3, 1), "tanh", "stack", n_relu=n)).round_bound for n in (16, 64, 256)
    ]
    assert bounds[0] > 8 * bounds[1] > 64 * bounds[2]


def test_a_kink_is_counted_and_bounded():
    program = compiled((2, 3, 1), "relu", "stack", bias=True)
    X, Y, init = data((2, 3, 1), bias=True)
    init[0][1][0] = 2.0**-21 - float(init[0][0][0] @ X[0])  # inside the ramp, for one example
    check = icgd.verify(program, X, Y, init=init, steps=2)
    assert check.verdict != "failed"
    assert check.rounds[0].near_kink >= 1
    assert check.near_kink.count >= 1
    assert any("corner" in note for note in check.notes)


# -- errors and forms -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_wrong_arguments_are_told(method):
    program = compiled((2, 3, 1), "tanh", method, n_relu=16)
    X, Y, init = data((2, 3, 1), bias=True)
    with pytest.raises(InvalidParameter, match=r"epochs.*steps"):
        icgd.verify(program, X, Y, init=init, epochs=1)
    with pytest.raises(InvalidParameter, match="steps"):
        icgd.verify(program, X, Y, init=init)
    with pytest.raises(InvalidParameter, match="steps"):
        icgd.verify(program, X, Y, init=init, steps=-1)
    with pytest.raises(InvalidParameter, match="X"):
        icgd.verify(program, X[:, :1], Y, init=init, steps=1)
    with pytest.raises(icgd.IcgdError, match="one row per row"):
        icgd.verify(program, X, Y[:3], init=init, steps=1)
    with pytest.raises(InvalidParameter, match="init"):
        icgd.verify(program, X, Y, init=init[:1], steps=1)
    with pytest.raises(InvalidParameter, match="init"):
        icgd.verify(program, X, Y, steps=1)
    with pytest.raises(InvalidParameter, match="box"):
        icgd.verify(program, X, Y, init=[(20 * W, b) for W, b in init], steps=1)


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_a_sound_program_out_of_its_range_is_an_error(method):
    program = compiled((2, 3, 1), "tanh", method, n_relu=16, radius=2.0)
    X, Y, init = data((2, 3, 1), bias=True)
    with pytest.raises(AssumptionViolated, match="radius"):
        icgd.verify(program, 30 * X, Y, init=init, steps=1)


@pytest.mark.parametrize("method", ["stack", "forward_mode"])
def test_the_verdict_as_numbers_and_as_a_table(method):
    check = check_of(compiled((2, 3, 1), "tanh", method, n_relu=64))
    found = json.loads(json.dumps(check.to_dict()))
    assert found["passed"] is True
    assert found["max_round_error"] == check.max_round_error
    assert len(found["probes"]) == len(check.probes) == 12
    assert len(found["fits"]) == len(check.fits)
    table = check.table()
    assert table.row_count == 2 + len(check.probes) + 1 + 1  # stored parts, resolution


def test_every_stored_part_is_looked_at():
    for program in (
        compiled((2, 3, 2, 1), "tanh", "stack", n_relu=16, products="attention"),
        compiled((2, 3, 2, 1), "tanh", "forward_mode", n_relu=16),
        compiled((2, 3, 1), "relu", "forward_mode", n_relu=16),
    ):
        names = [f.name for f in check_stack_fits(program)]
        parts = [
            f"{stack}.{path.removeprefix('sublayers.').split('.families.')[0].split('.groups.')[0]}"
            for stack in ("step", "readout")
            for path, _ in getattr(program, stack).named_parameters()
        ]
        assert {".".join(n.split(".")[:2]) for n in names if "." in n} == set(parts)


def test_probes_stay_in_a_small_range():
    """A program for small numbers is sound: its probes must not ask for large ones."""
    for method in ("stack", "forward_mode"):
        net = icgd.Network((3, 4, 1), "tanh")
        small = [(0.1 * W, 0.1 * b) for W, b in net.init(0)]
        X = torch.linspace(-0.1, 0.1, 15, dtype=torch.float64).reshape(5, 3)
        program = icgd.compile(net, icgd.GD(0.1), method=method, radius=0.5)
        assert icgd.verify(program, X, X[:, :1], init=small, steps=3).passed


def test_a_run_can_go_on_from_its_own_weights_at_the_box():
    net = icgd.Network((3, 4, 1))
    program = icgd.compile(net, icgd.GD(50.0, box=0.7), method="stack")
    g = torch.Generator().manual_seed(0)
    X = torch.randn(8, 3, generator=g, dtype=torch.float64)
    init = [(W.clamp(-0.7, 0.7), b) for W, b in net.init(0)]
    weights = program.run(X, 3 * X[:, :1], init=init, steps=1).weights
    program.run(X, 3 * X[:, :1], init=weights, steps=1)
    assert max(float(W.abs().max()) for W, _ in weights) <= 0.7 * (1 + 1e-14)


def test_a_loss_that_is_only_sampled_is_said_to_be():
    net = icgd.Network((2, 3, 1), "tanh", loss="logistic")
    assert not icgd.compile(net, icgd.GD(0.1), method="stack").certificate.rigorous
    assert icgd.compile(icgd.Network((2, 3, 1), "tanh"), icgd.GD(0.1)).certificate.rigorous
