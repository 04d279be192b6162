"""Networks as targets, fixed representations, autoregressive series and chains of states."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import leaky_relu

from icgd.errors import AssumptionViolated, InvalidParameter
from icgd.lab.tasks import (
    Autoregression,
    Gaussian,
    MLPChain,
    NetworkRegression,
    RepresentationRegression,
    StudentT,
    two_gaussians,
)
from icgd.lab.tasks.representation import make_representation


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# -- networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_layers", [3, 4, 6])
@pytest.mark.parametrize("mean", [0.0, 0.5])
def test_standardised_targets(n_layers, mean):
    """Every prompt has variance near 1 and mean near 0, whatever the depth and the shift."""
    task = NetworkRegression(
        5, n_layers=n_layers, hidden_layer_size=40, weights=Gaussian(mean=mean)
    )
    ys = task.sample(40, 200, generator=seeded()).ys[..., 0].double()
    assert (ys.mean(1).abs() < 1).all()
    # Estimates from 64 inputs: the prompt's variance over 200 points is near 1 on average.
    assert 0.6 < ys.var(1).mean() < 1.7
    assert abs(ys.mean()) < 0.2


@pytest.mark.parametrize("n_layers", [1, 2, 4])
def test_fixed_scaling_keeps_the_mean_square(n_layers):
    """E y^2 = E |x|^2: 5 per coordinate at N(-2, I), and layers keep it."""
    task = NetworkRegression(6, n_layers=n_layers, hidden_layer_size=60, scaling="fixed")
    ys = task.sample(4000, 1, generator=seeded(1)).ys.double()
    assert abs(ys.square().mean() / 5 - 1) < 0.2


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_unscaled_targets_by_hand(bias, slope):
    task = NetworkRegression(
        3,
        n_layers=3,
        hidden_layer_size=5,
        scaling="none",
        bias=bias,
        slope=slope,
        dtype=torch.float64,
        inputs=Gaussian(),
        weights=Gaussian(mean=0.5),
    )
    batch = task.sample(2, 4, generator=seeded(3))
    generator = seeded(3)
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)  # noqa: E731
    hidden = draw(2, 4, 3)
    assert torch.equal(hidden, batch.xs)
    for n_in, n_out in ((3, 5), (5, 5), (5, 1)):
        W = draw(2, n_out, n_in) + 0.5
        hidden = torch.einsum("boi,bni->bno", W, hidden)
        if bias:
            hidden = hidden + draw(2, 1, n_out) + 0.5
        if n_out > 1:
            hidden = torch.where(hidden > 0, hidden, slope * hidden)
    assert torch.allclose(hidden, batch.ys, rtol=1e-12)


def test_standardised_targets_by_hand():
    """Mean and deviation over 64 inputs that are not the prompt's, for each prompt and output."""
    task = NetworkRegression(
        3, d_y=2, n_layers=2, hidden_layer_size=4, dtype=torch.float64, inputs=Gaussian()
    )
    batch = task.sample(2, 5, generator=seeded(3))
    generator = seeded(3)
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)  # noqa: E731
    xs = torch.cat([draw(2, 5, 3), draw(2, 64, 3)], 1)
    W, V = draw(2, 4, 3), draw(2, 2, 4)
    out = torch.einsum("boh,bnh->bno", V, torch.einsum("bhi,bni->bnh", W, xs).relu()).numpy()
    expected = (out[:, :5] - out[:, 5:].mean(1, keepdims=True)) / out[:, 5:].std(
        1, ddof=1, keepdims=True
    )
    assert np.allclose(expected, batch.ys.numpy(), rtol=1e-11)


def test_a_negative_shift_kills_relu_networks():
    """N(-0.5, I) on inputs N(-2, I): the first layer's positive outputs shut the second layer."""
    shifted = Gaussian(mean=-0.5)
    with pytest.raises(AssumptionViolated, match="slope > 0"):
        NetworkRegression(20, n_layers=4, weights=shifted).sample(4, 5, generator=seeded())
    dead = NetworkRegression(20, n_layers=4, weights=shifted, scaling="fixed")
    assert (dead.sample(4, 5, generator=seeded()).ys == 0).all()
    leaky = NetworkRegression(20, n_layers=4, weights=shifted, slope=0.1)
    assert 0.2 < leaky.sample(40, 20, generator=seeded()).ys.var() < 5


@pytest.mark.parametrize("bias", [False, True])
def test_dead_networks_are_drawn_again(bias):
    """Narrow networks die often; none is in the prompts, however few there are."""
    options = {"n_layers": 4, "hidden_layer_size": 2, "inputs": Gaussian(), "bias": bias}
    plain = NetworkRegression(2, scaling="fixed", **options).sample(300, 40, generator=seeded())
    assert (plain.ys.std(1) < 1e-6).any()
    ys = NetworkRegression(2, **options).sample(300, 400, generator=seeded()).ys
    assert (ys.std(1) > 1e-3).all()
    for seed in range(20):
        NetworkRegression(2, **options).sample(1, 2, generator=seeded(seed))


def test_mixture_inputs():
    task = NetworkRegression(4, hidden_layer_size=8, inputs=two_gaussians(0.5, 0.5))
    xs = task.sample(200, 10, generator=seeded()).xs
    assert abs((xs.mean(-1) > 0).double().mean() - 0.5) < 5 * 0.5 / math.sqrt(2000)
    default = NetworkRegression(4, hidden_layer_size=8).sample(200, 10, generator=seeded()).xs
    assert abs(default.double().mean() + 2) < 5 / math.sqrt(8000)


def test_bad_networks():
    with pytest.raises(InvalidParameter, match="`scaling` must be"):
        NetworkRegression(3, scaling="some")
    with pytest.raises(InvalidParameter, match="`slope` must lie"):
        NetworkRegression(3, slope=-1.0)


# -- representations ----------------------------------------------------------------------------------


def by_hand(layers, slope, x):
    for W, _ in layers:
        x = x @ np.asarray(W, dtype=float).T
        x = np.where(x > 0, x, slope * x)
    return x


@pytest.mark.parametrize("init", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(("d", "n_features"), [(4, None), (3, 6), (5, 2), (1, None)])
def test_regression_is_linear_in_the_representation(init, d, n_features):
    task = RepresentationRegression(
        d, n_features=n_features, representation_init=init, slope=0.3, dtype=torch.float64
    )
    batch = task.sample(6, 30, generator=seeded())
    phi = by_hand(task.layers, 0.3, batch.xs.numpy()) / task.phi_scale
    assert np.allclose(phi, task.features(batch).numpy())
    for features, y in zip(phi, batch.ys.numpy(), strict=True):
        solution = np.linalg.lstsq(features, y, rcond=None)[0]
        assert np.abs(features @ solution - y).max() < 1e-9


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("inputs", [Gaussian(), Gaussian(1.0, 2.0)])
def test_targets_have_variance_one(seed, inputs):
    task = RepresentationRegression(20, representation_seed=seed, inputs=inputs)
    ys = task.sample(4000, 1, generator=seeded()).ys.double()
    assert abs(ys.square().mean() - 1) < 0.25


def test_the_representation_is_the_task_s():
    """Fixed for all prompts and batches, another one for another seed."""
    first, second = (RepresentationRegression(4, representation_seed=s) for s in (0, 1))
    assert torch.equal(first.layers[0][0], RepresentationRegression(4).layers[0][0])
    assert not torch.equal(first.layers[0][0], second.layers[0][0])


@pytest.mark.parametrize(("n_in", "n_out"), [(4, 4), (6, 3), (3, 6)])
def test_orthogonal_layers(n_in, n_out):
    ((W, _),) = make_representation((n_in, n_out), 1.0, 0, "orthogonal")
    gram = W @ W.T if n_out <= n_in else W.T @ W
    assert torch.allclose(gram, gram[0, 0] * torch.eye(len(gram)).double(), atol=1e-12)
    # Mean squares are kept: |W x|^2 / n_out = |x|^2 / n_in for x uniform on a sphere.
    assert torch.allclose(W.square().sum() / n_out, torch.tensor(1.0).double())


@pytest.mark.parametrize("std", [0.1, 1.0])
def test_noise_of_a_representation(std):
    clean = RepresentationRegression(5, dtype=torch.float64).sample(50, 40, generator=seeded())
    noisy = RepresentationRegression(5, dtype=torch.float64, noise=Gaussian(std=std))
    difference = noisy.sample(50, 40, generator=seeded()).ys - clean.ys
    assert abs(difference.square().mean() / std**2 - 1) < 5 * math.sqrt(2 / 2000)


# -- series -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 20])
@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_series_stay_bounded(d, order, seed):
    batch = Autoregression(d, order=order).sample(64, 200, generator=seeded(seed))
    size = batch.ys.square().mean(-1).sqrt()
    assert (size <= 10.0 * (1 + 1e-6)).all()
    assert batch.ys[:, -1].var() > 0.5


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_series_shifts_by_one_and_counts_from_its_order(order):
    batch = Autoregression(4, order=order).sample(5, 12, generator=seeded())
    assert torch.equal(batch.xs[:, 1:], batch.ys[:, :-1])
    assert batch.counted.tolist() == [i + 1 >= order for i in range(12)]


@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("n_dims", [None, 2])
def test_an_exact_series_is_linear_in_its_features(order, n_dims):
    task = Autoregression(3, order=order, noise=None, gain=1.0, slope=0.5, dtype=torch.float64)
    batch = task.sample(5, 20, generator=seeded(1), n_dims=n_dims)
    phi = task.features(batch).numpy()[:, batch.counted.numpy()]
    windows = [
        np.concatenate([batch.xs[:, t - lag].numpy() for lag in range(order - 1, -1, -1)], -1)
        for t in range(order - 1, 20)
    ]
    assert np.allclose(phi, by_hand(task.layers, 0.5, np.stack(windows, 1)) / task.phi_scale)
    for features, y in zip(phi, batch.ys.numpy()[:, batch.counted.numpy()], strict=True):
        solution = np.linalg.lstsq(features, y, rcond=None)[0]
        assert np.abs(features @ solution - y).max() < 1e-8


def test_only_wild_series_are_tamed():
    """Where the limit is never met, A is the one drawn: a larger limit changes nothing."""
    tame, free = (Autoregression(4, gain=0.3, limit=limit) for limit in (10.0, 1e6))
    first, second = (task.sample(50, 30, generator=seeded()) for task in (tame, free))
    assert torch.equal(first.xs, second.xs)
    wild = Autoregression(4, gain=3.0, limit=1e30).sample(50, 60, generator=seeded())
    assert wild.ys.abs().max() > 1e4


def test_series_that_cannot_be():
    with pytest.raises(InvalidParameter, match="`n_points` must be >= order = 3"):
        Autoregression(2).sample(1, 2, generator=seeded())
    with pytest.raises(InvalidParameter, match="`d_y` must be d_x = 2"):
        Autoregression(2, d_y=1)
    with pytest.raises(AssumptionViolated, match="Raise `limit`"):
        Autoregression(2, noise=StudentT(1.0, 100.0)).sample(4, 20, generator=seeded())


# -- chains -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_layers", [1, 2, 6])
@pytest.mark.parametrize("n_points", [1, 13, 14, 20])
def test_chains(n_layers, n_points):
    task = MLPChain(3, n_layers=n_layers, slope=0.2, dtype=torch.float64)
    batch = task.sample(4, n_points, generator=seeded())
    assert torch.equal(batch.xs[:, 1:], batch.ys[:, :-1])
    period = n_layers + 1
    assert task.period == period
    assert batch.counted.tolist() == [(i + 1) % period != 0 for i in range(n_points)]


@pytest.mark.parametrize("n_dims", [3, 2])
def test_states_of_one_layer_share_their_matrix(n_dims):
    """Undo the leaky ReLU: each layer is linear, with one matrix per prompt; new inputs are no state."""
    slope, n_layers, n_chains = 0.2, 3, 12
    task = MLPChain(3, n_layers=n_layers, slope=slope, dtype=torch.float64)
    batch = task.sample(4, n_chains * 4 - 1, generator=seeded(), n_dims=n_dims)
    tokens = torch.cat([batch.xs, batch.ys[:, -1:]], 1)[..., :n_dims]
    chains = tokens.reshape(4, n_chains, 4, n_dims)
    matrices = []
    for layer in range(n_layers):
        for b in range(4):
            before, after = chains[b, :, layer].numpy(), chains[b, :, layer + 1].numpy()
            undone = np.where(after > 0, after, after / slope)
            solution = np.linalg.lstsq(before, undone, rcond=None)[0]
            assert np.abs(before @ solution - undone).max() < 1e-10
            matrices.append(solution)
    assert len({round(float(m[0, 0]), 9) for m in matrices}) == len(matrices)


def test_states_keep_their_size():
    batch = MLPChain(20).sample(500, 7 * 2 - 1, generator=seeded())
    last = batch.ys[:, 5].double()  # s^6 of the first chain
    assert abs(last.square().mean() - 1) < 0.3
    assert torch.allclose(leaky_relu(last, 1.0), last)


def test_bad_chains():
    with pytest.raises(InvalidParameter, match="States are exact"):
        MLPChain(3, noise=Gaussian())
    with pytest.raises(InvalidParameter, match="`slope` must lie"):
        MLPChain(3, slope=0.0)
