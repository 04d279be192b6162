"""Heads that apply the slope of a loss: measured <= promised, for every kind of table."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

import icgd
from icgd.problems.losses import LOSSES, Loss
from icgd.transformer.gadgets.heads.link_head import (
    GridOptions,
    HeadTable,
    exp_table,
    joint_table,
    sigmoid_table,
    slope_table,
)


def options(
    n_grid: int = 128,
    radius: float = 8.0,
    *,
    hard: bool = False,
    dtype: torch.dtype = torch.float64,
) -> GridOptions:
    return GridOptions(n_grid, 1.4, 8.25, radius, "hard" if hard else "spectral", dtype)


def read(table: HeadTable, s: Tensor, y: Tensor | None = None) -> Tensor:
    """The literal softmax over the tokens."""
    score = s.unsqueeze(-1) * table.rates[0].to(s) + table.offset.to(s)
    if y is not None:
        score = score + y.unsqueeze(-1) * table.rates[1].to(s)
    return torch.softmax(score, dim=-1) @ table.values.to(s)


def sweep(radius: float, n: int = 4001) -> Tensor:
    return torch.linspace(-radius, radius, n, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_native_sigmoid_has_no_range(dtype: torch.dtype) -> None:
    table = sigmoid_table(dtype)
    s = torch.cat([sweep(5.0), sweep(800.0)]).to(dtype)
    error = (read(table, s).double() - torch.sigmoid(s.double())).abs().max()
    assert float(error) <= table.certificate.sup_error <= 8 * torch.finfo(dtype).eps
    assert math.isinf(table.radius)


@pytest.mark.parametrize("radius", [1.0, 8.0, 40.0, 200.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_native_exponential_is_relatively_exact(radius: float, dtype: torch.dtype) -> None:
    if dtype == torch.float32 and radius > 30:
        with pytest.raises(icgd.AssumptionViolated, match="exponential head"):
            exp_table(radius, dtype)
        return
    table = exp_table(radius, dtype)
    s = sweep(radius).to(dtype)
    exact = torch.exp(s.double())
    relative = ((read(table, s).double() - exact) / exact).abs().max()
    assert (
        float(relative)
        <= table.certificate.sup_error
        <= 1e3 * torch.finfo(dtype).eps * (1 + radius / 8)
    )


@pytest.mark.parametrize("name", ["logistic", "poisson", "squared"])
@pytest.mark.parametrize("hard", [False, True], ids=["spectral", "hard"])
def test_a_grid_keeps_its_promise(name: str, hard: bool) -> None:
    loss = LOSSES[name]
    table = slope_table(loss, options(radius=4.0, hard=hard), native=False)
    s = sweep(4.0)
    error = float((read(table, s) - loss.slope(s)).abs().max())
    assert error <= table.certificate.sup_error
    assert table.certificate.sup_error <= (0.2 * math.exp(4.0) if hard else 1e-9)


@pytest.mark.parametrize("name", ["huber", "squared_hinge"])
def test_a_corner_costs_a_spacing_and_the_certificate_says_so(name: str) -> None:
    loss, found = LOSSES[name], []
    for n_grid in (64, 128, 256):
        table = slope_table(loss, GridOptions(n_grid, 0.6, 5.0, 8.0, "spectral", torch.float64))
        s = sweep(8.0, 20_001)
        error = float((read(table, s) - loss.slope(s)).abs().max())
        # Tight as well: a bound far above the error would be no certificate.
        assert error <= table.certificate.sup_error <= 2.2 * error
        assert table.certificate.rigorous
        found.append(error)
    assert found[0] / found[2] == pytest.approx(4.0, rel=0.5)


def test_a_smooth_function_of_two_numbers_is_one_head() -> None:
    loss: Loss = icgd.joint_loss(
        lambda s, y: softplus(s * torch.tanh(y)) + 0.1 * s * s * torch.cos(y)
    )
    table = joint_table(
        loss.slope, GridOptions(64, 1.2, 6.5, 3.0, "spectral", torch.float64), y_radius=2.0
    )
    generator = torch.Generator().manual_seed(0)
    s = 6 * torch.rand(3000, generator=generator, dtype=torch.float64) - 3
    y = 4 * torch.rand(3000, generator=generator, dtype=torch.float64) - 2
    error = float((read(table, s, y) - loss.slope_of(s, y)).abs().max())
    assert error <= table.certificate.sup_error <= 1e-10
    assert not table.certificate.rigorous
    assert table.n_tokens == 64 * 64
