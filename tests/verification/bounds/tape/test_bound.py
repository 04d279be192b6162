"""Bounds of tapes: whatever a side computes for a register lies within what it is promised to be off by."""

from __future__ import annotations

import pytest
import torch
from tests.mechanisms.machine.table import LOSSES, data, mlp
from torch.nn import functional

import icgd
from icgd.mechanisms.machine.compile import heads_of
from icgd.mechanisms.machine.tape.instruction import Instruction, Kind, Opcode, Operand, Register
from icgd.mechanisms.machine.tape.semantics import ExactHeads, run_tape
from icgd.mechanisms.machine.tape.tape import Tape
from icgd.verification.bounds.tape.bound import tape_bound
from icgd.verification.bounds.tape.sides import MachineSide, TorchSide
from icgd.verification.bounds.tape.spread import SPREADS

f64 = torch.float64
CASES = [
    ("gelu", "mse", "fixed"),
    ("elu", "cross_entropy_smoothed", "float"),
    ("silu", "bce", "fixed"),
]


def program_of(activation, loss, heads, **options):
    function, kind = LOSSES[loss]
    X, Y = data(kind, n_rows=12, n_in=4)
    model = mlp(activation, widths=(4, 6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = icgd.compile(
        model, optimizer, loss=function, example=(X[:6], Y[:6]), heads=heads, **options
    )
    ready = program.prepared(X, Y)
    return program, {**ready.state, **ready.rounds[0].arriving}


@pytest.mark.parametrize(("activation", "loss", "heads"), CASES)
def test_every_register_of_the_machine_is_within_its_bound(activation, loss, heads):
    program, inputs = program_of(activation, loss, heads)
    tape, own = program.tapes.tapes["first:6"], heads_of(program.blueprint)
    found = run_tape(tape, inputs, own, every=True)
    exact = run_tape(tape, inputs, ExactHeads(), every=True)
    bound = tape_bound(tape, inputs, [MachineSide(own)])
    for name, error in bound.errors.items():
        off = (found[name].to(f64) - exact[name].to(f64)).abs()
        assert bool((off <= error).all()), name
        assert bool(error.isfinite().all()), name


@pytest.mark.parametrize(("activation", "loss", "heads"), CASES)
def test_rounding_of_another_precision_is_covered(activation, loss, heads):
    """In single precision rounding is large enough to be seen in every register."""
    program, inputs = program_of(activation, loss, heads)
    tape = program.tapes.tapes["first:6"]
    single = {n: v.float() if v.is_floating_point() else v for n, v in inputs.items()}
    found = run_tape(tape, single, ExactHeads(), torch.float32, every=True)
    bound = tape_bound(tape, single, [TorchSide(torch.float32)])
    worst = 0.0
    for name, error in bound.errors.items():
        off = (found[name].to(f64) - bound.values[name].to(f64)).abs()
        assert bool((off <= error).all()), name
        worst = max(worst, float((off / error.clamp(min=1e-30)).max()))
    assert worst > 0.01  # the bound is not idle


def test_coarse_heads_are_covered():
    program, inputs = program_of("tanh", "cross_entropy", "fixed", radius=2.4, margin=1.0)
    tape, own = program.tapes.tapes["first:6"], heads_of(program.blueprint)
    found = run_tape(tape, inputs, own)
    exact = run_tape(tape, inputs, ExactHeads())
    outputs = tape_bound(tape, inputs, [MachineSide(own)]).outputs
    off = {name: (found[name] - exact[name]).abs() for name in outputs}
    assert max(float(o.max()) for o in off.values()) > 1e-6
    assert all(bool((off[name] <= bound).all()) for name, bound in outputs.items())


@pytest.mark.parametrize("name", sorted(SPREADS))
def test_functions_move_no_further_than_their_spread(name):
    g = torch.Generator().manual_seed(0)
    x = 4 * (2 * torch.rand(4000, generator=g, dtype=f64) - 1)
    x = x.abs() + 1e-3 if name in ("sqrt", "rsqrt", "log") else x
    e = x.abs() * 10.0 ** (-6 * torch.rand(4000, generator=g, dtype=f64))
    y = x + e * (2 * torch.rand(4000, generator=g, dtype=f64) - 1)
    f = getattr(torch, name)
    moved = (f(y) - f(x)).abs()
    assert bool((moved <= SPREADS[name](x, e) * (1 + 1e-9) + 1e-14 * f(x).abs() + 1e-15).all())


def comparison(opcode):
    a, b = (Register(name, (5,)) for name in "ab")
    flag = Register("f", (5,), Kind.FLAG)
    operands = (Operand.whole(a), Operand.whole(b))
    return Tape({"a": a, "b": b}, {}, (Instruction(opcode, operands, flag),), {"f": flag})


@pytest.mark.parametrize("opcode", [Opcode.COMPARE, Opcode.EQUALS])
def test_exact_ties_are_decided(opcode):
    x = torch.tensor([0.0, 1.0, -2.0, 3.0, 4.0], dtype=f64)
    bound = tape_bound(comparison(opcode), {"a": x, "b": x}, [TorchSide(f64)])
    assert bound.near_kink == 0
    assert not bound.outputs["f"].any()


def test_both_sides_of_a_kink_are_paid_for():
    """relu(s) as a selection by s > 0, where s is a sum that rounding could put on either side."""
    tape = icgd.trace(
        lambda a, b: torch.where(a + b > 0, a, b), example=(torch.ones(3, dtype=f64),) * 2
    )
    one = torch.tensor([1.0, 0.3, 5.0], dtype=f64)
    other = torch.tensor([-1.0 + 2.0**-53, -0.1, 5.0], dtype=f64)
    bound = tape_bound(tape.tapes.tapes["call"], {"data.0": one, "data.1": other}, [TorchSide(f64)])
    assert bound.near_kink == 1
    assert float(bound.outputs["out.0"][0]) >= 2 - 1e-9
    assert float(bound.outputs["out.0"][1:].max()) == 0.0


def test_what_has_no_answer_has_no_bound():
    program = icgd.compile(lambda a: torch.log(a), example=(torch.ones(3, dtype=f64),))
    tape, side = program.tapes.tapes["call"], MachineSide(heads_of(program.blueprint))
    bound = tape_bound(tape, {"data.0": torch.tensor([1.0, 0.0, -1.0], dtype=f64)}, [side])
    assert bound.outputs["out.0"].isfinite().tolist() == [True, False, False]


def test_losses_of_pytorch_are_within_the_bound_of_their_tape():
    """One kernel of PyTorch for several instructions: log_softmax with large differences between entries."""
    scores = torch.tensor([[300.0, -200.0, 0.0], [1e-9, 0.0, -1e-9]], dtype=f64)
    tape = icgd.trace(lambda s: functional.log_softmax(s, dim=1), example=(scores,)).tapes.tapes[
        "call"
    ]
    bound = tape_bound(tape, {"data.0": scores}, [TorchSide(f64)])
    exact = bound.values[tape.outputs["out.0"].name]
    finite = exact.isfinite() & bound.outputs["out.0"].isfinite()
    off = (functional.log_softmax(scores, dim=1) - exact).abs()
    assert bool((off[finite] <= bound.outputs["out.0"][finite]).all())
