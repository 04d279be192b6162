"""Losses against PyTorch: values and gradients, every reduction, confident and hopeless predictions."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from captured_runs import double, function_gap
from torch import nn

from icgd.mechanisms.machine.capture.function import capture_function
from icgd.mechanisms.machine.decompose.ops import remaining_ops

F = nn.functional
torch.manual_seed(0)
LOGITS = torch.cat(
    [
        torch.randn(4, 3, **double),
        torch.tensor([[300.0, 0.0, -300.0], [40.0, -40.0, 0.0]], **double),
    ]
)
LABELS = torch.tensor([0, 1, 2, 0, 0, 2])
WEIGHT = torch.tensor([1.0, 2.0, 0.5], **double)
TARGET = torch.randn(6, 3, **double)
SHARES = torch.softmax(TARGET, 1)
REDUCTIONS = ("mean", "sum", "none")


def with_gradient(loss):
    def both(z):
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            value = loss(leaf)
            return value, torch.autograd.grad(value.sum(), leaf)[0]

    return both


def gap(loss, z=LOGITS):
    return function_gap(with_gradient(loss), z)


CASES = {
    "mse": lambda z, r: F.mse_loss(z, TARGET, reduction=r),
    "l1": lambda z, r: F.l1_loss(z, TARGET, reduction=r),
    "huber": lambda z, r: F.huber_loss(z, TARGET, reduction=r, delta=0.4),
    "smooth l1": lambda z, r: F.smooth_l1_loss(z, TARGET, reduction=r, beta=0.4),
    "bce": lambda z, r: F.binary_cross_entropy_with_logits(z, SHARES, reduction=r),
    "bce, weighted": lambda z, r: F.binary_cross_entropy_with_logits(
        z, SHARES, reduction=r, weight=WEIGHT, pos_weight=1 / WEIGHT
    ),
    "cross-entropy": lambda z, r: F.cross_entropy(z, LABELS, reduction=r),
    "weighted": lambda z, r: F.cross_entropy(z, LABELS, WEIGHT, reduction=r),
    "one class ignored": lambda z, r: F.cross_entropy(
        z, LABELS, WEIGHT, ignore_index=1, reduction=r
    ),
    "smoothed": lambda z, r: F.cross_entropy(z, LABELS, label_smoothing=0.2, reduction=r),
    "shares": lambda z, r: F.cross_entropy(z, SHARES, WEIGHT, label_smoothing=0.2, reduction=r),
    "kl": lambda z, r: F.kl_div(F.log_softmax(z, 1), SHARES, reduction=r),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss")
@pytest.mark.parametrize("name", CASES)
def test_every_reduction(name):
    def all_reductions(z):
        return [with_gradient(partial(CASES[name], r=r))(z) for r in REDUCTIONS]

    assert function_gap(all_reductions, LOGITS) <= 1e-15


def test_poisson_with_and_without_its_constant():
    counts = torch.tensor([0.0, 1.0, 5.0], **double)
    z = LOGITS[:4]
    assert gap(lambda z: F.poisson_nll_loss(z, counts, full=True), z) <= 1e-15
    assert gap(lambda z: F.poisson_nll_loss(z.exp(), counts, log_input=False), z) <= 1e-15


def test_labels_of_places_and_of_one_example():
    picture = torch.randn(2, 3, 4, 5, **double)
    labels = torch.randint(0, 3, (2, 4, 5))
    assert gap(lambda z: F.cross_entropy(z, labels), picture) <= 1e-15
    assert gap(lambda z: F.cross_entropy(z, labels[:, 0], WEIGHT), picture[:, :, 0]) <= 1e-15
    assert gap(lambda z: F.cross_entropy(z, torch.tensor(1)), LOGITS[0]) <= 1e-15


def test_cross_entropy_looks_its_softmax_up_once():
    """exp(log softmax) of the backward pass is the softmax of the forward pass."""
    captured = capture_function(with_gradient(lambda z: F.cross_entropy(z, LABELS)), (LOGITS,))
    ops = remaining_ops(captured)
    assert (ops["aten._softmax.default"], ops["aten.log.default"], ops["aten.exp.default"]) == (
        1,
        1,
        0,
    )
