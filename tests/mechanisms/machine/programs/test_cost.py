"""What a program says it takes is what is there."""

from __future__ import annotations

import torch
from machine_cases import data, trained

import icgd


def test_a_round_is_counted_as_it_runs():
    _, program = trained("tanh", "cross_entropy")
    X, y = data("cross_entropy")
    run = program.run(X, y, batch_size=4)
    first, step = (program.cost.tapes[name] for name in ("first:4", "step:4"))
    assert run.cost.blocks == first.instructions + step.instructions
    assert run.cost.dense_flops == first.dense_flops + step.dense_flops
    assert step.depth <= step.instructions
    assert step.reads <= step.heads


def test_widths_and_heads_are_those_of_the_literal_layer():
    a = torch.rand(2, 3, dtype=torch.float64)
    program = icgd.compile(lambda x: x * x, example=(a,))
    cost = program.cost
    dense = program.step.dense(1)
    heads = dense.attention.W_Q.shape[0]
    assert cost.heads == heads == 6
    assert cost.grid_tokens == dense.attention.position.shape[0]
    assert cost.block_width == program.layout.width
    assert cost.stored == sum(v.numel() for v in program.state_dict().values())
    assert cost.tapes["call"].reads == 6


def test_it_reads_as_a_table():
    _, program = trained("tanh", "cross_entropy")
    text = str(program.cost)
    assert text.splitlines()[0].split() == ["a", "round", "first:4", "step:4", "predict:4"]
    assert "grid tokens" in text
    assert program.cost.to_dict()["tapes"]["step:4"]["depth"] == program.cost.tapes["step:4"].depth
