"""docs/errata_deep.md, Appendix G: what a negative shift of the weights does to ReLU networks, by width."""

from __future__ import annotations

import statistics

import pytest
import torch

from icgd.lab.tasks import Gaussian, NetworkRegression

F64 = torch.float64


def share_alive(d, width, *, n_layers=4, n=200, seed=0):
    """The part of networks N(-0.5, I) that are not constant on 100 inputs N(-2, I)."""
    task = NetworkRegression(
        d,
        n_layers=n_layers,
        hidden_layer_size=width,
        weights=Gaussian(mean=-0.5),
        scaling="none",
        dtype=F64,
    )
    ys = task.sample(n, 100, generator=torch.Generator().manual_seed(seed)).ys[..., 0]
    return float((ys.std(1) > 0).double().mean())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("d", "width"), [(20, 8), (20, 20), (5, 50)])
def test_narrow_networks_survive_a_negative_shift(d, width, seed):
    """The paper gives no width: with these, most networks are no constants and the test can be made."""
    assert share_alive(d, width, seed=seed) > 0.5


@pytest.mark.parametrize("seed", range(3))
def test_wide_networks_do_not(seed):
    """At d = 20: few at width 50, next to none at 100, none at 200; two layers always survive."""
    found = [share_alive(20, width, seed=seed) for width in (8, 50, 100, 200)]
    assert found == sorted(found, reverse=True)
    assert 0.05 < found[1] < 0.25
    assert found[2] <= 0.02
    assert found[3] == 0.0
    assert share_alive(20, 200, n_layers=2, seed=seed) == 1.0
    assert share_alive(20, 200, n_layers=3, seed=seed) == 0.0


def test_the_second_layer_is_shut_in_every_draw():
    """Figures of G1: medians over 30 draws, not one of them."""
    open_, mean, largest = [], [], []
    for seed in range(30):
        g = torch.Generator().manual_seed(seed)
        first, second = (torch.randn(200, k, generator=g, dtype=F64) - 0.5 for k in (20, 200))
        x = torch.randn(1000, 20, generator=g, dtype=F64) - 2
        z = x @ first.T
        after = torch.relu(z) @ second.T
        open_.append(float((z > 0).double().mean()))
        mean.append(float(after.mean()))
        largest.append(float(after.max()))
    assert statistics.median(open_) == pytest.approx(0.978, abs=0.003)
    assert statistics.median(mean) == pytest.approx(-2010, abs=40)
    assert max(largest) < 0
