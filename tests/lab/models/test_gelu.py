"""The fast GELU against PyTorch's: values and derivatives."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from icgd.lab.models import gelu as module
from icgd.lab.models.gelu import gelu


def both(x):
    found = []
    for function in (gelu, lambda t: functional.gelu(t, approximate="tanh")):
        t = x.clone().requires_grad_()
        value = function(t)
        value.backward(torch.linspace(-1, 2, x.numel(), dtype=x.dtype).view(x.shape))
        found += [value.detach(), t.grad]
    return found


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 5e-6)])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (300, 301)])
def test_it_is_pytorchs(dtype, tolerance, shape):
    x = 4 * torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    value, slope, their_value, their_slope = both(x)
    assert float((value - their_value).abs().max()) <= tolerance
    assert float((slope - their_slope).abs().max()) <= 3 * tolerance


def test_far_out_it_is_zero_and_the_identity_without_a_nan():
    x = torch.tensor([-1e30, -1e4, -40.0, 0.0, 40.0, 1e4, 1e30], dtype=torch.float64)
    value, slope, *_ = both(x[1:-1])
    assert value.tolist() == [0.0, 0.0, 0.0, 40.0, 1e4]
    assert slope.tolist()[0] == 0.0
    assert slope.tolist()[-1] == 2.0
    assert torch.isfinite(both(x)[0]).all()


def test_pieces_change_nothing_but_rounding(monkeypatch):
    """The end of a piece is computed without vector instructions, which may round otherwise."""
    x = torch.randn(50, 7, generator=torch.Generator().manual_seed(1))
    whole = both(x)
    monkeypatch.setattr(module, "_PIECE", 13)
    for a, b in zip(whole, both(x), strict=True):
        assert float((a - b).abs().max()) <= 1e-6


def test_gradients_by_differences():
    x = torch.linspace(-6, 6, 25, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(gelu, x)


def test_without_gradients_the_value_is_the_same():
    x = torch.randn(40, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        quiet = gelu(x)
    assert torch.equal(quiet, gelu(x.clone().requires_grad_()))


def test_what_does_not_lie_in_order_is_no_trouble():
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64).T
    assert float((gelu(x) - functional.gelu(x, approximate="tanh")).abs().max()) <= 1e-14
