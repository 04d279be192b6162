"""What is remembered about weights, and for how long."""

from __future__ import annotations

import torch
from torch import nn

from icgd.transformer.nn.symbolic import once_fixed, uniform, weights_stay_fixed


class _Thing:
    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.ones(3), requires_grad=False)
        self.asked = 0

    @once_fixed
    def sum(self, scale: float) -> float:
        self.asked += 1
        return scale * float(self.weight.sum())


def test_a_question_is_answered_once_while_weights_stay_fixed() -> None:
    thing, other = _Thing(), _Thing()
    with weights_stay_fixed():
        assert thing.sum(2.0) == thing.sum(2.0) == 6.0
        assert thing.asked == 1
        assert thing.sum(3.0) == 9.0  # another question
        assert other.sum(2.0) == 6.0
        assert other.asked == 1  # another object


def test_nothing_is_remembered_outside_or_afterwards() -> None:
    thing = _Thing()
    with weights_stay_fixed():
        assert thing.sum(1.0) == 3.0
        assert uniform(thing.weight) == 1.0
    thing.weight.data[0] = 5.0
    assert thing.sum(1.0) == 7.0
    assert uniform(thing.weight) is None
    with weights_stay_fixed():
        assert thing.sum(1.0) == 7.0
        assert uniform(thing.weight) is None


def test_a_dead_object_leaves_no_answer_behind() -> None:
    with weights_stay_fixed():
        for total in range(50):
            tensor = nn.Parameter(torch.full((2,), float(total)), requires_grad=False)
            assert uniform(tensor) == float(total)
