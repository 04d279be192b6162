"""The literal matrices of a machine compute what its fast executor computes."""

from __future__ import annotations

import pytest
import torch
from tests.mechanisms.machine.table import data, mlp
from torch.nn import functional

import icgd

SMALL = {"n_rows": 4, "n_in": 2, "n_out": 2}
OPTIONS = {
    "fixed": {"heads": "fixed", "exponents": (-8, 2)},
    "float": {"heads": "float", "exponents": (-8, 4)},
    "coarse": {"heads": "fixed", "exponents": (-8, 2), "radius": 2.5, "margin": 1.0},
}


def program_for(activation, options):
    X, Y = data("class", **SMALL)
    model = mlp(activation, widths=(2, 3, 2), seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = icgd.compile(
        model, optimizer, loss=functional.cross_entropy, example=(X[:2], Y[:2]), **options
    )
    return program, X, Y


@pytest.mark.parametrize(("activation", "options"), [("tanh", "fixed"), ("relu", "float")])
def test_dense_equals_structured(activation, options):
    program, X, Y = program_for(activation, OPTIONS[options])
    fast = program.run(X, Y, epochs=2, batch_size=2)
    literal = program.run(X, Y, epochs=2, batch_size=2, executor="dense")
    for name, value in fast.state_dict.items():
        assert float((literal.state_dict[name] - value).abs().max()) <= 1e-12
    assert float((literal.losses - fast.losses).abs().max()) <= 1e-12


def test_dense_equals_structured_where_heads_are_visibly_wrong():
    program, X, Y = program_for("tanh", OPTIONS["coarse"])
    exact, _, _ = program_for("tanh", OPTIONS["fixed"])
    fast = program.run(X, Y, epochs=2, batch_size=2)
    literal = program.run(X, Y, epochs=2, batch_size=2, executor="dense")
    right = exact.run(X, Y, epochs=2, batch_size=2)
    off = max(float((fast.state_dict[n] - v).abs().max()) for n, v in right.state_dict.items())
    apart = max(float((literal.state_dict[n] - v).abs().max()) for n, v in fast.state_dict.items())
    assert off > 1e-5
    assert apart <= 1e-12


def test_the_layer_is_the_same_at_every_step():
    program, X, Y = program_for("tanh", OPTIONS["fixed"])
    before = {name: value.clone() for name, value in program.state_dict().items()}
    program.run(X, Y, epochs=2, batch_size=2)
    after = program.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    tokens = {step.reads[0] for steps in program.mask.schedules.values() for step in steps}
    assert all(kind == "I" for kind, _ in tokens)
