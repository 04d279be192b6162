"""Convolution and pooling against PyTorch: strides, padding, dilation, groups; ties of maxima."""

from __future__ import annotations

import pytest
import torch
from captured_runs import double, function_gap, slope
from torch import nn

F = nn.functional
torch.manual_seed(0)
PICTURE = torch.randn(2, 4, 7, 8, **double)
TAPS = torch.randn(6, 2, 3, 2, **double)
BIAS = torch.randn(6, **double)


@pytest.mark.parametrize(
    "options",
    [
        {"groups": 2},
        {"groups": 2, "stride": (2, 1), "padding": 1},
        {"groups": 2, "dilation": (2, 3), "padding": (0, 2), "stride": 2},
    ],
)
def test_convolutions(options):
    def both(x, w, b):
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (x, w, b)]
            y = F.conv2d(*leaves, **options)
            return y, torch.autograd.grad(y.square().sum(), leaves)

    assert function_gap(both, PICTURE, TAPS, BIAS) <= 4e-14


def test_convolutions_of_rows():
    def both(x, w):
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (x, w)]
            y = F.conv1d(*leaves, stride=2, padding=1, dilation=2, groups=2)
            return y, torch.autograd.grad(y.square().sum(), leaves)

    assert function_gap(both, PICTURE[:, :, 0], TAPS[:, :, 0]) <= 4e-14


POOLS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, stride=2, padding=1, dilation=(1, 2)),
    "mean": lambda x: F.avg_pool2d(x, (2, 3), stride=(2, 1), padding=(1, 0)),
    "mean of all": lambda x: F.adaptive_avg_pool2d(x, 1),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name):
    function = POOLS[name]
    ties = PICTURE.round()  # of several largest the first keeps the gradient
    both = lambda x: (function(x), slope(lambda z: function(z) * function(z))(x))  # noqa: E731
    assert function_gap(both, PICTURE) <= 4e-14
    assert function_gap(both, ties) <= 4e-14
