"""The certificate of a function head looks at the tokens near a query alone, and says the same."""

import math

import pytest
import torch

import icgd
from icgd.transformer.gadgets.heads.spectral_head import FunctionHead, _Window

HEADS = [
    ("sigmoid", 4.0, 64, 1.4, 8.25, torch.float64),
    ("tanh", 8.0, 128, 1.4, 8.25, torch.float64),
    ("tanh", 3.0, 40, 0.6, 5.0, torch.float64),
    ("exp", 2.0, 64, 1.4, 6.0, torch.float32),
    ("gelu", 3.0, 201, 0.6, 3.0, torch.float64),
]


def made(function, radius, n_grid, rho, margin, dtype):
    return FunctionHead(function, radius, n_grid=n_grid, rho=rho, margin=margin, dtype=dtype)


@pytest.mark.parametrize("case", HEADS)
def test_a_window_holds_all_but_the_stated_share_of_the_weight(case):
    head = made(*case)
    window = _Window.of(head, head.values.double())
    s = torch.linspace(-head.geometry.radius, head.geometry.radius, 1237, dtype=torch.float64)
    levels, values, weights = window.at(s)
    everything = torch.softmax(-head.geometry.beta * (s[:, None] - window.levels) ** 2, dim=-1)
    kept = (everything.unsqueeze(1) * (levels.unsqueeze(2) == window.levels)).sum((1, 2))
    assert float((1 - kept).max()) <= window.share_outside + 1e-14
    assert window.share_outside < 1e-26
    full = everything @ window.values
    size = everything @ window.values.abs()
    assert bool((((weights * values).sum(-1) - full).abs() <= 1e-14 * size + 1e-300).all())


@pytest.mark.parametrize("case", HEADS)
def test_the_certificate_bounds_what_is_measured(case):
    head = made(*case)
    s = torch.linspace(-head.geometry.radius, head.geometry.radius, 4001, dtype=torch.float64)
    exact = head.function.apply(s)
    miss = float((head(s.to(head.levels.dtype)).double() - exact).abs().max())
    rounded_input = 2 * head.geometry.radius * torch.finfo(head.levels.dtype).eps
    assert miss <= head.certificate().sup_error + rounded_input * head.certificate().lipschitz


def test_work_does_not_grow_with_the_grid():
    sizes = {
        n: _Window.of(
            icgd.SpectralHead(16.0, n_grid=n, rho=0.6, margin=5.0), torch.zeros(n)
        ).n_tokens
        for n in (128, 512, 2048)
    }
    assert len(set(sizes.values())) == 1
    assert sizes[512] < 32


@pytest.mark.parametrize("rho", [0.01, 0.05])
def test_a_kernel_too_narrow_to_certify_says_so_by_its_certificate(rho):
    head = FunctionHead("tanh", 3.0, n_grid=64, rho=rho, margin=1.0)
    assert head.certificate().sup_error == math.inf
