"""Passes keep what a tape computes: selection, fusion, and the placing of registers in blocks."""

from __future__ import annotations

import json

import pytest
import torch
from tests.mechanisms.machine.table import data, f64, mlp
from torch.nn import functional

import icgd
from icgd.mechanisms.machine.passes.allocate import TEMPORARY, Homes, allocate
from icgd.mechanisms.machine.passes.fuse import MOST_OPERANDS, fused_sums
from icgd.mechanisms.machine.passes.simplify import without_unused
from icgd.mechanisms.machine.tape.instruction import Kind, Opcode, Operand
from icgd.mechanisms.machine.tape.semantics import ExactHeads, evaluate, run_tape
from icgd.mechanisms.machine.tape.tape import Tape, TapeWriter

HEADS = ExactHeads()


def training_tapes():
    X, Y = data("class")
    model = mlp("leaky_relu", widths=(8, 5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    step = icgd.compile(model, optimizer, loss=functional.cross_entropy, example=(X[:4], Y[:4]))
    return step.tapes.tapes


@pytest.fixture(scope="module")
def tapes():
    return training_tapes()


def inputs_for(tape, seed=0):
    g = torch.Generator().manual_seed(seed)
    values = {}
    for name, register in tape.inputs.items():
        if register.kind is Kind.INDEX:
            values[name] = torch.randint(0, 3, register.shape, generator=g)
        else:
            values[name] = torch.randn(register.shape, generator=g, dtype=f64)
    return values


def test_files_keep_a_tape(tapes):
    for tape in tapes.values():
        again = Tape.from_json(json.loads(json.dumps(tape.to_json())))
        values = inputs_for(tape)
        for name, value in run_tape(tape, values, HEADS).items():
            assert torch.equal(run_tape(again, values, HEADS)[name], value)
        assert [i.signature for i in again] == [i.signature for i in tape]


def test_registers_are_written_before_they_are_read_and_once(tapes):
    for tape in tapes.values():
        known = {r.name for r in (*tape.inputs.values(), *tape.constants)}
        for instruction in tape:
            assert {o.register.name for o in instruction.operands} <= known
            assert instruction.output.name not in known
            assert 1 <= len(instruction.operands) <= MOST_OPERANDS
            known.add(instruction.output.name)


def long_sum():
    """((a + b) + 2 c) + sum(d), and a product that something is added to."""
    writer = TapeWriter()
    a, b, c, d = (Operand.whole(writer.input(f"data.{k}", (3,), Kind.REAL)) for k in range(4))
    ab = Operand.whole(writer.write(Opcode.AFFINE, [a, b], (3,)))
    doubled = Operand(c.register, c.route.scaled(2.0))
    abc = Operand.whole(writer.write(Opcode.AFFINE, [ab, doubled], (3,)))
    product = Operand.whole(writer.write(Opcode.MULTIPLY, [abc, d], (3,), read=0))
    minus = Operand(product.register, product.route.scaled(-1.0))
    result = writer.write(Opcode.AFFINE, [minus, a], (3,))
    writer.write(Opcode.RELU, [abc], (3,))  # nobody reads it
    return writer.finish({"out.0": result})


def test_sums_are_fused_and_unused_instructions_are_dropped():
    tape = long_sum()
    short = without_unused(fused_sums(without_unused(tape)))
    assert [i.opcode for i in short] == [Opcode.AFFINE, Opcode.MULTIPLY]
    assert len(short.instructions[0].operands) == 3
    values = inputs_for(tape)
    before, after = run_tape(tape, values, HEADS), run_tape(short, values, HEADS)
    torch.testing.assert_close(after["out.0"], before["out.0"], rtol=1e-14, atol=1e-14)


def run_placed(tape, placed, homes, where, values):
    """The instructions on blocks, as a chain of thought runs them."""
    blocks = {homes.of(name): value for name, value in values.items()}
    blocks.update({where[r.name]: value for r, value in tape.constants.items()})
    for one in placed:
        seen = [blocks[address] for address in one.reads]
        if one.instruction.opcode is Opcode.NUMBER:
            blocks[one.writes] = one.instruction.operands[0].route(seen[0]).to(f64)
        else:
            blocks[one.writes] = evaluate(one.instruction, seen, HEADS)
    return {name: blocks[homes.of(name)] for name in tape.outputs}


def test_blocks_hold_what_registers_hold(tapes):
    for tape in tapes.values():
        homes = Homes()
        where = {r.name: homes.constant(f"constant.{k}") for k, r in enumerate(tape.constants)}
        placed = allocate(tape, homes, where)
        values = inputs_for(tape)
        wanted = run_tape(tape, values, HEADS)
        found = run_placed(tape, placed, homes, where, values)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
        temporary = {p.writes for p in placed if p.writes[0] == TEMPORARY}
        assert len(temporary) <= len(tape) / 2


def test_results_that_change_places_come_home():
    """Two states that swap, and one that both names share."""
    writer = TapeWriter()
    a = writer.input("param.a", (2,), Kind.REAL)
    b = writer.input("param.b", (2,), Kind.REAL)
    tape = writer.finish({"param.a": b, "param.b": a, "out.0": a})
    homes = Homes()
    placed = allocate(tape, homes, {})
    values = {"param.a": torch.tensor([1.0, 2.0]), "param.b": torch.tensor([3.0, 4.0])}
    found = run_placed(tape, placed, homes, {}, values)
    assert found["param.a"].tolist() == [3.0, 4.0]
    assert found["param.b"].tolist() == [1.0, 2.0]
    assert found["out.0"].tolist() == [1.0, 2.0]


def test_a_listing_names_every_step_and_where_it_comes_from(tapes):
    X, Y = data("class")
    model = mlp("tanh", widths=(8, 5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = icgd.compile(model, optimizer, loss=functional.cross_entropy, example=(X[:4], Y[:4]))
    text = program.listing("step:4")
    tape = program.tapes.tapes["step:4"]
    for instruction in tape:
        assert f" {instruction.output.name} " in text
    for phase in ("forward", "backward", "update"):
        assert phase in text
    with pytest.raises(icgd.InvalidParameter, match="step:4"):
        program.listing("step:9")
