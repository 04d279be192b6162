"""Optimizers as descriptions: SGD means torch.optim.SGD on 1/2 |o - y|^2."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icgd.errors import InvalidParameter
from icgd.problems import SGD


@given(st.floats(1e-6, 10))
def test_the_papers_step_size_gives_the_same_update(lr):
    """torch.optim.SGD with `paper_lr` on |o - y|^2 moves as far as with `lr` on 1/2 |o - y|^2."""
    moved = []
    for step, scale in ((lr, 0.5), (SGD(lr).paper_lr, 1.0)):
        w = torch.tensor([0.3, -0.7], dtype=torch.float64, requires_grad=True)
        (scale * (w @ torch.tensor([1.0, 2.0], dtype=torch.float64) - 1.0) ** 2).backward()
        torch.optim.SGD([w], lr=step).step()
        moved.append(w.detach())
    assert torch.equal(*moved)


@pytest.mark.parametrize("lr", [0, 0.0, -0.1, math.nan, math.inf, "0.1", None, True])
def test_a_step_size_must_be_a_positive_number(lr):
    with pytest.raises(InvalidParameter, match="`lr` must be a finite number > 0"):
        SGD(lr)


def test_an_optimizer_is_a_value():
    assert SGD(0.1) == SGD(lr=0.1)
    assert hash(SGD(0.1)) == hash(SGD(0.1))
    with pytest.raises(AttributeError):
        SGD(0.1).lr = 0.2
