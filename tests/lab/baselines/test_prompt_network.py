"""The network trained on the prompt against a plain training loop, one network at a time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from icgd.errors import InvalidParameter
from icgd.lab.baselines import PromptNetwork
from icgd.lab.metrics import r2_per_position
from icgd.lab.tasks import LinearRegression
from icgd.lab.tasks.batch import Batch


def sample(d=3, n_prompts=3, n_points=6, d_y=1, seed=0):
    task = LinearRegression(d, d_y=d_y)
    return task.sample(n_prompts, n_points, generator=torch.Generator().manual_seed(seed))


def one_network(baseline, batch, b, i):
    """Predictions at (b, i) after every epoch: nn.Sequential and a plain Adam."""
    start = baseline._start(len(batch.xs), batch.xs.shape[2], batch.ys.shape[2], i, "cpu")
    modules = []
    for W, bias in start:
        linear = nn.Linear(W.shape[1], W.shape[2])
        linear.weight.data = W[b].detach().T.clone()
        linear.bias.data = bias[b, 0].detach().clone()
        modules += [linear, nn.ReLU()]
    network = nn.Sequential(*modules[:-1])
    optimizer = torch.optim.Adam(
        network.parameters(), baseline.lr, weight_decay=baseline.weight_decay, foreach=False
    )
    seen = []
    for _ in range(baseline.n_epochs):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(batch.xs[b, :i]), batch.ys[b, :i]).backward()
        optimizer.step()
        seen.append(network(batch.xs[b, i]).detach())
    return torch.stack(seen)


@pytest.mark.parametrize("n_layers", [1, 2, 4])
@pytest.mark.parametrize("d_y", [1, 2])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_many_networks_are_trained_like_one(n_layers, d_y, weight_decay):
    batch = sample(d_y=d_y)
    baseline = PromptNetwork(n_layers, 7, n_epochs=12, lr=0.02, weight_decay=weight_decay, seed=3)
    fit = baseline.fit(batch)
    assert fit.epochs.shape == (12, 3, 6, d_y)
    for b in range(3):
        for i in (1, 4, 5):
            expected = one_network(baseline, batch, b, i)
            assert torch.allclose(fit.epochs[:, b, i], expected, rtol=1e-3, atol=1e-4)


def test_some_positions_are_those_of_all():
    batch, baseline = sample(), PromptNetwork(2, 5, n_epochs=4)
    whole, some = baseline.fit(batch), baseline.fit(batch, [0, 4])
    assert some.positions.tolist() == [0, 4]
    assert torch.equal(some.epochs, whole.epochs[:, :, [0, 4]])
    assert torch.equal(some.targets, batch.ys[:, [0, 4]])
    assert torch.equal(baseline(batch), whole.last)
    assert (whole.epochs[:, :, 0] == 0).all()
    with pytest.raises(InvalidParameter, match=r"lie in 0 \.\. 5"):
        baseline.fit(batch, [6])


def test_the_best_epoch_is_an_oracle_s():
    batch, baseline = sample(n_prompts=8), PromptNetwork(2, 16, n_epochs=30, lr=0.05)
    fit = baseline.fit(batch)
    scores = torch.stack([r2_per_position(epoch, fit.targets) for epoch in fit.epochs])
    assert torch.allclose(r2_per_position(fit.best, fit.targets), scores.max(0).values)
    for p, epoch in enumerate(fit.best_epochs.tolist()):
        assert torch.equal(fit.best[:, p], fit.epochs[epoch, :, p])
    # The choice sees the targets: other targets at the end, same training, another choice.
    moved = Batch(batch.xs, torch.cat([batch.ys[:, :-1], 100 + batch.ys[:, -1:]], 1))
    other = baseline.fit(moved, [5])
    assert torch.equal(other.epochs[:, :, 0], fit.epochs[:, :, 5])
    assert other.best_epochs[0] != fit.best_epochs[5]


def test_it_learns():
    batch = sample(d=2, n_prompts=16, n_points=30)
    fit = PromptNetwork(3, 32).fit(batch, [29])
    assert r2_per_position(fit.last, fit.targets) > 0.8


def test_seeds_differ_and_repeat():
    batch = sample()
    first, again, other = (PromptNetwork(2, 5, n_epochs=3, seed=s)(batch) for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_it_trains_where_gradients_are_off():
    batch = sample()
    with torch.no_grad():
        quiet = PromptNetwork(2, 5, n_epochs=3)(batch)
    assert torch.equal(quiet, PromptNetwork(2, 5, n_epochs=3)(batch))
