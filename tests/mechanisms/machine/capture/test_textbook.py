"""The textbook step does what the tutorial's loop does."""

from __future__ import annotations

import copy

import torch
from torch import nn

from icgd.mechanisms.machine.capture.textbook import training_step


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(3, 2, 4)

    def forward(self, a, b):
        return self.layer(a, b)


def test_several_inputs_one_target_and_a_loss_that_is_a_module():
    torch.manual_seed(0)
    model = TwoInputs()
    by_hand = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, by_hand)]
    a, b, y = torch.randn(5, 3), torch.randn(5, 2), torch.randn(5, 4)
    step = training_step(model, optimizers[0], nn.MSELoss())
    for _ in range(2):
        value = step(a, b, y)
        optimizers[1].zero_grad()
        expected = nn.functional.mse_loss(by_hand(a, b), y)
        expected.backward()
        optimizers[1].step()
        assert torch.equal(value, expected)
        assert not value.requires_grad
    assert all(map(torch.equal, model.parameters(), by_hand.parameters()))
