"""No single change of a compiled stack passes verification, unless it keeps what its part promises.

What is promised is an error on a range: with few units a fit may be off by 1e-2, and a weight changed
by 1 % may stay inside that. Such changes are listed, and are the only ones that pass.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
from gd_cases import data
from stack_mutants import index_mutants, other_mutants, weight_mutants

import icgd
from icgd.verification.probes.stack import run_stack_probes
from icgd.verification.probes.stack_fits import check_stack_fits
from icgd.verification.stacks import make_bound

BOX = 1.0
CASES = {
    "stack, softplus": ((2, 2, 1), {"activation": "softplus"}, {"method": "stack", "n_relu": 8}),
    "stack, tanh, no products": (
        (2, 2, 1),
        {"activation": "tanh", "output": "tanh", "bias": False},
        {"method": "stack", "n_relu": 64, "products": "attention", "n_examples": 4},
    ),
    "stack, relu, logistic": (
        (2, 2, 2, 1),
        {"activation": "relu", "loss": "logistic"},
        {"method": "stack", "n_relu": 256},
    ),
    "stack, relu, no products": (
        (2, 2, 1),
        {"activation": "relu", "loss": "huber"},
        {"method": "stack", "products": "attention"},
    ),
    "forward, softplus by tanh": (
        (2, 2, 2, 1),
        {"activation": "softplus"},
        {"method": "forward_mode", "n_relu": 32, "attention": "tanh"},
    ),
    "forward, tanh by sigmoid": (
        (2, 2, 1),
        {"activation": "tanh"},
        {"method": "forward_mode", "n_relu": 12, "attention": "sigmoid", "n_examples": 4},
    ),
    "forward, relu": (
        (2, 2, 2, 1),
        {"activation": "relu", "bias": False},
        {"method": "forward_mode"},
    ),
    "forward, relu, two layers": ((2, 2, 1), {"activation": "relu"}, {"method": "forward_mode"}),
}
FITTED = ("softplus", "tanh", "logistic")


def make(name, **more):
    widths, net, options = CASES[name]
    options = {"radius": 4.0, **options, **more}
    return icgd.compile(icgd.Network(widths, **net), icgd.GD(0.3, box=BOX), **options)


def check_of(program):
    spec = program.codec.spec
    X, Y, init = data(spec.widths, 3, 4, bias=spec.bias)
    init = [(W.clamp(-0.9, 0.9), b) for W, b in init]
    Y = (Y > 0).double() if spec.loss.name == "logistic" else Y.abs()
    return icgd.verify(program, X, Y, init=init, steps=1)


def judge(program):
    """Whether it passes; a part that breaks its promise is enough to fail, and cheaper to find."""
    if not all(fit.passed for fit in check_stack_fits(program)):
        return False
    return check_of(program).passed


def battery(name, mutants):
    rejected, survived = 0, []
    for mutant in mutants:
        if judge(mutant.program):
            survived.append(mutant)
        else:
            rejected += 1
    print(f"\n{name}: {rejected} rejected, {len(survived)} kept their promise:")
    print(*(f"    {m.name} (was {m.before:.3g})" for m in survived), sep="\n")
    return rejected, survived


def assert_harmless(name, rejected, survived):
    assert rejected >= 20
    assert len(survived) <= 0.1 * (rejected + len(survived))
    for mutant in survived:
        small = abs(mutant.before) < 1e-12 or mutant.name.endswith(("scaled by 1%", "set"))
        fitted = any(kind in name for kind in FITTED)
        part = mutant.name.split("[")[0]
        assert small, mutant.name
        assert fitted, mutant.name
        assert part.endswith((".a", ".c")) or "multiply" in part or ".loss." in part, mutant.name


@pytest.mark.parametrize("name", CASES)
def test_every_program_passes_before_it_is_changed(name):
    assert check_of(make(name)).passed


QUICK = ["stack, softplus", "forward, relu, two layers"]


@pytest.mark.parametrize("name", QUICK)
def test_no_changed_weight_passes(name):
    program = make(name)
    assert check_of(program).passed
    assert judge(copy.deepcopy(program))  # a copy is no change
    assert_harmless(name, *battery(name, weight_mutants(program, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_changed_weight_passes_in_depth(name):
    assert_harmless(name, *battery(name, weight_mutants(make(name), 2, every_kind=True, seed=1)))


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_no_moved_index_passes(name):
    rejected, survived = battery(name, index_mutants(make(name), 1))
    assert rejected >= 30
    assert not survived


@pytest.mark.parametrize("name", ["stack, softplus", "forward, softplus by tanh"])
def test_no_other_mask_layer_or_step_size_passes(name):
    rejected, survived = battery(name, other_mutants(make(name)))
    assert rejected >= 15
    assert not survived


@pytest.mark.parametrize("name", CASES)
def test_the_probes_alone_see_a_wrong_layer(name):
    """Without the check of stored parts: signs and zeros in what every token uses."""
    for layer, part in (("descend", "scale"), ("loss", "w_out")):
        program = make(name, n_relu=64)
        for path, weights in program.named_parameters():
            if f".{layer}." in path and path.endswith(part):
                weights.data.mul_(-1)
        probes = run_stack_probes(program, make_bound)
        assert not any(p.passed for p in probes if p.name.startswith("step"))


def test_the_stored_parts_are_needed_at_the_ends_of_the_range():
    """The outermost knot lies where no probe comes."""
    program = make("stack, softplus")
    program.step.sublayers["forward1"].families["out1"].c.data[-1] += 0.5
    program.step.sublayers["end"].groups["box"].w_in.data[0, 1] *= 1.01
    failed = {f.name for f in check_stack_fits(program) if not f.passed}
    assert failed == {"step.forward1.out1", "step.end"}
    check = check_of(program)
    assert not check.passed
    assert sum("away from its function" in note for note in check.notes) == 2


# -- broken programs get a verdict, not an exception --------------------------------------------------


@pytest.mark.parametrize("name", ["stack, softplus", "forward, softplus by tanh", "forward, relu"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e9])
def test_broken_weights_get_a_verdict(name, value):
    for path in ("descend", "end", next(iter(make(name).step.sublayers))):
        program = make(name)
        next(program.step.sublayers[path].parameters()).data.view(-1)[0] = value
        check = check_of(program)
        assert not check.passed
        assert check.notes


def test_tokens_that_disagree_get_a_verdict():
    program = copy.deepcopy(make("forward, softplus by tanh"))
    family = program.step.sublayers["descend"].families["sums"]
    one, residual = family.get_buffer("query_0"), family.get_buffer("key_0")
    family.query_0, family.key_0 = residual, one  # the paper's placement: g on the query side
    family._pairs[0].query, family._pairs[0].key = residual, one
    family.same_query, family.same_key = False, False
    check = check_of(program)
    assert not check.passed
    assert check.run is None
    assert any("disagree" in note for note in check.notes)
    assert any("wiring" in note for note in check.notes)
    assert not any(p.passed for p in check.probes if p.name.startswith("step"))
    assert check.table().row_count > 3
    assert check.to_dict()["passed"] is False


def test_a_verdict_does_not_touch_the_program():
    program = make("forward, relu")
    before = {k: v.clone() for k, v in program.state_dict().items()}
    check_of(program)
    assert all(torch.equal(v, program.state_dict()[k]) for k, v in before.items())
