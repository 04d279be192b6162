"""The range watch of function heads names instruction, line of code, number and remedy, on both executors."""

from __future__ import annotations

import pickle

import pytest
import torch

import icgd
from icgd.errors import OutOfRange

f64 = torch.float64


def logarithm(x):
    """Of a shifted number."""
    return torch.log(x + 0.25)


@pytest.fixture(scope="module")
def program():
    return icgd.compile(logarithm, example=(torch.ones(3, dtype=f64),), exponents=(-8, 4))


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize(
    ("number", "met"), [(-0.25, "met 0 "), (-3.0, "met -2.75"), (100.0, "met 100.25")]
)
def test_a_number_outside_a_heads_domain_is_named(program, executor, number, met):
    x = torch.tensor([1.0, number, 2.0], dtype=f64)
    with pytest.raises(OutOfRange) as caught:
        program(x, executor=executor)
    message = str(caught.value)
    assert met in message
    for part in (
        "head of log",
        "entry 2",
        "log ->",
        "test_attention.py",
        "wider span of exponents",
    ):
        assert part in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


@pytest.mark.parametrize("executor", ["structured", "dense"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_passed_over(program, executor, number):
    with pytest.raises(OutOfRange):
        program(torch.tensor([1.0, number, 2.0], dtype=f64), executor=executor)


@pytest.mark.parametrize("executor", ["structured", "dense"])
def test_numbers_inside_are_let_through(program, executor):
    x = torch.tensor([1.0, -0.2, 3.0], dtype=f64)
    torch.testing.assert_close(program(x, executor=executor), torch.log(x + 0.25))


def test_without_a_watch_heads_may_be_asked_anything(program):
    from icgd.mechanisms.machine.programs.codec import Round

    x = torch.tensor([1.0, -3.0, 2.0], dtype=f64)
    ended = program.execute({}, [Round("call", {"data.0": x})], watch=False)
    assert ended.values["out.0"].isnan().tolist() == [False, True, False]
