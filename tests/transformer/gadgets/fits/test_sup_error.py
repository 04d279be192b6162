"""Bounds on an error between the points it was measured at."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import icgd
from icgd.mechanisms.stacks.joint_loss_fit import fit_joint_slope
from icgd.problems.activations import ACTIVATIONS
from icgd.transformer.gadgets.fits.feature_fit import FeatureFit, fit_features, fit_function
from icgd.transformer.gadgets.fits.sample_points import FINE, first_samples, uniform
from icgd.transformer.gadgets.fits.slope_product import fit_slope_product
from icgd.transformer.gadgets.fits.sup_error import largest_between
from icgd.verification.probes.stack_fits import check_stack_fits

F64 = torch.float64


def largest_of(fit: FeatureFit, f: icgd.transformer.gadgets.fits.sup_error.Values) -> float:
    """The largest error on far more points than certificates are made from, near 0 above all."""
    half = fit.box[-1]
    near = min(half, 8.0)
    axis = torch.cat([uniform(half, 100_003), uniform(near, 20_011)])
    points = axis.unsqueeze(1)
    if len(fit.box) == 2:
        axis = torch.cat([uniform(half, 9001), uniform(near, 2011)])
        points = torch.cartesian_prod(torch.linspace(0, fit.box[0], 14, dtype=F64), axis)
    return max(float((fit(at) - f(at)).abs().max()) for at in points.split(2**14))


@pytest.mark.parametrize("attention", ["tanh", "sigmoid"])
@pytest.mark.parametrize("radius", [8.0, 100.0, 1000.0])
@pytest.mark.parametrize("n", [16, 64])
@pytest.mark.parametrize("name", ["softplus", "gelu"])
def test_certificates_of_activations_hold_between_grid_points(
    name: str, n: int, radius: float, attention: str
) -> None:
    act = ACTIVATIONS[name]
    fit = fit_function(act, radius, n, attention)
    met = largest_of(fit, lambda t: act.apply(t[:, 0]))
    assert met <= fit.certificate.sup_error <= 1.03 * met


@pytest.mark.parametrize(
    ("name", "attention"),
    [("softplus", "tanh"), ("gelu", "sigmoid"), ("tanh", "relu"), ("softplus", "relu")],
)
@pytest.mark.parametrize("box", [(1.6, 4.0), (8.0, 100.0)])
def test_certificates_of_products_hold_between_grid_points(
    name: str, attention: str, box: tuple[float, float]
) -> None:
    act = ACTIVATIONS[name]
    fit = fit_slope_product(act, *box, 64, attention)
    met = largest_of(fit, lambda p: p[:, 0] * act.derivative(p[:, 1]))
    assert met <= fit.certificate.sup_error <= 1.06 * met


@pytest.mark.parametrize("radius", [100.0, 1000.0])
def test_a_bend_narrower_than_the_grid_is_not_missed(radius: float) -> None:
    """tanh' by quotients of tanh is wrong near 0 alone, where a grid of 623 points has five points or none."""
    act = ACTIVATIONS["tanh"]
    fit = fit_slope_product(act, 8.0, radius, 64, "tanh")
    met = largest_of(fit, lambda p: p[:, 0] * act.derivative(p[:, 1]))
    assert met <= fit.certificate.sup_error <= 1.1 * met


def test_the_stored_parts_of_a_wide_program_keep_their_certificates() -> None:
    """Beside the bends of its units, which no grid knows, softplus is further off than on the grid."""
    program = icgd.compile(
        icgd.Network((1, 1, 1), "softplus"),
        icgd.GD(0.1),
        method="forward_mode",
        radius=100.0,
        n_relu=64,
    )
    assert all(fit.passed for fit in check_stack_fits(program))


def test_corners_are_allowed_for() -> None:
    fit = fit_features(lambda t: t[..., 0].clamp(-1, 1), (3.0,), 40, "tanh")
    met = largest_of(fit, lambda t: t[:, 0].clamp(-1, 1))
    assert met <= fit.certificate.sup_error <= 1.03 * met


def test_certificates_of_joint_losses_hold_between_grid_points() -> None:
    loss = icgd.joint_loss(lambda o, y: torch.log(torch.cosh(o - y)) * (1 + y * y / 8))
    a, c, certificate = fit_joint_slope(loss, 4.0, 4.0, 64)
    draw = torch.Generator().manual_seed(0)
    points = 8 * torch.rand(300_000, 2, dtype=F64, generator=draw) - 4
    made = torch.cat([torch.relu(p @ a[:, :2].T + a[:, 2]) @ c for p in points.split(2**14)])
    met = float((made - loss.slope_of(*points.T.contiguous())).abs().max())
    assert met <= certificate.sup_error <= 1.06 * met


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.25, 0.5, 0.8])
@pytest.mark.parametrize("n", [3, 4, 12])
def test_a_corner_anywhere_in_a_cell_is_covered(shift: float, n: int) -> None:
    """Also in the first and in the last cell."""
    axis = torch.linspace(0, 1, n, dtype=F64)
    for cell in range(n - 1):
        at = float(axis[cell]) + shift * float(axis[1])

        def peak(p: Tensor, at: float = at) -> Tensor:
            return 1 - (p[:, 0] - at).abs()

        assert 1 <= largest_between(peak, [axis]) <= 1.02


def test_a_surface_is_cut_in_both_directions() -> None:
    axes = [uniform(1.0, 9), uniform(1.0, 8)]
    found = largest_between(lambda p: torch.cos(p[:, 0] - 0.1) * torch.cos(p[:, 1] + 0.03), axes)
    assert 1 <= found <= 1.02


def test_the_first_samples_end_with_the_box_and_never_nearly_meet() -> None:
    a = torch.tensor([[3.0, 0.5, 0.7], [0.0, 2.0, -1.0], [0.0, 0.0, 1.0]], dtype=F64)
    for half in (0.3, 8.0, 100.0, 12_345.6):
        first, last = first_samples(a, (1.5, half), smooth=True, odd=True)
        assert (float(first[0]), float(first[-1])) == (0.0, 1.5)
        assert (float(last[0]), float(last[-1])) == (-half, half)
        assert float(last.diff().min()) > min(2 * half / FINE[2][1], 0.1) / 10
