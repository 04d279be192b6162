"""Functions against themselves in PyTorch, step by step."""

from __future__ import annotations

import pytest
import torch

import icgd
from icgd.errors import InvalidParameter

f64 = torch.float64


def newton(x, a):
    """Iterates towards 1 / a."""
    return x * (2 - a * x)


def program_and_arguments():
    arguments = torch.tensor([0.1, 0.2], dtype=f64), torch.tensor([3.0, 2.0], dtype=f64)
    return icgd.compile(newton, example=arguments), arguments


def test_every_step_is_within_its_bound():
    program, arguments = program_and_arguments()
    check = icgd.verify(program, *arguments, steps=8)
    assert check.passed, check.notes
    assert len(check.rounds) == 8
    assert check.max_error <= max(1e-12, 100 * check.twin)
    assert all(one.round_error <= one.round_bound <= 1e-9 for one in check.rounds)
    torch.testing.assert_close(check.run, 1 / arguments[1])


def test_another_function_fails():
    program, arguments = program_and_arguments()
    check = icgd.verify(program, *arguments, function=lambda x, a: x * (2.001 - a * x))
    assert check.verdict == "failed"


def test_functions_take_steps_and_training_steps_take_epochs():
    program, arguments = program_and_arguments()
    with pytest.raises(InvalidParameter, match="`epochs` must be left out"):
        icgd.verify(program, *arguments, epochs=2)
    with pytest.raises(InvalidParameter, match="`steps` must"):
        icgd.verify(program, *arguments, steps=0)


def test_a_program_without_its_function_asks_for_it(tmp_path):
    program, arguments = program_and_arguments()
    program.save_pretrained(tmp_path)
    loaded = icgd.Program.from_pretrained(tmp_path)
    with pytest.raises(InvalidParameter, match="`function` must be given"):
        icgd.verify(loaded, *arguments)
    assert icgd.verify(loaded, *arguments, function=newton).passed
