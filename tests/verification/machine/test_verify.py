"""What `icgd.verify` of a program of the machine is given: sources, keywords, files."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.mechanisms.machine.table import data, mlp
from torch.nn import functional

import icgd
from icgd.errors import InvalidParameter


@pytest.fixture(scope="module")
def parts():
    X, Y = data("real", n_rows=6, n_in=2)
    model = mlp("relu", widths=(2, 3, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = icgd.compile(model, optimizer, loss=functional.mse_loss, example=(X[:3], Y[:3]))
    return program, model, optimizer, X, Y


def test_a_program_out_of_a_file_is_held_against_what_the_caller_gives(parts, tmp_path):
    program, model, optimizer, X, Y = parts
    program.save_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path)
    with pytest.raises(InvalidParameter, match="model=, optimizer= and loss="):
        icgd.verify(loaded, X, Y)
    check = icgd.verify(loaded, X, Y, model=model, optimizer=optimizer, loss=functional.mse_loss)
    assert check.passed, check.notes
    other = icgd.verify(loaded, X, Y, model=model, optimizer=optimizer, loss=functional.l1_loss)
    assert other.verdict == "failed"


@pytest.mark.parametrize(
    ("given", "name"),
    [({"steps": 3}, "steps"), ({"function": abs}, "function"), ({"nonsense": 1}, "nonsense")],
)
def test_what_does_not_belong_is_refused(parts, given, name):
    program, _, _, X, Y = parts
    with pytest.raises((InvalidParameter, TypeError), match=name):
        icgd.verify(program, X, Y, **given)


def test_other_constructions_take_two_arrays():
    program = icgd.compile(icgd.Ridge(2, lam=0.1), icgd.GD(lr=0.5))
    X = torch.ones(3, 2, dtype=torch.float64)
    with pytest.raises(InvalidParameter, match="X and Y"):
        icgd.verify(program, X, steps=2)
    with pytest.raises(InvalidParameter, match="X and Y"):
        icgd.verify(program, X, X[:, 0], X, steps=2)


def test_altered_programs_are_not_compiled_anew_for_other_batches(parts):
    program, _, _, X, Y = parts
    altered = copy.deepcopy(program)
    next(iter(altered.parameters())).data.mul_(2.0)
    with pytest.raises(InvalidParameter, match="was altered"):
        altered.run(X, Y, batch_size=2)
